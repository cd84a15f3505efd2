package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/riverqueue/river"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payments"
)

// LookupResult is the result of a lookup, as the metric names it.
type LookupResult string

// The results of a lookup.
const (
	Resolved   LookupResult = "resolved"  // the key is completed, or free to be executed again
	Scheduled  LookupResult = "scheduled" // the key will be looked up again
	ToOperator LookupResult = "failed"    // a dead letter is open
	Moot       LookupResult = "moot"      // the key is not unknown any more, or somebody else has changed it
)

// lookUp looks up one key at the PSP.
func (r *Reconciler) lookUp(ctx context.Context, job *river.Job[lookupArgs]) error {
	due := idempotency.Due{
		Ref: idempotency.StoredRef(job.Args.Tenant, job.Args.Operation, job.Args.Key), Generation: job.Args.Generation,
		Subject: job.Args.Subject,
	}
	result, err := r.LookUpDue(ctx, due, judge.LookupPolicy{Budget: r.LookupBudget, Base: r.LookupBase,
		Cap: r.LookupCap, Recheck: r.LookupRecheck, Chance: r.Jitter()})
	if err != nil {
		return err
	}
	r.countLookup(result)
	return nil
}

func (r *Reconciler) countLookup(result LookupResult) {
	if result != Moot {
		r.Metrics.Reconciled(string(result), string(judge.SourceLookup))
	}
}

// LookUpDue asks the PSP once about an unknown key, and writes what the answer proves. It may run again at any time and
// any number of times, because each write passes only if the key is as it was judged.
func (r *Reconciler) LookUpDue(ctx context.Context, due idempotency.Due, p judge.LookupPolicy) (LookupResult, error) {
	g, err := r.Payments.GatherDue(ctx, due)
	switch {
	case errors.Is(err, idempotency.ErrNoKey):
		return Moot, nil
	case err != nil:
		return "", err
	case g.Seen.Status != idempotency.UnknownStatus:
		return Moot, nil
	}
	ctx, span := r.Tracer.Later(ctx, string(judge.SourceLookup), g.Seen.Own.Subject)
	defer span.End()
	// Crash window 13: seen, not asked.
	answer, _, _, err := r.Payments.Ask(ctx, g, judge.MayEnd(g.Seen))
	if err != nil {
		return "", err
	}
	switch l := answer.(type) { // Crash window 14: asked, not written.
	case gateway.Found:
		return r.found(ctx, g, l.Records, p)
	case gateway.NotFound: // Crash window 30: cancelled, not released. The next lookup finds that it is cancelled.
		return r.once(ctx, g, judge.Nothing{Final: l.Final, Policy: p})
	case gateway.Waiting:
		return r.once(ctx, g, judge.Waiting{Reason: l.Reason, Policy: p})
	case gateway.LookupFailed:
		return r.once(ctx, g, judge.NoAnswer{Reason: l.Reason, NotAsked: l.NotAsked, Policy: p})
	default:
		return "", fmt.Errorf("lookup %T is not known", l)
	}
}

// found judges each record under the key. There should be one. Each further record is evidence that the PSP
// has executed the request twice. Executed records come first: nobody may be told of a decline if money has moved.
func (r *Reconciler) found(
	ctx context.Context, g payments.Gathered, records []gateway.Record, p judge.LookupPolicy,
) (LookupResult, error) {
	result := Moot
	for _, record := range executedFirst(records) {
		last, step, _, err := r.Payments.JudgeAndApply(ctx, g,
			judge.Record{Source: judge.SourceLookup, PSP: g.Seen.PSP, Record: record, Policy: p})
		if err != nil {
			return "", err
		}
		// The next record is judged by the state after this one. A step that postpones the key has written its row. The
		// row is read again: otherwise the next step would take our own write for somebody else's.
		if g = last; step.AskAgain() != nil {
			if g, err = r.Payments.Gather(ctx, g.Seen.Own); err != nil {
				return "", err
			}
		} else {
			g.Seen = g.Seen.After(step)
		}
		switch {
		case step.Open() != nil:
			result = ToOperator
		case step.To() == idempotency.CompletedStatus && result == Moot:
			result = Resolved
		}
	}
	return result, nil // Crash window 15: written, the job not done. Its next run finds that the key is not unknown.
}

// executedFirst puts executed records before the others. Otherwise it keeps the PSP's order.
func executedFirst(records []gateway.Record) []gateway.Record {
	executed := func(r gateway.Record) int {
		if r.Executed() {
			return 0
		}
		return 1
	}
	sorted := slices.Clone(records)
	slices.SortStableFunc(sorted, func(a, b gateway.Record) int { return executed(a) - executed(b) })
	return sorted
}

// once judges an answer without a record, and writes the step. It judges by the state before the PSP was asked, and
// does not read the key again if the key has moved: "not found" is proof only if the PSP was asked after the grace
// period.
func (r *Reconciler) once(ctx context.Context, g payments.Gathered, e judge.Evidence) (LookupResult, error) {
	step := judge.Judge(g.Seen, e)
	applied, err := r.Payments.Apply(ctx, g, step)
	switch {
	case err != nil:
		return "", fmt.Errorf("write what the lookup proves: %w", err)
	case applied.Doubt:
		return "", errors.New("write what the lookup proves: the acknowledgement was lost; the next lookup will tell")
	case !applied.Passed:
		return Moot, nil // The key has moved, or somebody has opened a dead letter about it.
	case step.To() != "":
		return Resolved, nil
	case step.Open() != nil || g.Seen.Held:
		return ToOperator, nil
	}
	return Scheduled, nil
}
