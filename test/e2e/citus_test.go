package e2e

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/db/migrations/citus"
	"payonce/internal/config"
	"payonce/internal/payment"
	"payonce/internal/postgres"
	"payonce/test/cituscluster"
	"payonce/test/pgtest"
)

// The coordinator died between PREPARE and COMMIT PREPARED: what it has decided, the worker does not know yet. Staged
// on the shard itself, by the names that Citus gives to such transactions.
func TestInDoubtAReaderSeesTheOldRowAndAWriterWaits(t *testing.T) {
	t.Parallel()
	pgtest.NeedsSeveralServers(t)
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
	pgtest.NeedsSeveralServers(t)
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

// A payment that is on its way to the worker while its tenant moves to another one waits, or is sent again. Without the
// lock of payonce_shard, it would be written where nobody looks any more.
func TestNoPaymentIsLostWhileItsTenantMoves(t *testing.T) {
	t.Parallel()
	pgtest.NeedsSeveralServers(t)
	w := setup(t)
	w.exec("UPDATE tenants SET requests_per_second = 100000, request_burst = 100000")
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	var acknowledged sync.Map
	for range 8 {
		clients.Go(func() {
			for ctx.Err() == nil {
				key := freshKey()
				if r, err := w.try(paymentOf(key, "pm_ok")); err == nil && r.status == http.StatusCreated {
					acknowledged.Store(key, true)
				}
			}
		})
	}
	for i := range 6 {
		w.exec(cituscluster.Move, "acme", []string{"block_writes", "force_logical"}[i%2])
	}
	stop()
	clients.Wait()
	paid := 0
	for key := range acknowledged.Range {
		paid++
		if k := w.count(`SELECT count(*) FROM idempotency_keys AS k JOIN payments AS p ON p.tenant_id = k.tenant_id AND p.id = k.subject
			WHERE k.tenant_id = 'acme' AND k.key = $1 AND k.status = 'completed' AND p.status = 'succeeded'`, key); k != 1 {
			t.Errorf("payment %v was acknowledged, and is lost", key)
		}
	}
	if paid < 100 {
		t.Errorf("%d payments in six moves prove nothing", paid)
	}
}

// The worker has committed a reservation, and its synchronous standby is away, so it does not say so. The coordinator
// stops waiting and reports an ERROR (57014), which is no rollback here. Nothing is sent to the PSP, because a failover
// of the worker could still undo the reservation.
func TestReservationThatAWorkerHasCommittedWhenTheCoordinatorGivesUp(t *testing.T) {
	t.Parallel()
	c, url := pgtest.OwnCitus(t)
	workers := func(statement string) {
		t.Helper()
		for i := range cituscluster.Workers {
			err := cituscluster.Run(t.Context(), c.Node(1+i).URL("postgres"), statement, "SELECT pg_reload_conf()")
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := pgtest.Distribute(t, c); err != nil {
		t.Fatal(err)
	}
	workers("ALTER DATABASE payonce SET synchronous_commit = on") // for a fast test, the servers' is off
	w := setup(t, func(o *options) {
		o.url = url
		o.settings = func(c *config.API) {
			quick(&c.Shared)
			c.DBStatementTimeout, c.DBLockTimeout = time.Second, 500*time.Millisecond
		}
	})
	workers("ALTER SYSTEM SET synchronous_standby_names = 'away'")
	key := freshKey()
	w.pay(key, "pm_ok").expect(t, http.StatusServiceUnavailable, storeUnavailable)
	workers("ALTER SYSTEM RESET synchronous_standby_names")
	if k := w.keyRow(key); k.Status != "in_progress" {
		t.Fatalf("the reservation has become %+v", k)
	}
	if n := w.pspRequests("acme", key); n != 0 {
		t.Fatalf("the PSP was asked %d times", n)
	}

	w.reconcile()
	w.becomes(key, "failed_retryable")
	paid := w.pay(key, "pm_ok")
	paid.expect(t, http.StatusCreated, "")
	if l := w.ledger("acme", key); len(l.Charges) != 1 || l.Charges[0].Reference != paid.text(t, "paymentId") {
		t.Fatalf("the PSP has %+v", l)
	}
}

// waitsForALock finds sessions in pg_stat_activity. Of a distributed table, it is the session on a worker that waits.
func waitsForALock() string {
	return pgtest.ByServers("wait_event_type = 'Lock'",
		"(wait_event_type = 'Lock' OR pid IN (SELECT citus_pid_for_gpid(waiting_gpid) FROM citus_lock_waits))")
}

// setLockTimeout gives the API's role one on all nodes: a session's own is not handed on to the workers. It does
// nothing on one server.
func setLockTimeout(t *testing.T, url string, timeout time.Duration) {
	t.Helper()
	const alter = "DO $$ BEGIN EXECUTE format('ALTER ROLE payonce_api IN DATABASE %%I SET lock_timeout = %d', current_database()); END $$"
	if pgtest.OnCitus() {
		pgtest.Exec(t, pgtest.Connect(t, url), fmt.Sprintf(alter, timeout.Milliseconds()))
	}
}

// An installation that has paid is distributed: no process may be there, and then all that was there is there as
// before.
func TestInstallationThatHasPaidIsDistributed(t *testing.T) {
	t.Parallel()
	c, url := pgtest.OwnCitus(t)
	on := func(o *options) { o.url = url }
	key, refund, lost, gone := freshKey(), freshKey(), freshKey(), freshKey()
	var paid, returned reply
	var moves, guards []string
	t.Run("before", func(t *testing.T) {
		w := setup(t, on)
		paid = w.pay(key, "pm_ok")
		paid.expect(t, http.StatusCreated, "")
		returned = w.do(call{method: "POST", path: "/payments/" + paid.text(t, "paymentId") + "/refunds", key: refund,
			body: `{"amountCents":5000}`})
		returned.expect(t, http.StatusCreated, "")
		w.pay(lost, "pm_never").expect(t, http.StatusAccepted, "")
		w.exec("INSERT INTO idempotency_key_tombstones (tenant_id, operation, key, generation) VALUES ('acme', 'POST /payments', '" + gone + "', 3)")
		moves, guards = w.moves(lost), w.guards()
		if err := pgtest.Distribute(t, c); err == nil ||
			!strings.Contains(err.Error(), "others are connected to this database: payonce") {
			t.Fatalf("distributed beside a process: %v", err)
		}
		if w.count("SELECT count(*) FROM pg_dist_partition") != 0 {
			t.Fatal("a part is distributed")
		}
	})
	for range 2 { // the second time, all is done
		if err := pgtest.Distribute(t, c); err != nil {
			t.Fatal(err)
		}
	}
	w := setup(t, on)
	if n := w.count("SELECT count(*) FROM citus_shards WHERE table_name = 'payments'::regclass"); n == 0 {
		t.Fatal("payments are not distributed")
	}
	if n := w.count("SELECT pg_relation_size('payments') + pg_relation_size('idempotency_keys') + pg_relation_size('idempotency_key_events')"); n != 0 {
		t.Errorf("%d bytes of rows are left on the coordinator", n)
	}
	if got := w.guards(); !slices.Equal(got, guards) {
		t.Errorf("guards are %q, were %q", got, guards)
	}
	if n := w.count("SELECT count(*) FROM run_command_on_shards('refunds', $$ SELECT 'refunds_guard' FROM pg_trigger WHERE tgrelid = '%s'::regclass AND tgname LIKE 'refunds_guard%%' $$) WHERE result <> ''"); n != cituscluster.Shards {
		t.Errorf("%d shards of refunds are guarded", n)
	}
	w.pay(key, "pm_ok").same(t, paid)
	refunds := "/payments/" + paid.text(t, "paymentId") + "/refunds"
	w.do(call{method: "POST", path: refunds, key: refund, body: `{"amountCents":5000}`}).same(t, returned)
	w.do(call{method: "POST", path: refunds, key: freshKey(), body: `{"amountCents":7001}`}).expect(t,
		http.StatusConflict, "refund_exceeds_payment")
	if got := w.moves(lost); len(got) == 0 || !slices.Equal(got, moves) {
		t.Errorf("the timeline is %q, was %q", got, moves)
	}
	last := w.count("SELECT max(id) FROM idempotency_key_events")
	w.pay(freshKey(), "pm_never").expect(t, http.StatusAccepted, "")
	if n := w.count("SELECT max(id) FROM idempotency_key_events"); n <= last {
		t.Errorf("lines of timelines are numbered %d behind %d", n, last)
	}
	w.pay(gone, "pm_ok").expect(t, http.StatusCreated, "")
	if n := w.count("SELECT generation FROM idempotency_keys WHERE tenant_id = 'acme' AND key = $1", gone); n != 4 {
		t.Errorf("a key whose tombstone says 3 goes on as generation %d", n)
	}
}

// guards are the triggers of the tables that are distributed.
func (w *world) guards() []string {
	w.t.Helper()
	all := pgtest.Values[string](w.t, w.db, `SELECT t.tgenabled::text || ' ' || pg_get_triggerdef(t.oid) FROM pg_trigger AS t
		WHERE NOT t.tgisinternal AND t.tgname NOT LIKE 'truncate_trigger_%' AND t.tgrelid::regclass::text
			IN ('idempotency_keys', 'idempotency_key_events', 'idempotency_key_tombstones', 'payments', 'refunds') ORDER BY 1`)
	if len(all) == 0 {
		w.t.Fatal("no triggers")
	}
	return all
}

var parameter = regexp.MustCompile(`\$\d+`)

// The functions of db/migrations/citus are made of the statements, and Payonce calls them: charges, refunds, and what
// they refuse. The server is one, and looks like the worker of the tenant. make citus runs all tests on real workers.
func TestTransactionsThatAreCallsOfFunctions(t *testing.T) {
	t.Parallel()
	for name, shard := range map[string]string{"made by migrate": "900011", "made by a split since": "900012"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := onOneWorker(t)
			w.exec("UPDATE tenants SET tells = true WHERE id = 'acme'")
			w.exec("UPDATE shard_of_all SET id = $1::text::bigint", shard)

			// Each function can be planned, also of the transactions that are rare.
			for _, texts := range citus.Transactions() {
				sql := parameter.ReplaceAllString(citus.CallOf(texts), "NULL")
				if _, err := w.db.Exec(t.Context(), sql); err != nil {
					t.Errorf("%s: %v", citus.FunctionOf(texts), err)
				}
			}

			calls := w.calls(func() {
				key := freshKey()
				paid := w.pay(key, "pm_ok")
				paid.expect(t, http.StatusCreated, "")
				w.pay(key, "pm_ok").same(t, paid)
				w.pay(key, "pm_decline").
					expect(t, http.StatusUnprocessableEntity, "idempotency_key_reused_with_different_payload")
				w.pay(freshKey(), "pm_decline").expect(t, http.StatusPaymentRequired, "")

				id, key := paid.text(t, "paymentId"), freshKey()
				part := w.refund(id, key, `{"amountCents": 1}`)
				part.expect(t, http.StatusCreated, "")
				w.refund(id, key, `{"amountCents": 1}`).same(t, part)
				w.refund(id, freshKey(), `{}`).expect(t, http.StatusCreated, "")
				w.refund(id, freshKey(), `{"amountCents": 1}`).
					expect(t, http.StatusConflict, "refund_exceeds_payment")
			})
			// Two for each payment and refund, one for each request that repeats another one or is refused, and the
			// read that says so of the last one.
			if calls != 2*4+4+1 {
				t.Errorf("%d transactions were calls", calls)
			}
			if n := w.count("SELECT count(*) FROM events"); n != 4 {
				t.Errorf("%d events, want those of two payments and two refunds", n)
			}

			nobodys := call{method: "GET", path: "/payments/" + payment.ID(uuid.New()).String()}
			if n := w.calls(func() { w.do(nobodys).expect(t, http.StatusNotFound, "not_found") }); n != 1 {
				t.Errorf("that there is no payment is read by %d calls", n)
			}

			var all sync.WaitGroup
			for range 40 {
				all.Go(func() { w.pay(freshKey(), "pm_ok").expect(t, http.StatusCreated, "") })
			}
			all.Wait()

			w.plansOnce()
			w.refusesCallsElsewhere()
		})
	}
}

// plansOnce: the first call of a session that Citus has opened says how it plans. A client's keeps its own.
func (w *world) plansOnce() {
	w.t.Helper()
	conn := pgtest.Connect(w.t, w.own.DatabaseURL)
	const settings = `SELECT string_agg(setting, ' ' ORDER BY name) FROM pg_settings
		WHERE name IN ('plan_cache_mode', 'enable_seqscan', 'enable_bitmapscan', 'jit')`
	pgtest.Exec(w.t, conn, "SET jit TO on")
	for _, row := range [][2]string{{"", "on on on auto"}, {"citus_internal 7", "off off off force_generic_plan"}} {
		name, want := row[0], row[1]
		pgtest.Exec(w.t, conn, "SET application_name TO '"+name+"'")
		pgtest.Exec(w.t, conn, parameter.ReplaceAllString(citus.CallOf(citus.Transactions()[0]), "NULL"))
		var got string
		if err := conn.QueryRow(w.t.Context(), settings).Scan(&got); err != nil {
			w.t.Fatal(err)
		}
		if got != want {
			w.t.Errorf("after a call, the session %q has %s, want %s", name, got, want)
		}
	}
}

// refusesCallsElsewhere: a call that does not run on the worker of the tenant writes nothing, and the client may send
// the same key again.
func (w *world) refusesCallsElsewhere() {
	w.t.Helper()
	w.exec("UPDATE pg_catalog.pg_dist_local_group SET groupid = 2")
	w.pay(freshKey(), "pm_ok").expect(w.t, http.StatusServiceUnavailable, storeUnavailable) // has moved away
	w.exec("UPDATE pg_catalog.pg_dist_local_group SET groupid = 0")
	w.pay(freshKey(), "pm_ok").expect(w.t, http.StatusServiceUnavailable, storeUnavailable) // not passed on
	if n := w.count("SELECT count(*) FROM idempotency_keys WHERE status = 'in_progress'"); n != 0 {
		w.t.Errorf("%d keys were reserved elsewhere", n)
	}
	function := citus.FunctionOf(citus.Transactions()[0])
	w.exec("DROP FUNCTION " + function)
	db, err := postgres.Open(w.t.Context(), w.own.DatabaseURL, postgres.DefaultLimits())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(db.Close)
	missing := function + " is not there yet; run api migrate"
	if err := db.Ping(w.t.Context()); err == nil || !strings.Contains(err.Error(), missing) {
		w.t.Errorf("without a function: %v", err)
	}
}

// calls is how many transactions of f were calls.
func (w *world) calls(f func()) int {
	w.t.Helper()
	before := w.count("SELECT last_value FROM called")
	f()
	return w.count("SELECT last_value FROM called") - before
}

// onOneWorker has a database that looks like the worker of the tenant, who wants events.
func onOneWorker(t *testing.T) *world {
	t.Helper()
	pgtest.NeedsOneServer(t, "it looks like a worker")
	url := pgtest.NewURL(t)
	conn := pgtest.Connect(t, url)
	pgtest.Exec(t, conn, oneWorker)
	if err := citus.MakeFunctions(t.Context(), conn, false); err != nil {
		t.Fatal(err)
	}
	return setup(t, func(o *options) { o.url = url })
}

const oneWorker = `
-- Makes one server look like the worker of every tenant, to Payonce: what it asks Citus for, with views for the shards.
-- So the functions of db/migrations/citus run where there is no Citus. A call takes a number of the sequence. What Citus
-- has in pg_catalog is there, too.
CREATE FUNCTION citus_truncate_trigger() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TRIGGER spread AFTER TRUNCATE ON idempotency_keys EXECUTE FUNCTION citus_truncate_trigger();

SET allow_system_table_mods TO on;
CREATE TABLE pg_catalog.pg_dist_local_group AS SELECT 1 AS groupid;
CREATE TABLE pg_dist_partition (logicalrelid regclass, colocationid integer);
CREATE TABLE pg_dist_shard (logicalrelid regclass, shardid bigint, shardminvalue text);
CREATE TABLE pg_catalog.pg_dist_placement (shardid bigint, groupid integer);
CREATE SEQUENCE called;

DO $$
DECLARE it record;
BEGIN
    FOR it IN
        SELECT c.name, 900000 + 10 * c.n AS shard, c.name = 'tenants' AS copied
        FROM unnest(ARRAY['idempotency_keys', 'idempotency_key_events', 'idempotency_key_tombstones', 'payments',
                          'refunds', 'disputes', 'events', 'tenants']) WITH ORDINALITY AS c (name, n)
    LOOP
        INSERT INTO pg_dist_partition VALUES (it.name::regclass, CASE WHEN it.copied THEN 1 ELSE 2 END);
        FOR half IN 1 .. CASE WHEN it.copied THEN 1 ELSE 2 END LOOP
            INSERT INTO pg_dist_shard
                VALUES (it.name::regclass, it.shard + half, CASE WHEN NOT it.copied THEN half END);
            INSERT INTO pg_dist_placement VALUES (it.shard + half, 1);
            EXECUTE format('CREATE VIEW %I AS SELECT * FROM %I', format('%s_%s', it.name, it.shard + half), it.name);
        END LOOP;
    END LOOP;
END $$;

CREATE TABLE shard_of_all AS SELECT 900011::bigint AS id;
CREATE FUNCTION pg_catalog.get_shard_id_for_distribution_column(regclass, text) RETURNS bigint LANGUAGE sql
    AS 'SELECT id FROM shard_of_all';
CREATE FUNCTION pg_catalog.lock_shard_metadata(integer, bigint[]) RETURNS void LANGUAGE sql AS $$ SELECT nextval('called') $$;
CREATE FUNCTION create_distributed_function(regprocedure, text, colocate_with text) RETURNS void
    LANGUAGE sql AS '';
GRANT ALL ON ALL TABLES IN SCHEMA public TO payonce_api, payonce_reconciler;
`
