package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"payonce/test/pgproxy"
	"payonce/test/pgtest"
)

// What a payment costs the database, and by which plans: the figures that the design promises. Both can be lost without
// any test of behaviour noticing.

// quietServer is a server on which nobody writes but us: no autovacuum, no checkpoint for the time being.
func quietServer(t *testing.T) (url string) {
	t.Helper()
	server := pgtest.OwnServer(t, false)
	url = pgtest.Migrate(t, server)
	admin := pgtest.Connect(t, url)
	for _, sql := range []string{
		"ALTER SYSTEM SET autovacuum = off", "ALTER SYSTEM SET checkpoint_timeout = '1h'",
		// Otherwise the background writer logs a snapshot of the running transactions, every 15 s after a change.
		"ALTER SYSTEM SET bgwriter_lru_maxpages = 0", "SELECT pg_reload_conf()", "CHECKPOINT",
	} {
		pgtest.Exec(t, admin, sql)
	}
	return url
}

// spent is what the database has been asked for so far.
type spent struct {
	rounds  int
	commits int64 // transactions that have written: each has taken a number
	wal     int64 // bytes
}

func (w *world) spent(proxy *pgproxy.Proxy) spent {
	w.t.Helper()
	s := spent{rounds: proxy.RoundTrips()}
	err := w.db.QueryRow(w.t.Context(), `SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
		(pg_current_wal_insert_lsn() - '0/0')::bigint`).Scan(&s.commits, &s.wal)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// since are the rounds after a moment, without the sign of life that the pool asks of a connection which was idle for a
// second.
func since(proxy *pgproxy.Proxy, before spent) [][]string {
	return slices.DeleteFunc(proxy.Rounds()[before.rounds:],
		func(queries []string) bool { return slices.Equal(queries, []string{"--"}) })
}

func TestTwoRoundTripsAndTwoCommitsForANewKeyOneAndNoneForAReplay(t *testing.T) {
	t.Parallel()
	url := quietServer(t)
	w, proxy := setupProxied(t, func(o *options) { o.url = url })
	payment := w.pay(freshKey(), "pm_ok").text(t, "paymentId")
	reserve := []string{"ReserveKeys", "BeginPayments"}
	finish := []string{"CompleteKeys", "RecordPayments"}
	t.Run("payment", func(t *testing.T) {
		w.in(t).costs(proxy, func(key string) call { return paymentOf(key, "pm_ok") }, [][]string{reserve, finish},
			[][]string{reserve})
	})
	// What a refund is of is read before the key is reserved: another tenant's payment is a 404, and consumes nothing.
	read := []string{"GetPayment"}
	reserve = []string{"ReserveKeys", "LockPayment", "BeginRefund", "TallyRefunds"}
	finish = []string{"CompleteKeys", "LockPayment", "RecordRefund", "TallyRefunds"}
	t.Run("refund", func(t *testing.T) {
		w.in(t).costs(proxy, func(key string) call { return refundOf(payment, key, `{"amountCents":1}`) },
			[][]string{read, reserve, finish}, [][]string{read, reserve})
	})
}

// costs checks the round trips, the commits and the WAL of a movement and of its replay.
func (w *world) costs(proxy *pgproxy.Proxy, of func(key string) call, wantNew, wantReplay [][]string) {
	w.t.Helper()
	warm := freshKey()
	for range 2 { // the API keys read, the statements prepared
		w.do(of(warm)).expect(w.t, http.StatusCreated, "")
	}
	key := freshKey()
	before := w.spent(proxy)
	first := w.do(of(key))
	first.expect(w.t, http.StatusCreated, "")
	after := w.spent(proxy)
	if diff := cmp.Diff(wantNew, since(proxy, before)); diff != "" {
		w.t.Errorf("round trips of a new key: %s", diff)
	}
	if commits := after.commits - before.commits; commits != 2 {
		w.t.Errorf("%d commits for a new key, want 2", commits)
	}

	before = after
	w.do(of(key)).same(w.t, first)
	after = w.spent(proxy)
	if diff := cmp.Diff(wantReplay, since(proxy, before)); diff != "" {
		w.t.Errorf("round trips of a replay: %s", diff)
	}
	if commits, wal := after.commits-before.commits, after.wal-before.wal; commits != 0 || wal != 0 {
		w.t.Errorf("%d commits and %d bytes of WAL for a replay, want none", commits, wal)
	}
}

// The plan trap (see the design, section 9): an index WHERE status = 'in_progress' is taken for the completion's UPDATE
// instead of the primary key, but only on a big table that has been analysed. So the plans are held on such a one.

// manyRows are 100 000 payments that were completed long ago, of two tenants among many, and a thousand customers. They
// are written as they are, behind the back of the guard, by which a key begins in progress.
const manyRows = `
	SET session_replication_role = replica;
	TRUNCATE idempotency_keys, payments CASCADE;
	INSERT INTO idempotency_keys (tenant_id, operation, key, status, fingerprint, attempt, generation, lease_id, subject, created_at, reserved_at,
		finished_at, expires_at, response_status, response_content_type, response_location, response_schema_version, response_body)
	SELECT tenant, 'POST /payments', 'key-of-row-' || n, 'completed', decode(repeat('ab', 32), 'hex'), 1, 1, id, id, at, at,
		at + interval '1 second', at + interval '48 hours', 201, 'application/json', '/payments/' || id, 1, convert_to(repeat('x', 300), 'UTF8')
	FROM (SELECT n, CASE WHEN n % 100 = 0 THEN 'globex' ELSE 'acme' END AS tenant, now() - n * interval '1 second' AS at,
			lpad(to_hex(n), 32, '0')::uuid AS id FROM generate_series(1, 100000) AS n) AS made;
	INSERT INTO payments (id, tenant_id, idempotency_key, generation, customer_id, amount_minor, currency, payment_method, status, psp_charge_id, created_at)
	SELECT subject, tenant_id, key, 1, 'cus-' || ('x' || right(subject::text, 8))::bit(32)::int % 1000, 12000, 'USD', 'pm_ok', 'succeeded', 'ch_' || subject, created_at
	FROM idempotency_keys;
	INSERT INTO idempotency_key_tombstones (tenant_id, operation, key, generation) SELECT 'acme', 'POST /payments', 'key-long-deleted-' || n, 1 FROM generate_series(1, 100000) AS n;
	INSERT INTO dead_letters (id, kind, finding, tenant_id, operation, key, generation, reason, evidence)
	SELECT gen_random_uuid(), 'test', 'finding ' || n, 'acme', 'POST /payments', 'key-of-row-' || n, 1, 'test', '{}' FROM generate_series(1, 10000) AS n;
	UPDATE idempotency_keys AS k SET dead_letter_hold = d.hold FROM dead_letters AS d WHERE d.tenant_id = k.tenant_id AND d.operation = k.operation AND d.key = k.key;
	INSERT INTO tenants (id, psp_account) SELECT 'tenant-' || n, 'tenant-' || n FROM generate_series(1, 10000) AS n;
	RESET session_replication_role;
	ANALYZE`

// planned is a query with the arguments that it is explained with, in the order of its parameters.
type planned struct {
	query   string
	args    string
	indexes string // one of these must be walked
}

// plans are explained with these arguments. They name rows in the middle of the tables.
var plans = map[string]planned{
	"lease over":  {"ExpireLease", `'acme', 'POST /payments', 'key-of-row-50001', 1, 1`, "idempotency_keys_pkey"},
	"key alone":   {"FindKey", `'acme', 'POST /payments', 'key-of-row-50001'`, "idempotency_keys_pkey"},
	"one payment": {"GetPayment", `'acme', '%[1]s'`, "payments_pkey"},
	"payments of a big tenant": {
		"ListPayments", `'acme', 'ffffffff-ffff-ffff-ffff-ffffffffffff', ` +
			`'00000000-0000-0000-0000-000000000000', NULL, NULL, NULL, NULL, NULL, 21`, "payments_pkey",
	},
	"payments of a small tenant": {
		"ListPayments", `'globex', 'ffffffff-ffff-ffff-ffff-ffffffffffff', ` +
			`'00000000-0000-0000-0000-000000000000', NULL, NULL, NULL, NULL, NULL, 21`, "payments_pkey",
	},
	"payments of an hour": {
		"ListPayments", `'acme', '00000000-0000-0000-0000-00000000c35a', '00000000-0000-0000-0000-00000000c34f', ` +
			`now() - interval '1 day', now(), NULL, NULL, NULL, 21`, "payments_pkey",
	},
	"payments of a customer": {
		"ListPayments", `'acme', 'ffffffff-ffff-ffff-ffff-ffffffffffff', ` +
			`'00000000-0000-0000-0000-000000000000', NULL, NULL, NULL, 'cus-7', NULL, 21`, "payments_by_customer",
	},
	"payments with a reference": {
		"ListPayments", `'acme', 'ffffffff-ffff-ffff-ffff-ffffffffffff', ` +
			`'00000000-0000-0000-0000-000000000000', NULL, NULL, NULL, NULL, 'order-7', 21`, "payments_by_reference",
	},
}

// plansOverArrays are those of statements over arrays, explained with n elements each.
func plansOverArrays(n int) map[string]planned {
	all := func(value string) string { return fmt.Sprintf("array_fill(%s, ARRAY[%d])", value, n) }
	many := func(name func(i int) string) string {
		var names []string
		for i := range n {
			names = append(names, name(50001+i))
		}
		return "'{" + strings.Join(names, ",") + "}'"
	}
	args := func(each ...string) string { return strings.Join(each, ", ") }
	text := func(s string) string { return all("'" + s + "'::text") }
	keys := args(text("acme"), text("POST /payments"), many(func(i int) string { return fmt.Sprint("key-of-row-", i) }))
	ids := many(func(i int) string { return fmt.Sprintf("%032x", i) })
	of := fmt.Sprintf(" of %d", n)
	return map[string]planned{
		"completion" + of: {"CompleteKeys", args(keys, all("1"), all("1"), all("true"), all("false"),
			all("201::int2"), text("application/json"), text("/x"),
			all("1::int2"), all("'x'::bytea")), "idempotency_keys_pkey"},
		"reservation and replay" + of: {"ReserveKeys",
			args(keys, all("sha256('x')"), ids, ids, "'30 s'", "'48 h'"), "idempotency_keys_pkey"},
		"payment of a reservation" + of: {"BeginPayments",
			args(ids, keys, ids, text("cus-1"), all("1::int8"), text("USD"), text("pm_ok"), text(""),
				all("NULL::jsonb"), text("")),
			"idempotency_keys_pkey"},
		"payment of a completion" + of: {"RecordPayments",
			args(ids, text("succeeded"), text("ch_1"), text(""), keys, all("1"), all("1"),
				text("completed")),
			"payments_pkey"},
	}
}

const rowInTheMiddle = "00000000-0000-0000-0000-00000000c351"

func TestPlansOnABigAnalysedTable(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("long: it fills and analyses big tables")
	}
	pgtest.NeedsOneServer(t, "it stages its rows and reads its plans there")
	w, proxy := setupProxied(t)
	w.prepareEverything(proxy)
	conn := w.session()
	conn.run(manyRows)
	conn.wantSound(proxy, "as PostgreSQL chooses", plans)
	for _, n := range []int{1, 32} {
		for _, mode := range []string{"auto", "force_generic_plan", "force_custom_plan"} {
			conn.run("SET plan_cache_mode = " + mode)
			conn.wantSound(proxy, mode, plansOverArrays(n))
		}
	}

	// The trap is there, and would be noticed.
	conn.run("CREATE INDEX trap ON idempotency_keys (locked_until) WHERE status = 'in_progress'; ANALYZE idempotency_keys")
	conn.run("RESET plan_cache_mode")
	completion := plansOverArrays(1)["completion of 1"]
	if plan := conn.explain(proxy.SQL("CompleteKeys"), completion.args); sound(plan, completion.indexes) == nil {
		t.Errorf("an index on the status does not change the completion's plan any more; then the design can be simpler:\n%s", plan)
	}
}

