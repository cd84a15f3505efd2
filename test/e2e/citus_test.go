package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/internal/config"
	"payonce/internal/postgres"
	"payonce/test/cituscluster"
	"payonce/test/pgtest"
)

// The coordinator died between PREPARE and COMMIT PREPARED: what it has decided, the worker does not know yet. Staged
// on the shard itself, by the names that Citus gives to such transactions.
func TestInDoubtAReaderSeesTheOldRowAndAWriterWaits(t *testing.T) {
	t.Parallel()
	if !pgtest.OnCitus() {
		t.Skip("for make citus: " + pgtest.Citus + " is not set")
	}
	w := setup(t)
	ctx := t.Context()
	const gid = "citus_0_4242_4242_4242"
	var node, database string
	var shard, group int
	err := w.db.QueryRow(ctx, `SELECT s.nodename, s.shardid, n.groupid, current_database()::text FROM citus_shards AS s JOIN pg_dist_node AS n USING (nodename, nodeport)
		WHERE s.shardid = get_shard_id_for_distribution_column('idempotency_keys', 'acme'::text)`).Scan(&node, &shard, &group, &database)
	if err != nil {
		t.Fatal(err)
	}
	w.exec(`INSERT INTO idempotency_keys (tenant_id, operation, key, status, fingerprint, attempt, generation, lease_id, subject, created_at, reserved_at, locked_until, expires_at)
		VALUES ('acme', 'POST /payments', 'key-in-doubt-000', 'in_progress', sha256('x'), 1, 1, gen_random_uuid(), gen_random_uuid(), now(), now(), now(), now())`)
	onWorker := fmt.Sprintf("postgres://payonce@/%s?host=%s&port=5432&sslmode=disable", database, node)
	const unknown = "SET status = 'unknown', locked_until = NULL, unknown_since = now(), reconcile_after = now() WHERE key = 'key-in-doubt-000'"
	if err := cituscluster.Run(ctx, onWorker, "BEGIN", fmt.Sprintf("UPDATE idempotency_keys_%d %s", shard, unknown),
		"PREPARE TRANSACTION '"+gid+"'"); err != nil {
		t.Fatal(err)
	}
	status := func() (s string) {
		if err := w.db.QueryRow(ctx,
			"SELECT status FROM idempotency_keys WHERE tenant_id = 'acme' AND operation = 'POST /payments' AND key = 'key-in-doubt-000'").Scan(&s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	if got := status(); got != "in_progress" {
		t.Errorf("a reader sees %s before it is decided", got)
	}
	if err := w.writeInDoubt(ctx); err == nil || !strings.Contains(err.Error(), "57014") {
		t.Errorf("a writer did not wait: %v", err)
	}
	// The coordinator's own word, which survived its crash, decides.
	w.exec(fmt.Sprintf("INSERT INTO pg_dist_transaction (groupid, gid) VALUES (%d, '%s')", group, gid))
	w.exec("SELECT recover_prepared_transactions()")
	if got := status(); got != "unknown" {
		t.Errorf("a reader sees %s after it was decided", got)
	}
	if err := w.writeInDoubt(ctx); !postgres.Violates(err, "idempotency_keys_edge_is_legal") &&
		(err == nil || !strings.Contains(err.Error(), "cannot go from unknown")) {
		t.Errorf("a writer that comes after it meets %v", err)
	}
}

// writeInDoubt tries to take the key that is in doubt, as a writer with little patience.
func (w *world) writeInDoubt(ctx context.Context) error {
	return pgx.BeginFunc(ctx, w.db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL statement_timeout = '500ms'"); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `UPDATE idempotency_keys SET status = 'expired', delete_after = payonce_now(), finished_at = payonce_now(), reconcile_after = NULL, unknown_since = NULL, locked_until = NULL
			WHERE tenant_id = 'acme' AND operation = 'POST /payments' AND key = 'key-in-doubt-000'`)
		return err
	})
}

// The statements of a payment are about one tenant, and go to its shard alone, also when they have run so often that
// PostgreSQL thinks of a plan for any values.
func TestPaymentTouchesTheShardsOfItsTenantOnly(t *testing.T) {
	t.Parallel()
	if !pgtest.OnCitus() {
		t.Skip("for make citus: " + pgtest.Citus + " is not set")
	}
	w := setup(t)
	const payments = 40
	for range payments {
		w.pay(freshKey(), "pm_ok").expect(t, http.StatusCreated, "")
	}
	for _, table := range []string{"idempotency_keys", "idempotency_key_tombstones", "payments"} {
		scans := func(whose string) int {
			return w.count(`SELECT coalesce(sum(result::int), 0) FROM run_command_on_shards('`+table+`', $$
				SELECT coalesce(idx_scan, 0) + coalesce(seq_scan, 0) FROM pg_stat_all_tables WHERE relid = '%s'::regclass $$) AS s
				WHERE s.shardid `+whose+` get_shard_id_for_distribution_column($1::regclass, 'acme'::text)`, table)
		}
		eventually(t, "the tenant's own shard is counted", func() bool { return scans("=") >= payments })
		if n := scans("<>"); n != 0 {
			t.Errorf("%s: shards of other tenants were read %d times", table, n)
		}
	}
}

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
