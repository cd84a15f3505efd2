package reconcile

import (
	"context"
	"time"

	"github.com/riverqueue/river"
	"golang.org/x/time/rate"
)

// Bounds of the pruner. It has time: what it does not take in this run, it takes in its next one.
const (
	pruneBatch = 250              // rows in a transaction
	longestRun = 25 * time.Second // jobTimeout is longer
)

// prune expires keys whose retention is over, and deletes what has been kept long enough after that.
type prune struct {
	river.WorkerDefaults[pruneArgs]

	r *Reconciler
}

func (w *prune) Work(ctx context.Context, _ *river.Job[pruneArgs]) error {
	return Paced(ctx, w.r.settings.PruneRate, min(w.r.settings.PruneEvery*9/10, longestRun),
		// Crash window 24: over, or expired and not known to be.
		func(ctx context.Context, limit int32) (int64, error) {
			n, err := w.r.keys.Expire(ctx, limit)
			w.r.metrics.Pruned(n)
			return n, err
		},
		// Crash window 25: expired, or deleted and not known to be.
		w.r.keys.Delete,
		// Crash window 26: the same of webhooks.
		func(ctx context.Context, limit int32) (int64, error) {
			return w.r.inbox.Prune(ctx, w.r.settings.WebhookRetention, limit)
		})
}

// Walk prunes up to limit rows, and tells how many there were: fewer than limit when it has come to the end.
type Walk func(ctx context.Context, limit int32) (int64, error)

// Paced takes walks by turns, a batch of each, so many rows of each per second. It ends when all have come to their ends, or after a time: the run has to be
// over when the next one begins.
func Paced(ctx context.Context, perSecond int32, longest time.Duration, walks ...Walk) error {
	batch := min(perSecond, pruneBatch)
	pace := rate.NewLimiter(rate.Limit(perSecond)/rate.Limit(batch), 1)
	run, done := context.WithTimeout(ctx, longest)
	defer done()
	for len(walks) > 0 {
		if pace.Wait(run) != nil {
			return context.Cause(ctx) // none, if the run's time is over
		}
		var unfinished []Walk
		for _, walk := range walks {
			n, err := walk(ctx, batch)
			if err != nil {
				return err
			}
			if n == int64(batch) {
				unfinished = append(unfinished, walk)
			}
		}
		walks = unfinished
	}
	return nil
}
