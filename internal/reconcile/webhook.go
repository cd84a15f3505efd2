package reconcile

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/riverqueue/river"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/judge"
	"payonce/internal/payments"
	"payonce/internal/webhooks"
)

// The results of an event, as its row keeps them.
const (
	resultCompleted    = "resolved"
	resultConfirmed    = "confirmed"
	resultDeadLettered = "dead_letter"
	resultIgnored      = "ignored"
)

// processWebhook judges one stored event for the key that it is about.
func (r *Reconciler) processWebhook(ctx context.Context, job *river.Job[webhookArgs]) error {
	event, err := r.Inbox.Load(ctx, job.Args.EventID)
	switch {
	case errors.Is(err, webhooks.ErrNoEvent):
		return nil // The event was processed and then pruned. This is a late second run.
	case err != nil:
		return err
	}
	if event.Processed {
		return nil
	}
	result, err := r.judgeEvent(ctx, event)
	switch {
	case errors.Is(err, gateway.ErrPayload) || errors.Is(err, gateway.ErrUnknownType):
		return r.unmatched(ctx, event, err)
	case err != nil:
		return err
	}
	// Crash window 9: judged, not marked. The evidence is judged once more, which confirms it.
	if err := r.Inbox.MarkProcessed(ctx, event.ID, result); err != nil {
		return err
	}
	r.Metrics.WebhookLag(r.Now().Sub(event.SentAt))
	return nil // Crash window 10: marked, the job not done. Its next run finds the event processed.
}

// judgeEvent reads an event in the dialect of the PSP that has signed it, and judges what it says. It returns the
// result for the event's row.
func (r *Reconciler) judgeEvent(ctx context.Context, event webhooks.Stored) (result string, err error) {
	psp := webhooks.PSPOf(event.ID)
	said, err := r.PSPs.Of(psp).ParseEvent(event.Body)
	if err != nil {
		return "", err
	}
	switch said := said.(type) {
	case gateway.Moved:
		// Crash window 8: the job is taken, and the key has not moved.
		effect, err := r.Payments.ApplyRecord(ctx,
			judge.Record{Source: judge.SourceWebhook, PSP: psp, Record: said.Record})
		if err != nil {
			return "", fmt.Errorf("apply record of webhook: %w", err)
		}
		return r.countEffect(effect, judge.SourceWebhook), nil
	case gateway.Ignored: // An earlier version has stored it for a job.
		r.Metrics.Foreign("event", 1)
	}
	return resultIgnored, nil
}

// maxEvidence bounds the body that a dead letter shows, in bytes. A list of dead letters has many.
const maxEvidence = 64 << 10

// unmatched opens a dead letter for an event that is genuine and cannot be understood.
func (r *Reconciler) unmatched(ctx context.Context, event webhooks.Stored, cause error) error {
	evidence := struct {
		EventID string         `json:"eventId"`
		Body    jsontext.Value `json:"body,omitzero"`
		Text    string         `json:"text,omitzero"` // the first bytes, if the body cannot be stored as JSON
	}{EventID: event.ID}
	if len(event.Body) <= maxEvidence && gateway.Storable(event.Body) {
		evidence.Body = event.Body
	} else {
		evidence.Text = gateway.Beginning(event.Body)
	}
	deadLetter, err := r.deadLetter(deadletters.WebhookUnmatched, "webhook "+event.ID,
		"a genuine webhook that says nothing we understand: "+cause.Error(), evidence)
	if err != nil {
		return err
	}
	err = r.DB.Pipeline(ctx, deadletters.Open(deadLetter), webhooks.Processed(event.ID, resultDeadLettered))
	if err != nil {
		return fmt.Errorf("open dead letter: %w", err)
	}
	r.Metrics.WebhookLag(r.Now().Sub(event.SentAt))
	return nil
}

// judgeEvidence judges one record again.
func (r *Reconciler) judgeEvidence(ctx context.Context, job *river.Job[evidenceArgs]) error {
	record, err := gateway.ParseRecord(job.Args.Record)
	if err != nil {
		return fmt.Errorf("parse record: %w", err)
	}
	effect, err := r.Payments.ApplyRecord(ctx, judge.Record{Source: judge.SourceOperator, Record: record})
	if err != nil {
		return fmt.Errorf("apply record: %w", err)
	}
	r.countEffect(effect, judge.SourceOperator)
	return nil
}

// countEffect counts the effect of evidence, and returns the result for the event's row.
func (r *Reconciler) countEffect(f payments.Effect, source judge.Source) string {
	switch f := f.(type) {
	case payments.Completed:
		r.Metrics.Reconciled("resolved", string(source))
		return resultCompleted
	case payments.DeadLettered:
		if f.New { // A scan finds the same dead letter in each walk.
			r.Metrics.Reconciled("failed", string(source))
			r.Metrics.Discrepancy(string(f.Kind))
		}
		return resultDeadLettered
	case payments.Foreign:
		r.Metrics.Foreign("event", 1)
		return resultIgnored
	case payments.Confirmed:
	}
	return resultConfirmed
}
