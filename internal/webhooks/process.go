package webhooks

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"payonce/internal/postgres"
	"payonce/internal/webhooks/internal/dbsqlc"
)

// ErrNoEvent says that there is no event with that id. It was never stored, or it was processed and then pruned.
var ErrNoEvent = errors.New("no such webhook event")

// Stored is an event as it is stored.
type Stored struct {
	Event

	Processed bool
}

// Load reads an event. It fails with ErrNoEvent.
func (i *Inbox) Load(ctx context.Context, id string) (Stored, error) {
	row, err := dbsqlc.New(i.db.Reader()).GetEvent(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return Stored{}, ErrNoEvent
	}
	if err != nil {
		return Stored{}, fmt.Errorf("load webhook: %w", err)
	}
	return Stored{Event{ID: id, SentAt: row.SentAt, Body: row.Body}, row.Processed}, nil
}

// Processed is the call that marks an event as processed, with its result, for a caller whose changes commit with it.
// If the event was processed before, the first result stays, and the transaction does not fail: a job may run twice.
func Processed(id, result string) postgres.Call {
	return func(ctx context.Context, q postgres.Statement) error {
		_, err := dbsqlc.New(q).SetResult(ctx, dbsqlc.SetResultParams{ID: id, Result: &result})
		return err
	}
}

// MarkProcessed is Processed in a transaction of its own.
func (i *Inbox) MarkProcessed(ctx context.Context, id, result string) error {
	if err := i.db.Pipeline(ctx, Processed(id, result)); err != nil {
		return fmt.Errorf("mark webhook processed: %w", err)
	}
	return nil
}

// ReopenTx marks a stored event as not processed, in the caller's transaction. The caller enqueues the event again in
// that transaction. ReopenTx fails with ErrNoEvent if the event has been pruned.
func ReopenTx(ctx context.Context, tx pgx.Tx, id string) error {
	rows, err := dbsqlc.New(tx).SetResult(ctx, dbsqlc.SetResultParams{ID: id})
	switch {
	case err != nil:
		return fmt.Errorf("reopen event: %w", err)
	case rows == 0:
		return ErrNoEvent
	}
	return nil
}
