package reconcile

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/events"
	"payonce/internal/postgres"
	"payonce/test/pgtest"
	"payonce/test/wait"
)

// An endpoint has one job at a time, in whichever queue, until the job has ended.
func TestEndpointHasOneJobAtATime(t *testing.T) {
	t.Parallel()
	c := setup(t)
	works := events.Endpoint{Tenant: "acme", ID: uuid.New()}
	fails := events.Endpoint{Tenant: "acme", ID: uuid.New(), Failing: true}
	enqueue := func(want int, due ...events.Endpoint) {
		t.Helper()
		c.inTx(func(ctx context.Context, tx pgx.Tx) error {
			inserted, err := deliveries{r: c.r}.enqueue(ctx, tx, due)
			if len(inserted) != want {
				t.Errorf("%d jobs inserted, want %d", len(inserted), want)
			}
			return err
		})
	}
	enqueue(2, works, fails)
	queues := "SELECT string_agg(queue, ' ' ORDER BY id) FROM river_job"
	if got := pgtest.Value[string](t, c.pool, queues); got != eventQueue+" "+failingQueue {
		t.Errorf("the queues are %s", got)
	}
	for _, state := range []string{"available", "running"} {
		c.exec("UPDATE river_job SET state = '" + state + "'")
		works.Failing = true
		enqueue(0, works, fails)
	}
	c.exec(finish)
	enqueue(2, works, fails)
	c.wantJobs("deliver", 4)
}

// atEvents is a crew whose tenant has events for so many endpoints, each three. They go to the server, the first
// endpoint to another one.
func atEvents(t *testing.T, endpoints int, first, server http.HandlerFunc) *crew {
	t.Helper()
	c := setup(t)
	c.atWork()
	var urls []string
	for _, answer := range []http.HandlerFunc{first, server} {
		s := httptest.NewServer(answer)
		t.Cleanup(s.Close)
		urls = append(urls, s.URL)
	}
	c.exec("INSERT INTO tenants (id, psp_account) VALUES ('acme', 'acme')")
	c.exec(`INSERT INTO webhook_endpoints (tenant_id, id, url, secret)
		SELECT 'acme', gen_random_uuid(), CASE n WHEN 1 THEN $1 ELSE $2 || '/' || n END, sha256('secret')
		FROM generate_series(1, $3::int) AS n`, urls[0], urls[1], endpoints)
	c.exec(`WITH p AS (
		INSERT INTO payments (tenant_id, id, idempotency_key, generation, customer_id, amount_minor, currency,
			payment_method, status)
		SELECT 'acme', gen_random_uuid(), 'key-' || n, 1, 'customer', 12000, 'USD', 'pm_ok', 'processing'
		FROM generate_series(1, 3) AS n RETURNING *)
		INSERT INTO events (tenant_id, payment_id, version, type, status, psp_charge_id, refunded_minor, changed_at)
		SELECT tenant_id, id, (extract(epoch FROM created_at) * 1000000)::bigint, 'payment.succeeded', 'succeeded', 'charge-1', 0, created_at FROM p`)
	return c
}

// tells runs the reconciler until the test is over, with so many workers for events.
func (c *crew) tells(workers int) {
	c.t.Helper()
	db := postgres.Wrap(c.pool, 20*time.Second)
	d := events.New(events.Config{
		DB: db, Books: &c.r.Payments.Books, Addresses: events.Addresses{AllowHTTP: true,
			Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
		Timeout: events.MaxTimeout, GiveUp: time.Hour, Now: time.Now, Jitter: c.r.Jitter, Metrics: c.r.Metrics,
	})
	settings := everyMinute()
	settings.EventsDispatchEvery, settings.EventsWorkers = 10*time.Millisecond, workers
	settings.PruneEvery, settings.PruneRate = 100*time.Millisecond, 100
	settings.EventsRetention, settings.StopLimit = 24*time.Hour, time.Second
	r, err := New(Config{DB: db, Keys: c.r.Keys, Payments: c.r.Payments, Inbox: c.r.Inbox, Further: []Jobs{Events(d)},
		NewID: c.r.NewID, Now: time.Now, Jitter: c.r.Jitter, Metrics: c.r.Metrics, Log: c.r.Log, Reconciler: settings})
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(c.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	c.t.Cleanup(func() {
		stop()
		if err := wait.For(c.t, "the end of the reconciler", ended); err != nil {
			c.t.Error(err)
		}
	})
}

func (c *crew) delivered(where string) int {
	c.t.Helper()
	return pgtest.Value[int](c.t, c.pool, `SELECT count(*) FROM event_deliveries AS d
		JOIN webhook_endpoints AS w ON w.id = d.endpoint_id WHERE d.delivered_at IS NOT NULL AND `+where)
}

func accepts(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

// One of fifty hangs, and is still hanging when the others have everything. It is the first in the queue. If it has not
// failed yet, it holds one worker of two. After that, it holds none of theirs.
func TestEndpointThatHangsHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	const endpoints = 50
	for failures, workers := range []int{2, 1} {
		over, hangs := make(chan struct{}), make(chan struct{}, 3)
		c := atEvents(t, endpoints, func(_ http.ResponseWriter, r *http.Request) {
			hangs <- struct{}{}
			select {
			case <-over:
			case <-r.Context().Done():
			}
		}, accepts)
		c.exec("UPDATE webhook_endpoints SET failures = $1 WHERE url NOT LIKE '%/%/%/%'", failures)
		c.exec("UPDATE webhook_endpoints SET rest_until = '2000-01-01Z' WHERE url NOT LIKE '%/%/%/%'")
		c.tells(workers)
		wait.For(t, "the one that hangs", hangs)
		wait.Until(t, "the events of the others", func() bool {
			return c.delivered("w.url LIKE '%/%/%/%'") == 3*(endpoints-1)
		})
		if n := c.delivered("w.url NOT LIKE '%/%/%/%'"); n != 0 {
			t.Errorf("%d events were delivered to the one that hangs", n)
		}
		close(over)
	}
}

func TestOldEventsArePruned(t *testing.T) {
	t.Parallel()
	c := atEvents(t, 1, accepts, accepts)
	c.exec("UPDATE events SET version = version - 25 * 3600 * 1000000::bigint")
	c.tells(1)
	wait.Until(t, "the pruner", func() bool {
		return pgtest.Value[int](t, c.pool, "SELECT count(*) FROM events") == 1 // the last one stays
	})
}
