package payments

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5"

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
	opened, err := s.openLedgerLetter(ctx, deadletters.UnreadableRecord, recordFinding(w.account, u.Name), reason, kept)
	if err != nil {
		return nil, err
	}
	return Lettered{Kind: deadletters.UnreadableRecord, New: opened}, nil
}

// openLedgerLetter opens a dead letter that belongs to no key, and reports whether it is a new one.
func (s *Service) openLedgerLetter(
	ctx context.Context, kind deadletters.Kind, finding, reason string, evidence any,
) (opened bool, err error) {
	id, err := s.newID()
	if err != nil {
		return false, fmt.Errorf("make dead letter id: %w", err)
	}
	raw, err := json.Marshal(evidence)
	if err != nil {
		return false, fmt.Errorf("marshal evidence: %w", err)
	}
	b := &pgx.Batch{}
	deadletters.QueueOpenNew(b, deadletters.Letter{ID: id, Kind: kind, Finding: finding, Reason: clip(reason), Evidence: raw}, &opened)
	if err := s.db.Send(ctx, b); err != nil {
		return false, fmt.Errorf("open dead letter: %w", err)
	}
	return opened, nil
}
