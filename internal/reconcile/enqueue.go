package reconcile

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/internal/postgres"
	"payonce/internal/reconcile/internal/dbsqlc"
)

// QueueWebhook queues on b the job of the event that the statement before stores, and nothing when that has stored none. The row is the one that
// River would write, by our own SQL: River's insertion needs a transaction of several round trips.
func (q *Queue) QueueWebhook(b *pgx.Batch, eventID string) {
	ctx, queries := context.Background(), dbsqlc.New(postgres.On(b))
	_ = queries.EnqueueStored(ctx, storedJob(eventID))
	if q.wakes.pass() {
		_ = queries.WakeWorkers(ctx, webhookQueue)
	}
}

// storedJob is the first job of an event. The unique key is River's: by it, an operator who has the event processed again finds this job.
func storedJob(eventID string) dbsqlc.EnqueueStoredParams {
	args := webhookArgs{EventID: eventID}
	encoded, _ := json.Marshal(args) // as River does, to the byte; a string cannot fail
	key := sha256.Sum256(append([]byte("&kind="+args.Kind()+"&args="), encoded...))
	opts := args.InsertOpts()
	return dbsqlc.EnqueueStoredParams{
		Kind: args.Kind(), Args: encoded, Queue: opts.Queue, MaxAttempts: int64(opts.MaxAttempts),
		UniqueKey: key[:], EventID: eventID,
	}
}

// wakeEvery is how often the workers are told at most, as River does it. Transactions that tell somebody commit one after the other. A job
// that comes in between is found by the next word, or by the next poll.
const wakeEvery = 50 * time.Millisecond

// throttle lets one pass in every wakeEvery.
type throttle struct {
	now func() time.Time

	mu   sync.Mutex
	last time.Time
}

func (t *throttle) pass() bool {
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Sub(t.last) < wakeEvery {
		return false
	}
	t.last = now
	return true
}
