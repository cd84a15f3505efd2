package reconcile

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"payonce/internal/idempotency"
	"payonce/internal/payments"
	"payonce/internal/postgres"
	"payonce/internal/telemetry"
	"payonce/internal/webhooks"
)

// inboxOn is the inbox in the database of a pool.
func (c *crew) inboxOn(pool *pgxpool.Pool) *webhooks.Inbox {
	return webhooks.New(postgres.Wrap(pool, 20*time.Second), c.queue.WebhookTx)
}

// atWork gives the crew what it needs to work the jobs of webhooks, lookups and scans. The registry has what it counts.
func (c *crew) atWork() *prometheus.Registry {
	c.t.Helper()
	reg := prometheus.NewRegistry()
	c.r.db, c.r.inbox = postgres.Wrap(c.pool, 20*time.Second), c.inboxOn(c.pool)
	c.r.newID, c.r.metrics = uuid.NewV7, telemetry.NewMetrics(reg)
	c.r.keys = idempotency.New(c.r.db, idempotency.Terms{
		Lease: 30 * time.Second, Retention: 48 * time.Hour, PSPMemory: 24 * time.Hour, GracePeriod: 90 * time.Second,
		FirstLookup: 5 * time.Second, Audit: 30 * 24 * time.Hour,
	}, time.Now)
	c.r.payments = payments.New(payments.Config{
		DB: c.r.db, Keys: c.r.keys, PSPs: c.r.psps, NewID: uuid.NewV7, Metrics: c.r.metrics, Log: c.r.log,
		PublicURL: "https://pay.example", Deadline: 30 * time.Second,
	})
	c.r.resolver = payments.NewResolver(c.r.payments, payments.LookupPolicy{})
	return reg
}

// receive stores an event as the API does.
func (c *crew) receive(id string) {
	c.t.Helper()
	_, err := c.inboxOn(c.pool).Receive(c.t.Context(), webhooks.Event{ID: id, SentAt: time.Now(), Body: []byte("{}")})
	if err != nil {
		c.t.Fatal(err)
	}
}

func TestDuplicateHasNoSecondJobAfterTheFirst(t *testing.T) {
	t.Parallel()
	c := setup(t)
	c.receive("evt_1")
	c.receive("evt_1")
	c.wantJobs("webhook", 1)
	c.exec(finish)
	c.receive("evt_1")
	c.wantJobs("webhook", 1)
}

// An operator has an event processed again whose first job is open: that one will do it.
func TestOperatorFindsTheFirstJobOfAnEvent(t *testing.T) {
	t.Parallel()
	c := setup(t)
	c.receive("evt_1")
	c.inTx(func(ctx context.Context, tx pgx.Tx) error { return c.queue.WebhookTx(ctx, tx, "evt_1") })
	c.wantJobs("webhook", 1)
}

// The job of an event that was dismissed and pruned can still be open when it comes once more. It will process it.
func TestEventThatFindsAnOpenJobIsStored(t *testing.T) {
	t.Parallel()
	c := setup(t)
	c.receive("evt_1")
	c.exec("DELETE FROM webhook_events")
	c.receive("evt_1")
	c.wantJobs("webhook", 1)
}

// A job that counts as running may have looked for the event before it came again.
func TestEventThatFindsARunningJobHasOneOfItsOwn(t *testing.T) {
	t.Parallel()
	c := setup(t)
	c.receive("evt_1")
	c.exec("UPDATE river_job SET state = 'running', attempt = 1, attempted_at = now()")
	c.exec("DELETE FROM webhook_events")
	c.receive("evt_1")
	c.wantJobs("webhook", 2)
}
