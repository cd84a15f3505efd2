package reconcile

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/judge"
	"payonce/internal/payments"
)

// putUnreadable opens a dead letter for a record that cannot be read, so that the walk can continue after the record.
// The finding is named after the record's bytes, because the record's id may be the part that is wrong.
func (r *Reconciler) putUnreadable(ctx context.Context, w walk, u gateway.Unreadable) (payments.Effect, error) {
	kept := struct {
		Source judge.Source   `json:"source"`
		ID     string         `json:"id,omitzero"` // the record's own id, if it can be read
		Record jsontext.Value `json:"record,omitzero"`
		Text   string         `json:"text,omitzero"` // the first bytes, if the record cannot be stored as JSON
	}{Source: judge.SourceScan, ID: u.ID}
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
	deadLetter, err := r.deadLetter(deadletters.UnreadableRecord, judge.RecordFinding(w.account, u.Name),
		reason, kept)
	if err != nil {
		return nil, err
	}
	var opened bool
	if err := r.DB.Pipeline(ctx, deadletters.OpenNew(deadLetter, &opened)); err != nil {
		return nil, fmt.Errorf("open dead letter: %w", err)
	}
	return payments.DeadLettered{Kind: deadLetter.Kind, New: opened}, nil
}

// deadLetter is one about what cannot be read, or cannot be read on. It belongs to no key.
func (r *Reconciler) deadLetter(
	kind deadletters.Kind, finding, reason string, evidence any,
) (deadletters.DeadLetter, error) {
	id, err := r.NewID()
	if err != nil {
		return deadletters.DeadLetter{}, fmt.Errorf("make dead letter id: %w", err)
	}
	raw, err := json.Marshal(evidence)
	if err != nil {
		return deadletters.DeadLetter{}, fmt.Errorf("marshal evidence: %w", err)
	}
	return deadletters.DeadLetter{ID: id, Kind: kind, Finding: finding, Reason: deadletters.Clip(reason),
		Evidence: raw}, nil
}
