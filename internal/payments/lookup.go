package payments

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
)

// Patience is how long, and how often, the PSP is asked what became of a key.
type Patience struct {
	Budget  int32         // lookups in a row that the PSP does not answer; then it is an operator's case
	Base    time.Duration // wait after the first of them, doubled by each
	Cap     time.Duration // the longest wait
	Recheck time.Duration // wait between lookups of a key that an operator has
	// Jitter draws from [0, 1): waits are shortened by up to a half, so that keys lost together do not come back together.
	Jitter func() float64
}

// Resolver asks the PSP what became of unknown keys.
type Resolver struct {
	service  *Service
	patience Patience
}

// NewResolver returns a Resolver.
func NewResolver(s *Service, p Patience) *Resolver { return &Resolver{service: s, patience: p} }

// Resolution is what a lookup came to.
type Resolution string

// The resolutions.
const (
	Resolved   Resolution = "resolved"    // the key is completed, or free to be executed again
	Scheduled  Resolution = "scheduled"   // it will be asked again
	ToOperator Resolution = "dead_letter" // it will be asked again, seldom, and an operator has the case
	Moot       Resolution = "moot"        // somebody else was faster
)

// Resolve asks the PSP once for a key and writes what that proves. Running it again, at any point and any number of times, does
// no harm: every write starts from what was seen before the question.
func (r *Resolver) Resolve(ctx context.Context, due idempotency.Due) (Resolution, error) {
	g, err := r.service.gatherDue(ctx, due)
	switch {
	case errors.Is(err, idempotency.ErrNoKey):
		return Moot, nil
	case err != nil:
		return "", err
	case g.seen.Status != idempotency.UnknownStatus:
		return Moot, nil
	}
	// Crash window 13: seen, not asked.
	answer, _, err := r.service.ask(ctx, g)
	if err != nil {
		return "", err
	}
	switch l := answer.(type) { // Crash window 14: asked, not written.
	case gateway.Found:
		return r.found(ctx, g, l)
	case gateway.NotFound:
		return r.once(ctx, g, Nothing{Chance: r.patience.Jitter()})
	case gateway.LookupFailed:
		return r.once(ctx, g, NoAnswer{Reason: l.Reason, NotAsked: l.NotAsked, Chance: r.patience.Jitter()})
	default:
		return "", fmt.Errorf("lookup %T is not known", l)
	}
}

// found settles the key with each record under it. More than one is one too many, and each further one is evidence of that. What was executed comes
// first: nobody may be told of a refusal when money has moved.
func (r *Resolver) found(ctx context.Context, g gathered, l gateway.Found) (Resolution, error) {
	resolution := Moot
	for _, record := range executedFirst(l.Records) {
		last, step, _, err := r.service.settle(ctx, r.patience, g, Record{Source: SourceLookup, Record: record})
		if err != nil {
			return "", err
		}
		// The next record meets what this one has come to.
		if g = last; step.AskAgain != nil {
			if g, err = r.service.gather(ctx, g.seen.Own); err != nil {
				return "", err
			}
		} else {
			g.seen = g.seen.after(step)
		}
		switch {
		case step.Open != nil:
			resolution = ToOperator
		case step.To == idempotency.CompletedStatus && resolution == Moot:
			resolution = Resolved
		}
	}
	return resolution, nil // Crash window 15: written, and the job not done. It finds a key that is not unknown.
}

// executedFirst keeps the PSP's order otherwise.
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

// once judges an answer by what was seen before the question, and by nothing that is seen later: "nothing" proves something only if it was asked for after the
// grace period. A key that has moved meanwhile is not looked at again.
func (r *Resolver) once(ctx context.Context, g gathered, e Evidence) (Resolution, error) {
	step := judge(r.patience, g.seen, e)
	applied, err := r.service.apply(ctx, g, step, false)
	switch {
	case err != nil:
		return "", fmt.Errorf("write what the lookup proves: %w", err)
	case applied.Doubt:
		return "", errors.New("write what the lookup proves: the acknowledgement was lost; the next lookup will tell")
	case !applied.Through:
		return Moot, nil // the key has moved, or a dead letter about it was opened: then it is an operator's now
	case step.To != "":
		return Resolved, nil
	case step.Open != nil || g.seen.Held:
		return ToOperator, nil
	}
	return Scheduled, nil
}
