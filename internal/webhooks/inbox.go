package webhooks

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/internal/postgres"
	"payonce/internal/webhooks/internal/dbsqlc"
)

// EnqueueTx inserts the job of an event in the caller's transaction, which has just stored the event.
type EnqueueTx func(ctx context.Context, tx pgx.Tx, eventID string) error

// Inbox keeps the events.
type Inbox struct {
	db        *postgres.DB
	enqueueTx EnqueueTx
}

// New returns the inbox in db.
func New(db *postgres.DB, enqueueTx EnqueueTx) *Inbox { return &Inbox{db: db, enqueueTx: enqueueTx} }

// Event is one verified message. Its body may have 64 KiB.
type Event struct {
	ID     string    // the sender's webhook-id
	SentAt time.Time // the sender's webhook-timestamp
	Body   []byte    // the bytes that were signed
}

// Receipt says what became of a delivery. In both cases the event and its job are where a failover finds them.
//
//sumtype:decl
type Receipt interface{ receipt() }

// Received is the first delivery of an event.
type Received struct{}

// Duplicate is another delivery of an event that is stored already. Its body is not looked at. The first delivery's commit may still wait for the
// standby; this one has waited for both.
type Duplicate struct{}

func (Received) receipt()  {}
func (Duplicate) receipt() {}

// Receive stores an event and inserts its job, in one transaction. After an error the event may or may not be stored; the sender does not know either,
// and sends it again.
//
// While another delivery of the same event is under way, it waits for that one's commit: at most for the database's
// lock_timeout.
func (i *Inbox) Receive(ctx context.Context, e Event) (Receipt, error) {
	// Crash window 6: verified, not stored.
	var receipt Receipt
	err := i.db.TransactOrFind(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		receipt, err = i.storeTx(ctx, tx, e)
		return err
	}, func(ctx context.Context, q postgres.Statement) (found bool, err error) {
		receipt = Received{} // by this delivery or by another one: an event that is there has its job
		return dbsqlc.New(q).EventIsStored(ctx, e.ID)
	})
	if err != nil {
		return nil, fmt.Errorf("store webhook: %w", err)
	}
	return receipt, nil // Crash window 7: stored with its job, not acknowledged.
}

// storeTx stores an event with its job. A duplicate writes no row, so its commit would be acknowledged at once, while the first delivery's commit may
// still wait for the standby: it writes something to be acknowledged (docs/adr/0022).
func (i *Inbox) storeTx(ctx context.Context, tx pgx.Tx, e Event) (Receipt, error) {
	body := e.Body
	if body == nil {
		body = []byte{} // not NULL
	}
	stored, err := dbsqlc.New(tx).StoreEvent(ctx, dbsqlc.StoreEventParams{ID: e.ID, SentAt: e.SentAt, Body: body})
	switch {
	case err != nil:
		return nil, err
	case stored == 0:
		return Duplicate{}, postgres.PipelineTx(ctx, tx, postgres.Durable)
	}
	return Received{}, i.enqueueTx(ctx, tx, e.ID)
}
