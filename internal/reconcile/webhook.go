package reconcile

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/riverqueue/river"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/payments"
	"payonce/internal/webhooks"
)

// The results of an event, as its row keeps them.
const (
	resultSettled   = "settled"
	resultConfirmed = "confirmed"
	resultLettered  = "dead_letter"
)

// webhook brings the evidence of one stored event to the key that it is about.
type webhook struct {
	river.WorkerDefaults[webhookArgs]

	r *Reconciler
}

func (w *webhook) Work(ctx context.Context, job *river.Job[webhookArgs]) error {
	event, err := w.r.inbox.Load(ctx, job.Args.EventID)
	switch {
	case errors.Is(err, webhooks.ErrNoEvent):
		return nil // processed, and pruned since: this is a late second run
	case err != nil:
		return err
	}
	if event.Processed {
		return nil
	}
	payload, err := webhooks.ParsePayload(event.Body)
	if err != nil {
		return w.unmatched(ctx, event, err)
	}
	// Crash window 8: the job is taken, and the key has not moved.
	finding, err := w.r.payments.Settle(ctx, payments.Record{Source: payments.SourceWebhook, Record: payload.Record})
	if err != nil {
		return fmt.Errorf("settle by webhook: %w", err)
	}
	// Crash window 9: settled, not marked. The evidence is weighed once more, which confirms it.
	if err := w.r.inbox.MarkProcessed(ctx, event.ID, w.r.countFinding(finding, payments.SourceWebhook)); err != nil && !errors.Is(err, webhooks.ErrProcessed) {
		return err
	}
	w.r.metrics.WebhookLag(w.r.now().Sub(event.SentAt))
	return nil // Crash window 10: marked, and the job not done. It finds the event processed.
}

// unmatched gives an event to an operator that is genuine and says nothing that we understand.
func (w *webhook) unmatched(ctx context.Context, event webhooks.Stored, cause error) error {
	evidence := struct {
		EventID string         `json:"eventId"`
		Body    jsontext.Value `json:"body,omitzero"`
		Text    string         `json:"text,omitzero"` // the beginning of what is not JSON
	}{EventID: event.ID}
	if gateway.Storable(event.Body) {
		evidence.Body = event.Body
	} else {
		evidence.Text = gateway.Beginning(event.Body)
	}
	raw, err := json.Marshal(evidence)
	if err != nil {
		return fmt.Errorf("marshal evidence: %w", err)
	}
	id, err := w.r.newID()
	if err != nil {
		return fmt.Errorf("make dead letter id: %w", err)
	}
	letter := deadletters.Letter{
		ID: id, Kind: deadletters.WebhookUnmatched, Finding: "webhook " + event.ID, Evidence: raw,
		Reason: "a genuine webhook that says nothing we understand: " + cause.Error(),
	}
	err = w.r.db.Pipeline(ctx, deadletters.Open(letter), webhooks.Processed(event.ID, resultLettered))
	if err != nil {
		return fmt.Errorf("open dead letter: %w", err)
	}
	w.r.metrics.WebhookLag(w.r.now().Sub(event.SentAt))
	return nil
}

// evidence weighs one record again.
type evidence struct {
	river.WorkerDefaults[evidenceArgs]

	r *Reconciler
}

func (w *evidence) Work(ctx context.Context, job *river.Job[evidenceArgs]) error {
	record, err := gateway.ParseRecord(job.Args.Record)
	if err != nil {
		return fmt.Errorf("parse record: %w", err)
	}
	finding, err := w.r.payments.Settle(ctx, payments.Record{Source: payments.SourceOperator, Record: record})
	if err != nil {
		return fmt.Errorf("settle by record: %w", err)
	}
	w.r.countFinding(finding, payments.SourceOperator)
	return nil
}

// countFinding counts what evidence came to, and names it for the event's row.
func (r *Reconciler) countFinding(f payments.Finding, source payments.Source) string {
	switch f := f.(type) {
	case payments.Settled:
		r.metrics.Reconciled("resolved", string(source))
		return resultSettled
	case payments.Lettered:
		if f.New { // a scan sees the same thing again and again
			r.metrics.Reconciled("failed", string(source))
			r.metrics.Discrepancy(string(f.Kind))
		}
		return resultLettered
	case payments.Confirmed, payments.LeftAlone:
	}
	return resultConfirmed
}

func (r *Reconciler) countResolution(resolution payments.Resolution) {
	switch resolution {
	case payments.Resolved:
		r.metrics.Reconciled("resolved", string(payments.SourceLookup))
	case payments.Scheduled:
		r.metrics.Reconciled("scheduled", string(payments.SourceLookup))
	case payments.ToOperator:
		r.metrics.Reconciled("failed", string(payments.SourceLookup))
	case payments.Moot:
	}
}
