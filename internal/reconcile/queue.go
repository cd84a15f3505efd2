package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"payonce/internal/postgres"
)

// Queue puts jobs into the caller's transactions and works none. The API process and the operator's desk have one.
type Queue struct{ client *river.Client[pgx.Tx] }

// NewQueue returns a Queue.
func NewQueue(log *slog.Logger) (*Queue, error) {
	client, err := river.NewClient(riverpgxv5.New(nil), &river.Config{Logger: log})
	if err != nil {
		return nil, fmt.Errorf("make queue: %w", err)
	}
	return &Queue{client: client}, nil
}

// WebhookTx has an event processed that is stored, in the caller's transaction or before, once that transaction has committed.
func (q *Queue) WebhookTx(ctx context.Context, tx pgx.Tx, eventID string) error {
	return q.insert(ctx, tx, func(after int64) river.JobArgs { return webhookArgs{EventID: eventID, After: after} })
}

// EvidenceTx has a record of the PSP's weighed again.
func (q *Queue) EvidenceTx(ctx context.Context, tx pgx.Tx, record []byte) error {
	return q.insert(ctx, tx, func(after int64) river.JobArgs { return evidenceArgs{Record: jsontext.Value(record), After: after} })
}

// Refusals of RetryTx. The transaction is of no use any more after the second.
var (
	ErrJobForgotten = errors.New("the queue has forgotten the job")
	ErrJobQueued    = errors.New("an equal job is in the queue")
)

// RetryTx has a job run again that was given up.
func (q *Queue) RetryTx(ctx context.Context, tx pgx.Tx, jobID int64) error {
	_, err := q.client.JobRetryTx(ctx, tx, jobID)
	switch {
	case errors.Is(err, river.ErrNotFound):
		return ErrJobForgotten
	case postgres.Violates(err, "river_job_unique_idx"):
		return ErrJobQueued
	case err != nil:
		return fmt.Errorf("retry job: %w", err)
	}
	return nil
}

// insert puts a job into the queue unless an equal one waits there. One whose last run counts as running does not wait: its work is done,
// and its end not written yet.
func (q *Queue) insert(ctx context.Context, tx pgx.Tx, job func(after int64) river.JobArgs) error {
	var after int64
	for range maxRuns {
		args := job(after)
		found, err := q.client.InsertTx(ctx, tx, args, nil)
		switch {
		case err != nil:
			return fmt.Errorf("enqueue %s: %w", args.Kind(), err)
		case !found.UniqueSkippedAsDuplicate || found.Job.State != rivertype.JobStateRunning:
			return nil
		}
		after = found.Job.ID
	}
	return nil
}
