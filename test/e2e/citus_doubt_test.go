package e2e

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/internal/config"
	"payonce/test/cituscluster"
	"payonce/test/pgtest"
)

// The coordinator has a reservation prepared on the workers, has written down that it is committed, and dies before it
// says so, to the workers or to the API. A synchronous standby that is away holds it at that point.
func TestReservationOfACoordinatorThatDiesBetweenPrepareAndCommit(t *testing.T) {
	t.Parallel()
	if !pgtest.OnCitus() {
		t.Skip("for make citus: " + pgtest.Citus + " is not set")
	}
	c, url := pgtest.OwnCitus(t)
	tell := func(statements ...string) {
		t.Helper()
		if err := cituscluster.Run(t.Context(), c.Coordinator().URL("postgres"), statements...); err != nil {
			t.Fatal(err)
		}
	}
	if err := pgtest.Distribute(t, c); err != nil {
		t.Fatal(err)
	}
	tell("ALTER DATABASE payonce SET synchronous_commit = on") // for a fast test, the servers' is off
	w := setup(t, func(o *options) {
		o.url = url
		o.settings = func(c *config.API) {
			quick(&c.Shared)
			c.DBStatementTimeout, c.DBLockTimeout = time.Second, 500*time.Millisecond
		}
	})
	tell("ALTER SYSTEM SET synchronous_standby_names = 'away'", "SELECT pg_reload_conf()")
	key := freshKey()
	answered := make(chan reply, 1)
	go func() {
		r, err := w.try(call{method: "POST", path: "/payments", key: key, body: order("pm_ok")})
		if err != nil {
			t.Error(err)
		}
		answered <- r
	}()
	eventually(t, "a transaction that is prepared and waits for the standby", func() bool {
		return w.count("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") > 0 && prepared(t, c) > 0
	})
	tell("ALTER SYSTEM RESET synchronous_standby_names") // for when it starts again
	if err := c.Crash(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	w.db.Reset()
	r := <-answered
	r.expect(t, http.StatusServiceUnavailable, storeUnavailable)

	// In doubt: nobody sees the reservation, and nobody gets past it.
	if n := w.count("SELECT count(*) FROM idempotency_keys WHERE tenant_id = 'acme' AND key = $1", key); n != 0 ||
		prepared(t, c) == 0 {
		t.Fatalf("%d rows are seen, and %d transactions are in doubt", n, prepared(t, c))
	}
	w.pay(key, "pm_ok").expect(t, http.StatusServiceUnavailable, storeUnavailable)
	if n := w.pspRequests("acme", key); n != 0 {
		t.Fatalf("the PSP was asked %d times", n)
	}

	// The coordinator's log says that it was committed.
	w.exec("SELECT recover_prepared_transactions()")
	if n := prepared(t, c); n != 0 {
		t.Fatalf("%d transactions are still in doubt", n)
	}
	if k := w.keyRow(key); k.Status != "in_progress" {
		t.Fatalf("the reservation has become %+v", k)
	}
	w.reconcile()
	w.becomes(key, "failed_retryable")
	paid := w.pay(key, "pm_ok")
	paid.expect(t, http.StatusCreated, "")
	if l := w.ledger("acme", key); len(l.Charges) != 1 || l.Charges[0].Reference != paid.text(t, "paymentId") {
		t.Fatalf("the PSP has %+v", l)
	}
}

// prepared counts the transactions that wait on the workers for the coordinator's word.
func prepared(t *testing.T, c *cituscluster.Cluster) (n int) {
	t.Helper()
	for i := range cituscluster.Workers {
		conn, err := pgx.Connect(t.Context(), c.Node(1+i).URL("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		var here int
		err = conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_prepared_xacts").Scan(&here)
		_ = conn.Close(context.WithoutCancel(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		n += here
	}
	return n
}
