package payments

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters"
	"payonce/internal/idempotency"
	"payonce/internal/postgres"
)

// postpone writes when to ask again, with the letter that goes with it. It comes to what the caller says, or to Moot when the key is
// not unknown any more: then there is no letter either.
func (r *Resolver) postpone(
	ctx context.Context, c *caseFile, to Resolution, after time.Duration, failures int32, reason string, letter *deadletters.Letter,
) (Resolution, error) {
	s, passage := r.service, idempotency.Passage{}
	note := idempotency.Note{Actor: string(SourceLookup), Reason: clip(reason)}
	queue := func(b *pgx.Batch) { s.keys.QueuePostpone(b, c.execution, after, failures, note, &passage) }
	var err error
	if letter == nil {
		err = s.commit(ctx, c.execution.Ref, c.movement, false, queue)
	} else {
		err = s.db.Transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
			b := &pgx.Batch{}
			queue(b)
			if err := postgres.SendTx(ctx, tx, b); err != nil || !passage.Through {
				return err
			}
			b = &pgx.Batch{}
			deadletters.QueueOpen(b, *letter)
			return postgres.SendTx(ctx, tx, b) // Crash window 16: postponed and lettered, not committed.
		})
	}
	switch {
	case err != nil:
		return "", fmt.Errorf("postpone lookup: %w", err)
	case !passage.Through:
		return Moot, nil
	}
	return to, nil
}

// backoff doubles with each failure, up to the cap.
func (r *Resolver) backoff(failures int32) time.Duration {
	wait := r.patience.Base
	for ; failures > 0 && wait < r.patience.Cap; failures-- {
		wait *= 2
	}
	return min(wait, r.patience.Cap)
}

func (r *Resolver) shortened(wait time.Duration) time.Duration {
	return wait - time.Duration(r.patience.Jitter()*float64(wait)/2)
}
