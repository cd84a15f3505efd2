package reconcile

import (
	"context"
	"time"

	"github.com/riverqueue/river"
	"golang.org/x/time/rate"
)

// Bounds of the pruner. It need not finish: rows that are left over are pruned in the next run.
const (
	pruneBatch = 250              // rows in one transaction
	longestRun = 25 * time.Second // shorter than jobTimeout
)

// webhookRetention is how long processed webhooks are kept. It is longer than any PSP repeats a delivery: one that came
// later would be processed again.
const webhookRetention = 7 * 24 * time.Hour

// prune expires keys whose retention is over, and deletes keys and webhooks that were kept long enough.
func (r *Reconciler) prune(ctx context.Context, _ *river.Job[pruneArgs]) error {
	return Paced(ctx, r.PruneRate, min(r.PruneEvery*9/10, longestRun),
		// Crash window 24: over, or expired and not known to be.
		func(ctx context.Context, limit int32) (int64, error) {
			n, err := r.Keys.Expire(ctx, limit)
			r.Metrics.Pruned(n)
			return n, err
		},
		// Crash window 25: expired, or deleted and not known to be.
		r.Keys.Delete,
		// Crash window 26: the same for webhooks.
		func(ctx context.Context, limit int32) (int64, error) {
			return r.Inbox.Prune(ctx, webhookRetention, limit)
		})
}

// Walk prunes up to limit rows, and returns how many it has pruned. The number is less than limit if there are no more.
type Walk func(ctx context.Context, limit int32) (int64, error)

// Paced calls the walks in turn, with one batch each, at a limited number of rows per second for each walk. It ends
// when all walks are at their end, or after the time longest, because a run must end before the next one begins.
func Paced(ctx context.Context, perSecond int32, longest time.Duration, walks ...Walk) error {
	batch := min(perSecond, pruneBatch)
	pace := rate.NewLimiter(rate.Limit(perSecond)/rate.Limit(batch), 1)
	run, done := context.WithTimeout(ctx, longest)
	defer done()
	for len(walks) > 0 {
		if pace.Wait(run) != nil {
			return context.Cause(ctx) // This is nil if only the time of this run is over.
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
