package payments

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
)

// putUnreadable opens a dead letter for a record that cannot be read: the walk goes on behind it. The finding is named by the record's bytes,
// since any other name in it may be what is wrong.
func (s *Service) putUnreadable(ctx context.Context, w walk, u gateway.Unreadable) (Finding, error) {
	kept := struct {
		Source Source         `json:"source"`
		ID     string         `json:"id,omitzero"` // what it calls itself
		Record jsontext.Value `json:"record,omitzero"`
		Text   string         `json:"text,omitzero"` // the beginning of what cannot be stored as JSON
	}{Source: SourceScan, ID: u.ID}
	if gateway.Storable(u.Raw) {
		kept.Record = u.Raw
	} else {
		kept.Text = gateway.Beginning(u.Raw)
	}
	what := string(w.object)
	if u.ID != "" {
		what += " " + u.ID
	}
	reason := "the PSP lists a " + what + " of account " + w.account + " that cannot be read: " + u.Reason
	letter, err := s.ledgerLetter(deadletters.UnreadableRecord, recordFinding(w.account, u.Name), reason, kept)
	if err != nil {
		return nil, err
	}
	var opened bool
	if err := s.db.Pipeline(ctx, deadletters.OpenNew(letter, &opened)); err != nil {
		return nil, fmt.Errorf("open dead letter: %w", err)
	}
	return Lettered{Kind: letter.Kind, New: opened}, nil
}

// ledgerLetter is a dead letter about the PSP's list, which belongs to no key.
func (s *Service) ledgerLetter(kind deadletters.Kind, finding, reason string, evidence any) (deadletters.Letter, error) {
	id, err := s.newID()
	if err != nil {
		return deadletters.Letter{}, fmt.Errorf("make dead letter id: %w", err)
	}
	raw, err := json.Marshal(evidence)
	if err != nil {
		return deadletters.Letter{}, fmt.Errorf("marshal evidence: %w", err)
	}
	return deadletters.Letter{ID: id, Kind: kind, Finding: finding, Reason: clip(reason), Evidence: raw}, nil
}
