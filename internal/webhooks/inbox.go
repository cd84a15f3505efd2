package webhooks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"payonce/internal/postgres"
	"payonce/internal/webhooks/internal/dbsqlc"
)

// Enqueue puts the job that processes an event into the transaction that stores it.
type Enqueue func(ctx context.Context, tx pgx.Tx, eventID string) error

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

// Receipt says what became of a delivery. In both cases the event is durable, and so is its job.
//
//sumtype:decl
type Receipt interface{ receipt() }

// Received is the first delivery of an event.
type Received struct{}

// Duplicate is another delivery of an event that is stored already. Its body is not looked at.
type Duplicate struct{}

func (Received) receipt()  {}
func (Duplicate) receipt() {}

const (
	// maxRecalls bounds how often the outcome of a commit is asked for.
	maxRecalls = 3
	// recallPause is what lies between two of them.
	recallPause = 100 * time.Millisecond
)

// Receive stores an event and enqueues its job, in one transaction. After an error the event may or may not be stored; the sender
// does not know either, and sends it again.
//
// While another delivery of the same event is under way, it waits for that one's commit: at most for the database's
// lock_timeout.
func (i *Inbox) Receive(ctx context.Context, e Event) (Receipt, error) {
	body := append([]byte{}, e.Body...) // none at all would be NULL
	duplicate := false
	err := i.db.Transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		inserted, err := dbsqlc.New(tx).StoreEvent(ctx, dbsqlc.StoreEventParams{ID: e.ID, SentAt: e.SentAt, Body: body})
		if err != nil {
			return err
		}
		if duplicate = inserted == 0; duplicate {
			return nil
		}
		if err := i.enqueue(ctx, tx, e.ID); err != nil {
			return fmt.Errorf("enqueue job: %w", err)
		}
		return nil
	})
	if duplicate {
		return Duplicate{}, nil // another transaction has committed it; ours had nothing to commit
	}
	// Ours, or a rival's after ours was rolled back: an event that is there has its job.
	if ambiguous := (*postgres.AmbiguousError)(nil); err == nil || errors.As(err, &ambiguous) && i.landed(ctx, e.ID) {
		return Received{}, nil
	}
	return nil, fmt.Errorf("store webhook: %w", err)
}

// landed reports whether an event is stored, after a commit whose acknowledgement was lost. A no is not final: the commit may
// still be under way.
func (i *Inbox) landed(ctx context.Context, id string) bool {
	for try := 1; ; try++ {
		var stored bool
		err := i.db.Read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
			var err error
			stored, err = dbsqlc.New(c).EventIsStored(ctx, id)
			return err
		})
		if err == nil {
			return stored
		}
		if try == maxRecalls || !pause(ctx) {
			return false
		}
	}
}

func pause(ctx context.Context) bool {
	t := time.NewTimer(recallPause)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
