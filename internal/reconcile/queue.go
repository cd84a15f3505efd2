package reconcile

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
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

// WebhookTx has a stored event processed, once the caller's transaction has committed.
func (q *Queue) WebhookTx(ctx context.Context, tx pgx.Tx, eventID string) error {
	return q.insert(ctx, tx, webhookArgs{EventID: eventID})
}

// EvidenceTx has a record of the PSP's weighed again.
func (q *Queue) EvidenceTx(ctx context.Context, tx pgx.Tx, record []byte) error {
	return q.insert(ctx, tx, evidenceArgs{Record: jsontext.Value(record)})
}

// RetryTx has a job run again that was given up.
func (q *Queue) RetryTx(ctx context.Context, tx pgx.Tx, jobID int64) error {
	if _, err := q.client.JobRetryTx(ctx, tx, jobID); err != nil {
		return fmt.Errorf("retry job: %w", err)
	}
	return nil
}

func (q *Queue) insert(ctx context.Context, tx pgx.Tx, args river.JobArgs) error {
	if _, err := q.client.InsertTx(ctx, tx, args, nil); err != nil {
		return fmt.Errorf("enqueue %s: %w", args.Kind(), err)
	}
	return nil
}
