package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"payonce/internal/deadletters"
	"payonce/internal/postgres"
)

// Queue inserts the jobs of operators in the caller's transactions, and runs none.
type Queue struct{ client *river.Client[pgx.Tx] }

// NewQueue returns a Queue.
func NewQueue(log *slog.Logger) (*Queue, error) {
	client, err := river.NewClient(riverpgxv5.New(nil), &river.Config{Logger: log})
	if err != nil {
		return nil, fmt.Errorf("make queue: %w", err)
	}
	return &Queue{client: client}, nil
}

// WebhookTx enqueues the processing of a stored event. The job runs after the transaction has committed. The event may
// be stored in the same transaction or before.
func (q *Queue) WebhookTx(ctx context.Context, tx pgx.Tx, eventID string) error {
	return q.insert(ctx, tx, func(after int64) river.JobArgs { return webhookArgs{EventID: eventID, After: after} })
}

// EvidenceTx enqueues another judgement of a record of the PSP.
func (q *Queue) EvidenceTx(ctx context.Context, tx pgx.Tx, record []byte) error {
	return q.insert(ctx, tx, func(after int64) river.JobArgs { return evidenceArgs{Record: record, After: after} })
}

// RetryTx makes a discarded job run again. It fails with deadletters.ErrGone or deadletters.ErrQueued.
func (q *Queue) RetryTx(ctx context.Context, tx pgx.Tx, jobID int64) error {
	_, err := q.client.JobRetryTx(ctx, tx, jobID)
	switch {
	case errors.Is(err, river.ErrNotFound):
		return deadletters.ErrGone
	case postgres.Violates(err, "river_job_unique_idx"):
		return deadletters.ErrQueued
	case err != nil:
		return fmt.Errorf("retry job: %w", err)
	}
	return nil
}

// insert inserts a job, unless an equal job is waiting in the queue. An equal job that counts as running is not
// waiting: it may have done its work already, and only its end is not stored yet. Then insert inserts another job.
func (q *Queue) insert(ctx context.Context, tx pgx.Tx, job func(after int64) river.JobArgs) error {
	var after int64
	for range maxRuns {
		args := job(after)
		found, err := q.client.InsertTx(ctx, tx, args, nil)
		switch {
		case err != nil:
			return fmt.Errorf("enqueue %s: %w", args.Kind(), err)
		case found.Job.State != rivertype.JobStateRunning: // a new job, or an equal one that waits
			return nil
		}
		after = found.Job.ID
	}
	return nil
}
