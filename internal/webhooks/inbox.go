package webhooks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/time/rate"

	"payonce/internal/postgres"
	"payonce/internal/webhooks/internal/dbsqlc"
)

// Job is the job that processes an event, as River's table has it. Its args are {"eventId": "…"}.
type Job struct {
	Kind, Queue string
	MaxAttempts int16
}

// Inbox stores the events.
type Inbox struct {
	db    *postgres.DB
	job   Job
	wake  rate.Sometimes // wakes the workers; once is enough for many jobs, as River does it
	group *postgres.Group[Event, bool]
}

// New returns the inbox in db, whose events are processed by a job of this kind.
func New(db *postgres.DB, job Job) *Inbox {
	i := &Inbox{db: db, job: job, wake: rate.Sometimes{Interval: 100 * time.Millisecond}}
	i.group = postgres.NewGroup(db, func(e Event) string { return e.ID }, i.store)
	return i
}

// Event is one verified message. Its body may have up to 1 MiB.
type Event struct {
	ID      string    // the sender's webhook-id
	SentAt  time.Time // the sender's webhook-timestamp
	Body    []byte    // the bytes that were signed, without secrets; not nil
	Ignored bool      // says nothing about us, so it needs no job
}

// Receipt is the result of a delivery, as metrics name it. In each case the event and its job, if it needs one, are
// stored, and a failover does not lose them.
type Receipt string

const (
	// Received says that the event was stored for the first time, or that its acknowledgement was lost and the event
	// was found.
	Received Receipt = "stored"
	// Duplicate says that the event was stored before. The body of this delivery is not read. The commit of the first
	// delivery may still wait for the standby, so this delivery waits until both are durable.
	Duplicate Receipt = "duplicate"
	// Ignored is Received for an event that says nothing about us.
	Ignored Receipt = "ignored"
)

// Receive stores an event and inserts its job, if it needs one, in one transaction, which other events may share. After
// an error, the event may or may not be stored. The sender does not know it either, and sends the event again.
//
// If another delivery of the same event is being stored, Receive waits for that commit, at most for the database's
// lock_timeout.
func (i *Inbox) Receive(ctx context.Context, e Event) (Receipt, error) {
	// Crash window 6: verified, not stored.
	receipt, stored := Duplicate, Received
	if e.Ignored {
		stored = Ignored
	}
	first, err := i.group.Do(ctx, e)
	if first {
		receipt = stored
	}
	err = i.db.OrFind(ctx, err, func(ctx context.Context, q postgres.Statement) (found bool, err error) {
		receipt = stored // This or another delivery has stored the event. Every stored event has its job.
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

// store stores events with their jobs, as one transaction. It says which of them are delivered for the first time.
func (i *Inbox) store(ctx context.Context, events []Event) (first []bool, err error) {
	asked := dbsqlc.StoreEventsParams{Kind: i.job.Kind, Queue: i.job.Queue, MaxAttempts: i.job.MaxAttempts}
	for _, e := range events {
		asked.Ids, asked.SentAt = append(asked.Ids, e.ID), append(asked.SentAt, e.SentAt)
		asked.Bodies, asked.Ignored = append(asked.Bodies, e.Body), append(asked.Ignored, e.Ignored)
	}
	calls := []postgres.Call{func(ctx context.Context, q postgres.Statement) (err error) {
		first, err = dbsqlc.New(q).StoreEvents(ctx, asked)
		return err
	}}
	i.wake.Do(func() {
		calls = append(calls, func(ctx context.Context, q postgres.Statement) error {
			return dbsqlc.New(q).WakeQueue(ctx, i.job.Queue)
		})
	})
	err = i.db.GroupPipeline(ctx, len(events), calls...)
	return first, err
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
