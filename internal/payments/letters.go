package payments

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters"
	"payonce/internal/idempotency"
)

// keyLetter is a dead letter about a key, one per kind.
func (s *Service) keyLetter(
	kind deadletters.Kind, e idempotency.Execution, m movement, reason string, evidence []byte,
) (deadletters.Letter, error) {
	id, err := s.newID()
	if err != nil {
		return deadletters.Letter{}, fmt.Errorf("make dead letter id: %w", err)
	}
	if evidence, err = withAsked(evidence, m); err != nil {
		return deadletters.Letter{}, err
	}
	about := aboutKey(m, e)
	return deadletters.Letter{
		ID: id, Kind: kind, Finding: about.KeyFinding(e.Subject), About: &about, Subject: &e.Subject,
		Reason: clip(reason), Evidence: evidence,
	}, nil
}

// aboutKey names the key of an execution as a dead letter does.
func aboutKey(m movement, e idempotency.Execution) deadletters.About {
	return deadletters.About{
		Tenant: m.onBehalfOf().Tenant, Scope: string(e.Ref.Scope), Key: e.Ref.Key.String(), Generation: e.Generation,
	}
}

// contradictionFinding names a contradiction by the key and the PSP's record. A second record that contradicts the same request is another case. So is
// the same record under another key: each key needs a letter of its own, which holds it.
func contradictionFinding(l deadletters.Letter, id string) string { return l.Finding + " record " + id }

// withAsked adds to evidence what had been asked for: who decides has to hold one against the other.
func withAsked(evidence []byte, m movement) ([]byte, error) {
	kept := map[string]jsontext.Value{}
	if len(evidence) > 0 {
		if err := json.Unmarshal(evidence, &kept); err != nil {
			return nil, fmt.Errorf("read evidence: %w", err)
		}
	}
	amount, currency := m.terms()
	raw, err := json.Marshal(struct {
		AmountCents AmountMinor `json:"amountCents"`
		Currency    Currency    `json:"currency"`
	}{amount, currency})
	if err != nil {
		return nil, fmt.Errorf("marshal what was asked: %w", err)
	}
	kept["asked"] = raw
	whole, err := json.Marshal(kept, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("marshal evidence: %w", err)
	}
	return whole, nil
}

// putAside opens a dead letter for a record that belongs to no key of ours.
func (s *Service) putAside(ctx context.Context, kind deadletters.Kind, e Evidence, reason string) (Finding, error) {
	id, err := s.newID()
	if err != nil {
		return nil, fmt.Errorf("make dead letter id: %w", err)
	}
	var opened bool
	b := &pgx.Batch{}
	deadletters.QueueOpenNew(b, deadletters.Letter{
		ID: id, Kind: kind, Finding: recordFinding(e.Record.Account, e.Record.ID), Reason: clip(reason),
		Evidence: evidenceOf(testimony{source: e.Source, evidence: e.Record.Evidence()}),
	}, &opened)
	if err := s.db.Send(ctx, b); err != nil {
		return nil, fmt.Errorf("open dead letter: %w", err)
	}
	return Lettered{Kind: kind, New: opened}, nil
}

// recordFinding names a record of the PSP's.
func recordFinding(account, id string) string { return "record " + account + " " + id }

// evidenceOf is a testimony as a dead letter keeps it.
func evidenceOf(t testimony) []byte {
	kept := struct {
		Source Source         `json:"source"`
		Record jsontext.Value `json:"record,omitzero"`
	}{t.source, t.evidence}
	raw, err := json.Marshal(kept)
	if err != nil {
		return []byte(`{}`)
	}
	return raw
}

// maxLetterReason is what the column takes, in characters.
const maxLetterReason = 500

func clip(s string) string {
	if r := []rune(s); len(r) > maxLetterReason {
		return string(r[:maxLetterReason])
	}
	return s
}
