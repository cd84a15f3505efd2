package payments

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters"
	"payonce/internal/idempotency"
	"payonce/internal/payments/internal/dbsqlc"
	"payonce/internal/postgres"
)

// postpone writes when to ask again, with the letter that goes with it. It comes to what the caller says, or to Moot when the key is
// not unknown any more: then there is no letter either.
func (r *Resolver) postpone(
	ctx context.Context, c *caseFile, to Resolution, after time.Duration, failures int32, reason string, letter *deadletters.Letter,
) (Resolution, error) {
	b, unknown := &pgx.Batch{}, false
	r.service.keys.QueuePostpone(b, c.execution, after, failures, idempotency.Note{Actor: string(SourceLookup), Reason: clip(reason)})
	queueIsUnknown(b, c.execution, &unknown)
	var err error
	if letter == nil {
		err = r.service.db.Send(ctx, b)
	} else {
		err = r.service.db.Transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
			if err := postgres.SendTx(ctx, tx, b); err != nil || !unknown {
				return err
			}
			b := &pgx.Batch{}
			deadletters.QueueOpen(b, *letter)
			return postgres.SendTx(ctx, tx, b)
		})
	}
	switch {
	case err != nil:
		return "", fmt.Errorf("postpone lookup: %w", err)
	case !unknown:
		return Moot, nil
	}
	return to, nil
}

// queueIsUnknown asks whether the execution is unknown still.
func queueIsUnknown(b *pgx.Batch, e idempotency.Execution, unknown *bool) {
	q := postgres.On(b)
	_, _ = dbsqlc.New(q).IsUnknown(context.Background(), dbsqlc.IsUnknownParams{
		Scope: string(e.Ref.Scope), Key: e.Ref.Key.String(), Generation: e.Generation, Attempt: e.Attempt,
	})
	postgres.Scalar(q, func(is *bool) error {
		*unknown = is != nil && *is
		return nil
	})
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
