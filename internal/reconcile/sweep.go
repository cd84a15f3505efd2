package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"payonce/internal/idempotency"
	"payonce/internal/postgres"
)

// Bounds of one run. What is left is left to the next, which comes soon.
const (
	sweepBatch  = 500
	sweepRounds = 20
)

// hidden is how long a key is out of sight of other claimers: longer than its job may take, with a retry.
const hidden = 2 * jobTimeout

// sweep makes keys unknown whose leases are over, and enqueues their resolution in the same transaction: a key cannot become unknown without
// somebody who will look after it.
type sweep struct {
	river.WorkerDefaults[sweepArgs]

	r *Reconciler
}

func (w *sweep) Work(ctx context.Context, _ *river.Job[sweepArgs]) error {
	return w.r.inBatches(ctx, func(ctx context.Context, tx pgx.Tx) ([]idempotency.Due, error) {
		due, err := w.r.keys.SweepTx(ctx, tx, sweepBatch, hidden)
		w.r.metrics.Swept(len(due))
		return due, err
	})
}

// claim enqueues the resolution of the unknown keys that are due.
type claim struct {
	river.WorkerDefaults[claimArgs]

	r *Reconciler
}

func (w *claim) Work(ctx context.Context, _ *river.Job[claimArgs]) error {
	return w.r.inBatches(ctx, func(ctx context.Context, tx pgx.Tx) ([]idempotency.Due, error) {
		return w.r.keys.ClaimDueTx(ctx, tx, sweepBatch, hidden)
	})
}

// inBatches takes keys and enqueues their resolution, one transaction at a time, until there are no more.
func (r *Reconciler) inBatches(ctx context.Context, take func(context.Context, pgx.Tx) ([]idempotency.Due, error)) error {
	for range sweepRounds {
		var taken int
		err := r.db.Transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
			due, err := take(ctx, tx)
			if taken = len(due); err != nil || taken == 0 {
				return err
			}
			return r.enqueueTx(ctx, tx, due) // Crash window 11: taken and enqueued, not committed.
		})
		// Crash window 12: committed, and this process does not know.
		var ambiguous *postgres.AmbiguousError
		switch {
		case errors.As(err, &ambiguous):
			r.metrics.CommitAmbiguous() // either way it is consistent, and the next round goes on from there
		case err != nil:
			return fmt.Errorf("take keys: %w", err)
		case taken < sweepBatch:
			return nil
		}
	}
	return nil
}

func (r *Reconciler) enqueueTx(ctx context.Context, tx pgx.Tx, due []idempotency.Due) error {
	jobs := make([]river.InsertManyParams, len(due))
	for i, d := range due {
		jobs[i].Args = resolveArgs{Tenant: d.Ref.Tenant, Operation: string(d.Ref.Operation), Key: d.Ref.Key.String(), Generation: d.Generation, Subject: d.Subject}
	}
	// Not InsertManyFastTx: it would fail on a key whose last job is still in the queue, and with it the whole batch, each time.
	for range maxRuns {
		found, err := r.client.InsertManyTx(ctx, tx, jobs)
		if err != nil {
			return fmt.Errorf("enqueue resolutions: %w", err)
		}
		if jobs = again(jobs, found); len(jobs) == 0 {
			return nil
		}
	}
	return nil
}

// maxRuns bounds the runs of one key whose ends are not written yet. The next one has to wait until the key is in sight again.
const maxRuns = 10

// again are jobs for the keys that are due while the queue has their last run as running: it has said when to ask again, and its own
// end is not written yet; or an operator wants the question asked anew. Left out as duplicates, they would be hidden without a job.
func again(jobs []river.InsertManyParams, found []*rivertype.JobInsertResult) (next []river.InsertManyParams) {
	for i, f := range found {
		args, isResolve := jobs[i].Args.(resolveArgs)
		if isResolve && f.UniqueSkippedAsDuplicate && f.Job.State == rivertype.JobStateRunning {
			args.After = f.Job.ID
			next = append(next, river.InsertManyParams{Args: args})
		}
	}
	return next
}

// resolve asks the PSP about one key.
type resolve struct {
	river.WorkerDefaults[resolveArgs]

	r *Reconciler
}

func (w *resolve) Work(ctx context.Context, job *river.Job[resolveArgs]) error {
	due := idempotency.Due{
		Ref: idempotency.StoredRef(job.Args.Tenant, job.Args.Operation, job.Args.Key), Generation: job.Args.Generation, Subject: job.Args.Subject,
	}
	resolution, err := w.r.resolver.Resolve(ctx, due)
	if err != nil {
		return err
	}
	w.r.countResolution(resolution)
	return nil
}

// jobTimeout ends a run that hangs, rescueAfter makes a job of a dead process available again: later, or a living run would be
// doubled for nothing.
const (
	jobTimeout  = 30 * time.Second
	rescueAfter = 90 * time.Second
)
