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
	"payonce/internal/payments"
	"payonce/internal/postgres"
)

// Bounds of one run. The next run, which comes soon, takes the keys that are left over.
const (
	sweepBatch  = 500
	sweepRounds = 20
)

// hidden is how long ClaimDueTx does not return a key again. It is longer than the key's job may take, with one retry.
const hidden = 2 * jobTimeout

// sweep makes keys unknown whose leases are over, and enqueues their lookups in the same transaction. So a key cannot
// become unknown without a job that looks it up.
func (r *Reconciler) sweep(ctx context.Context, _ *river.Job[sweepArgs]) error {
	return r.inBatches(ctx, func(ctx context.Context, tx pgx.Tx) ([]idempotency.Due, error) {
		due, err := r.Keys.SweepTx(ctx, tx, sweepBatch, hidden)
		if err != nil || len(due) == 0 {
			return nil, err
		}
		r.Metrics.Swept(len(due))
		return due, payments.TellLostTx(ctx, tx, due)
	})
}

// claim enqueues the lookups of the unknown keys that are due.
func (r *Reconciler) claim(ctx context.Context, _ *river.Job[claimArgs]) error {
	return r.inBatches(ctx, func(ctx context.Context, tx pgx.Tx) ([]idempotency.Due, error) {
		return r.Keys.ClaimDueTx(ctx, tx, sweepBatch, hidden)
	})
}

// inBatches takes keys and enqueues their lookups, one transaction after the other, until there are no more.
func (r *Reconciler) inBatches(
	ctx context.Context, take func(context.Context, pgx.Tx) ([]idempotency.Due, error),
) error {
	for range sweepRounds {
		var taken int
		err := r.DB.Transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
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
			r.Metrics.CommitAmbiguous() // Committed or not, keys and jobs agree. The next round continues from there.
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
		jobs[i].Args = lookupArgs{Tenant: d.Ref.Tenant, Operation: string(d.Ref.Operation), Key: d.Ref.Key.String(),
			Generation: d.Generation, Subject: d.Subject}
	}
	// Not InsertManyFastTx: it would fail on a key whose last job is still in the queue. Then the whole batch would
	// fail, each time.
	for range maxRuns {
		found, err := r.client.InsertManyTx(ctx, tx, jobs)
		if err != nil {
			return fmt.Errorf("enqueue lookups: %w", err)
		}
		if jobs = again(jobs, found); len(jobs) == 0 {
			return nil
		}
	}
	return nil
}

// maxRuns bounds how many jobs of one key count as running because their ends are not stored yet. If there are more,
// the key waits until it is due again.
const maxRuns = 10

// again returns new jobs for the keys whose last job still counts as running. That job may have done its work already,
// and only its end is not stored yet; or an operator wants another lookup now. Without a new job, such a key would be
// hidden and have no lookup.
func again(jobs []river.InsertManyParams, found []*rivertype.JobInsertResult) (next []river.InsertManyParams) {
	for i, f := range found {
		args, isLookup := jobs[i].Args.(lookupArgs)
		if isLookup && f.UniqueSkippedAsDuplicate && f.Job.State == rivertype.JobStateRunning {
			args.After = f.Job.ID
			next = append(next, river.InsertManyParams{Args: args})
		}
	}
	return next
}

// jobTimeout ends a run that hangs. rescueAfter makes the job of a dead process available again. It is longer than
// jobTimeout, so that a job that is still running is not started a second time.
const (
	jobTimeout  = 30 * time.Second
	rescueAfter = 90 * time.Second
)