// wantSound explains each query as the API has sent it.
func (s *session) wantSound(proxy *pgproxy.Proxy, mode string, all map[string]planned) {
	s.t.Helper()
	for name, p := range all {
		if proxy.SQL(p.query) == "" {
			s.t.Fatalf("%s has not been seen on the wire", p.query)
		}
		plan := s.explain(proxy.SQL(p.query), fmt.Sprintf(p.args+"%.0[1]s", rowInTheMiddle))
		if err := sound(plan, p.indexes); err != nil {
			s.t.Errorf("%s, %s, %s: %v\n%s", name, p.query, mode, err, plan)
		}
	}
}

// prepareEverything has the API prepare each of the planned queries.
func (w *world) prepareEverything(proxy *pgproxy.Proxy) {
	w.t.Helper()
	w.do(call{method: "GET", path: "/payments"}).expect(w.t, http.StatusOK, "")
	key := freshKey()
	proxy.OnNext(3, "CompleteKeys", pgproxy.CutBefore)
	w.pay(key, "pm_ok").expect(w.t, http.StatusAccepted, "")
	w.endLease(key)
	w.pay(key, "pm_ok").expect(w.t, http.StatusAccepted, "")
}

// explain gives the plan that a statement has after it was executed often enough for PostgreSQL to consider a generic
// plan.
func (s *session) explain(sql, args string) string {
	s.t.Helper()
	s.run("PREPARE planned AS " + sql)
	defer s.run("DEALLOCATE planned")
	for range 6 {
		s.run("BEGIN; EXECUTE planned (" + args + "); ROLLBACK")
	}
	lines := pgtest.Values[string](s.t, s.conn, "EXPLAIN EXECUTE planned ("+args+")", pgx.QueryExecModeSimpleProtocol)
	return strings.Join(lines, "\n")
}

// sound reports what is wrong with a plan that should walk one of the indexes.
func sound(plan, indexes string) error {
	if strings.Contains(plan, "Seq Scan") {
		return errors.New("reads a whole table")
	}
	for _, word := range strings.Fields(plan) {
		for _, partial := range []string{"idempotency_keys_locked_until", "idempotency_keys_reconcile_after",
			"idempotency_keys_expires_at", "trap"} {
			if word == partial {
				return fmt.Errorf("walks the partial index %s", partial)
			}
		}
	}
	for index := range strings.FieldsSeq(indexes) {
		if strings.Contains(plan, " using "+index+" ") {
			return nil
		}
	}
	return fmt.Errorf("walks none of %s", indexes)
}
