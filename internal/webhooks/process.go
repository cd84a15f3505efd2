package webhooks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/internal/postgres"
	"payonce/internal/webhooks/internal/dbsqlc"
)

// ErrNoEvent says that there is no event of that id: it was never stored, or it was processed and has been pruned.
var ErrNoEvent = errors.New("no such webhook event")

// ErrProcessed says that an event was processed before.
var ErrProcessed = errors.New("webhook event is processed already")

// Stored is an event as it is kept.
type Stored struct {
	ID         string
	SentAt     time.Time // by the sender's clock
	ReceivedAt time.Time // by the database's clock
	Body       []byte    // the bytes that were signed
	Processed  bool
}

// Load reads an event, or fails with ErrNoEvent.
func (i *Inbox) Load(ctx context.Context, id string) (Stored, error) {
	row, err := dbsqlc.New(i.db.Reader()).GetEvent(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return Stored{}, ErrNoEvent
	}
	if err != nil {
		return Stored{}, fmt.Errorf("load webhook: %w", err)
	}
	return Stored{ID: row.ID, SentAt: row.SentAt, ReceivedAt: row.ReceivedAt, Body: row.Body, Processed: row.Processed}, nil
}

// Processed is the call that notes that an event is processed and what came of it, so that this commits together with what the event has
// changed. Where it was processed before, the first result stays: evidence may be applied twice, and a job may run twice, so
// that is no failure of the transaction.
func Processed(id, result string) postgres.Call { return processed(id, result, new(int64)) }

func processed(id, result string, marked *int64) postgres.Call {
	return func(ctx context.Context, q postgres.Statement) (err error) {
		*marked, err = dbsqlc.New(q).MarkProcessed(ctx, dbsqlc.MarkProcessedParams{ID: id, Result: result})
		return err
	}
}

// MarkProcessed notes that an event is processed and what came of it, or fails with ErrProcessed. As only processed events are
// pruned, that is also true of one that has gone since it was loaded.
func (i *Inbox) MarkProcessed(ctx context.Context, id, result string) error {
	var marked int64
	err := i.db.Pipeline(ctx, processed(id, result, &marked))
	if err != nil {
		return fmt.Errorf("mark webhook processed: %w", err)
	}
	if marked == 0 {
		return ErrProcessed
	}
	return nil
}

// ReopenTx has a stored message count as not processed, in the caller's transaction, which enqueues it again. It fails with ErrNoEvent
// when the message has been pruned.
func ReopenTx(ctx context.Context, tx pgx.Tx, id string) error {
	rows, err := dbsqlc.New(tx).ReopenEvent(ctx, id)
	switch {
	case err != nil:
		return fmt.Errorf("reopen event: %w", err)
	case rows == 0:
		return ErrNoEvent
	}
	return nil
}
