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

// EnqueueTx inserts the job of an event, in the caller's transaction, which has just stored the event.
type EnqueueTx func(ctx context.Context, tx pgx.Tx, eventID string) error

// Inbox stores the events.
type Inbox struct {
	db        *postgres.DB
	enqueueTx EnqueueTx
}

// New returns the inbox in db.
func New(db *postgres.DB, enqueueTx EnqueueTx) *Inbox { return &Inbox{db: db, enqueueTx: enqueueTx} }

// Event is one verified message. Its body may have up to 64 KiB.
type Event struct {
	ID     string    // the sender's webhook-id
	SentAt time.Time // the sender's webhook-timestamp
	Body   []byte    // the bytes that were signed, without secrets; not nil
}

// Receipt is the result of a delivery, as metrics name it. In each case the event and its job are stored, and a
// failover does not lose them.
type Receipt string

const (
	// Received says that the event was stored for the first time, or that its acknowledgement was lost and the event
	// was found.
	Received Receipt = "stored"
	// Duplicate says that the event was stored before. The body of this delivery is not read. The commit of the first
	// delivery may still wait for the standby, so this delivery waits until both are durable.
	Duplicate Receipt = "duplicate"
)

// Receive stores an event and inserts its job, in one transaction. After an error, the event may or may not be stored.
// The sender does not know it either, and sends the event again.
//
// If another delivery of the same event is being stored, Receive waits for that commit, at most for the database's
// lock_timeout.
func (i *Inbox) Receive(ctx context.Context, e Event) (Receipt, error) {
	// Crash window 6: verified, not stored.
	var receipt Receipt
	err := i.db.TransactOrFind(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		receipt, err = i.storeTx(ctx, tx, e)
		return err
	}, func(ctx context.Context, q postgres.Statement) (found bool, err error) {
		receipt = Received // This or another delivery has stored the event. Every stored event has its job.
		_, err = dbsqlc.New(q).GetEvent(ctx, e.ID)
		if errors.Is(err, pgx.ErrNoRows) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return "", fmt.Errorf("store webhook: %w", err)
	}
	return receipt, nil // Crash window 7: stored with its job, not acknowledged.
}

// storeTx stores an event with its job. A duplicate writes no row, so its commit would be acknowledged at once, even if
// the first delivery's commit still waits for the standby. Durable makes the commit of a duplicate wait, too
// (docs/adr/0022).
func (i *Inbox) storeTx(ctx context.Context, tx pgx.Tx, e Event) (Receipt, error) {
	stored, err := dbsqlc.New(tx).StoreEvent(ctx, dbsqlc.StoreEventParams(e))
	switch {
	case err != nil:
		return "", err
	case stored == 0:
		return Duplicate, postgres.PipelineTx(ctx, tx, postgres.Durable)
	}
	return Received, i.enqueueTx(ctx, tx, e.ID)
}

// Prune deletes up to limit events that were processed longer than olderThan ago, the oldest first, and returns how
// many. It never deletes an event that is not processed. After the deletion, another delivery of the same event would
// be taken as a new one.
func (i *Inbox) Prune(ctx context.Context, olderThan time.Duration, limit int32) (int64, error) {
	var n int64
	err := i.db.Pipeline(ctx, func(ctx context.Context, q postgres.Statement) (err error) {
		n, err = dbsqlc.New(q).PruneEvents(ctx, dbsqlc.PruneEventsParams{OlderThan: olderThan, MaxRows: limit})
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("prune webhooks: %w", err)
	}
	return n, nil
}
