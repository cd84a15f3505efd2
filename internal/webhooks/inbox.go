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

// Enqueue queues on b what enqueues the job of an event, right behind the statement that stores it. It must write nothing when that has stored
// nothing: the setting payonce.stored_event is the id of the event that was stored, and empty for a duplicate.
type Enqueue func(b *pgx.Batch, eventID string)

// Inbox keeps the events.
type Inbox struct {
	db      *postgres.DB
	enqueue Enqueue
}

// New returns the inbox in db.
func New(db *postgres.DB, enqueue Enqueue) *Inbox { return &Inbox{db: db, enqueue: enqueue} }

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

// Receive stores an event and enqueues its job, in one transaction and one round trip, which it may share with others that come at the same
// time. After an error the event may or may not be stored; the sender does not know either, and sends it again.
//
// While another delivery of the same event is under way, it waits for that one's commit: at most for the database's
// lock_timeout.
func (i *Inbox) Receive(ctx context.Context, e Event) (Receipt, error) {
	// Crash window 6: verified, not stored.
	var receipt Receipt // of the last try: an earlier one, of a bundle that was rolled back, has said what is not true any more
	err := i.db.SendShared(ctx, e.ID, func(b *pgx.Batch) {
		i.queueStore(b, e, &receipt)
		i.enqueue(b, e.ID)
	})
	if err == nil {
		return receipt, nil // Crash window 7: stored with its job, not acknowledged.
	}
	// Ours, or a rival's after ours was rolled back: an event that is there has its job. What the receipt says is worth nothing here: what it
	// calls a duplicate may be one of an event in the same transaction.
	if ambiguous := (*postgres.AmbiguousError)(nil); errors.As(err, &ambiguous) && i.landed(ctx, e.ID) {
		return Received{}, nil
	}
	return nil, fmt.Errorf("store webhook: %w", err)
}

func (i *Inbox) queueStore(b *pgx.Batch, e Event, receipt *Receipt) {
	body := e.Body
	if body == nil {
		body = []byte{} // not NULL
	}
	q := postgres.On(b)
	_, _ = dbsqlc.New(q).StoreEvent(context.Background(), dbsqlc.StoreEventParams{ID: e.ID, SentAt: e.SentAt, Body: body})
	postgres.Scalar(q, func(stored *bool) error {
		*receipt = Duplicate{}
		if *stored {
			*receipt = Received{}
		}
		return nil
	})
}

// landed reports whether an event is stored where a failover would find it, after a commit whose acknowledgement was lost. A no is not final: the
// commit may still be under way.
func (i *Inbox) landed(ctx context.Context, id string) bool {
	stored := false
	postgres.Recall(ctx, func(int) (done bool) {
		var err error
		stored, err = i.isStoredDurably(ctx, id)
		return err == nil || postgres.GaveUp(err)
	})
	return stored
}

func (i *Inbox) isStoredDurably(ctx context.Context, id string) (stored bool, err error) {
	b := &pgx.Batch{}
	q := postgres.On(b)
	_, _ = dbsqlc.New(q).EventIsStored(context.Background(), id)
	postgres.Scalar(q, func(is *bool) error {
		stored = *is
		return nil
	})
	postgres.QueueDurable(b)
	if err := i.db.Send(ctx, b); err != nil {
		return false, err
	}
	return stored, nil
}
