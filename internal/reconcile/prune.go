package reconcile

import (
	"context"

	"github.com/riverqueue/river"
)

// Bounds of one run: small batches, so that payments never wait for the pruner, and an end, so that its run does not become its life.
const (
	pruneBatch  = 1000
	pruneRounds = 100
)

// prune expires keys whose retention is over, and deletes what has been kept long enough after that.
type prune struct {
	river.WorkerDefaults[pruneArgs]

	r *Reconciler
}

func (w *prune) Work(ctx context.Context, _ *river.Job[pruneArgs]) error {
	err := untilEmpty(ctx, func(ctx context.Context) (int64, error) {
		// Crash window 24: over, or expired and not known to be.
		n, err := w.r.keys.Expire(ctx, pruneBatch)
		w.r.metrics.Pruned(n)
		return n, err
	})
	if err != nil {
		return err
	}
	// Crash window 25: expired, or deleted and not known to be.
	if err := untilEmpty(ctx, func(ctx context.Context) (int64, error) { return w.r.keys.Delete(ctx, pruneBatch) }); err != nil {
		return err
	}
	// Crash window 26: the same of webhooks.
	return untilEmpty(ctx, func(ctx context.Context) (int64, error) {
		return w.r.inbox.Prune(ctx, w.r.settings.WebhookRetention, pruneBatch)
	})
}

func untilEmpty(ctx context.Context, batch func(context.Context) (int64, error)) error {
	for range pruneRounds {
		if n, err := batch(ctx); err != nil || n < pruneBatch {
			return err
		}
	}
	return nil
}
