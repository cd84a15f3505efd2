package payments

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/postgres"
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
	s := r.service
	sight, c, err := s.look(ctx, due)
	switch {
	case errors.Is(err, idempotency.ErrNoKey):
		return Moot, nil
	case err != nil:
		return "", err
	case sight.Status != idempotency.UnknownStatus:
		return Moot, nil
	}
	// Crash window 13: seen, not asked.
	answer, _, err := s.ask(ctx, c)
	if err != nil {
		return "", err
	}
	switch l := answer.(type) { // Crash window 14: asked, not written.
	case gateway.Found:
		return r.found(ctx, c, sight, l)
	case gateway.NotFound:
		return r.notFound(ctx, c, sight)
	case gateway.LookupFailed:
		return r.unanswered(ctx, c, sight, l)
	default:
		return "", fmt.Errorf("lookup %T is not known", l)
	}
}

// found settles the key with the record: with what lies under its key, whatever that refers to. More than one is one too many, and each
// further one is evidence of that. What was executed comes first: nobody may be told of a refusal when money has moved.
func (r *Resolver) found(ctx context.Context, c *caseFile, sight idempotency.Sight, l gateway.Found) (Resolution, error) {
	resolution, known := Moot, false
	before := &keyState{execution: sight.Execution, status: sight.Status}
	for _, record := range executedFirst(l.Records) {
		if resolution == ToOperator && !known && !record.Executed() {
			break // money has moved, though not as asked
		}
		finding, err := r.service.settleCase(ctx, c, before, c.testify(Evidence{Source: SourceLookup, Record: record}))
		if err != nil {
			return "", err
		}
		before = nil // the next record meets what this one has come to
		switch finding.(type) {
		case Lettered:
			resolution = ToOperator
		case Settled:
			known = true
			if resolution == Moot {
				resolution = Resolved
			}
		case Confirmed, LeftAlone: // another writer was faster, or is at work: this lookup has resolved nothing
			known = true
		}
	}
	// Crash window 15: written, and the job not done. It finds a key that is not unknown.
	if resolution == ToOperator {
		// Also when a letter was there before. A key that has been completed is not moved by this.
		_, err := r.postpone(ctx, c, ToOperator, r.patience.Recheck, 0, "the PSP's record contradicts the request; an operator has the case", nil)
		return ToOperator, err
	}
	return resolution, nil
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

// notFound releases the key, if the question was asked when "nothing" had become a proof.
func (r *Resolver) notFound(ctx context.Context, c *caseFile, sight idempotency.Sight) (Resolution, error) {
	s := r.service
	switch {
	case sight.WindowLeft > 0:
		wait := max(min(sight.WindowLeft, r.shortened(r.patience.Cap)), time.Millisecond)
		return r.postpone(ctx, c, Scheduled, wait, 0, "the PSP has nothing, and could still execute it", nil)
	case sight.DeadLettered:
		return r.postpone(ctx, c, ToOperator, r.patience.Recheck, 0, "the PSP has nothing; an operator has the case", nil)
	case sight.MemoryOver:
		letter, err := s.keyLetter(deadletters.PSPMemoryOver, c.execution, c.movement,
			"the PSP finds nothing, but the key is older than its memory", nil)
		if err != nil {
			return "", err
		}
		return r.postpone(ctx, c, ToOperator, r.patience.Recheck, 0, "the PSP may have forgotten the key; an operator has the case", &letter)
	}
	passage, err := s.write(ctx, c, s.release(c, sight, idempotency.Note{
		Actor: string(SourceLookup), Reason: "the PSP has nothing after the settle window: not executed",
	}, s.keys.QueueReleaseUnknown), false)
	switch {
	case postgres.Violates(err, "idempotency_keys_dead_lettered_stay"):
		return Moot, nil // a letter was opened while we waited for the key's row: it is an operator's now
	case err != nil:
		return "", fmt.Errorf("release key: %w", err)
	case !passage.Through:
		return Moot, nil
	}
	return Resolved, nil
}

// release frees the key and takes the row out of processing.
func (s *Service) release(
	c *caseFile, sight idempotency.Sight, n idempotency.Note,
	queue func(*pgx.Batch, idempotency.Sight, idempotency.Note, *idempotency.Passage),
) weighed {
	return weighed{label: string(Failed), guarded: true, queue: func(b *pgx.Batch, out *written) {
		queue(b, sight, n, &out.passage)
		c.movement.queueSettle(b, sight.Execution, verdict{status: Failed}, idempotency.FailedRetryableStatus, &out.rows)
	}}
}

// unanswered waits longer each time, and calls an operator when the budget is spent. That is the PSP's budget: a question for which we had no
// place ourselves takes nothing of it.
func (r *Resolver) unanswered(ctx context.Context, c *caseFile, sight idempotency.Sight, l gateway.LookupFailed) (Resolution, error) {
	reason, failures := l.Reason, sight.LookupFailures+1
	switch {
	case l.NotAsked:
		return r.postpone(ctx, c, Scheduled, r.shortened(r.patience.Base), sight.LookupFailures, "the PSP was not asked: "+reason, nil)
	case sight.DeadLettered:
		return r.postpone(ctx, c, ToOperator, r.patience.Recheck, failures, "the PSP did not answer: "+reason, nil)
	case failures < r.patience.Budget:
		wait := r.shortened(r.backoff(sight.LookupFailures))
		return r.postpone(ctx, c, Scheduled, wait, failures, "the PSP did not answer: "+reason, nil)
	}
	letter, err := r.service.keyLetter(deadletters.LookupsExhausted, c.execution, c.movement,
		fmt.Sprintf("the PSP did not answer %d lookups in a row, at last: %s", failures, reason), nil)
	if err != nil {
		return "", err
	}
	return r.postpone(ctx, c, ToOperator, r.patience.Recheck, failures, "the PSP did not answer: "+reason+"; an operator has the case", &letter)
}
