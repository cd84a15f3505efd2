package idempotency

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"payonce/internal/idempotency/internal/dbsqlc"
	"payonce/test/pgtest"
)

// The plans of the background processes, on a big table that has been analysed: each walks an index of its own from
// what is oldest, and what is about one key finds it by the primary key. On a fresh table any plan is quick, so no test
// of behaviour would notice. The request path's plans are held by the end-to-end tests.

// manyKeys are 100 000 keys completed in the last two days, as they are written behind the back of the guard, with a
// thousand more in each other status: some of them due, most not. A few are an operator's case.
const manyKeys = `
	SET session_replication_role = replica;
	INSERT INTO idempotency_keys (tenant_id, operation, key, status, fingerprint, attempt, generation, lease_id, subject, created_at, reserved_at,
		locked_until, reconcile_after, unknown_since, finished_at, expires_at, delete_after,
		response_status, response_content_type, response_location, response_schema_version, response_body)
	SELECT 'acme', 'POST /payments', 'key-of-row-' || n, status, decode(repeat('ab', 32), 'hex'), 1, 1, id, id, at, at,
		CASE WHEN status = 'in_progress' THEN soon END, CASE WHEN status = 'unknown' THEN soon END, CASE WHEN status = 'unknown' THEN at END,
		CASE WHEN status NOT IN ('in_progress', 'unknown') THEN at END, at + interval '48 hours', CASE WHEN status = 'expired' THEN soon END,
		CASE WHEN done THEN 201 END, CASE WHEN done THEN 'application/json' END, CASE WHEN done THEN '/things/' || id END,
		CASE WHEN done THEN 1 END, CASE WHEN done THEN convert_to(repeat('x', 300), 'UTF8') END
	FROM (SELECT n, status, status IN ('completed', 'expired') AS done, lpad(to_hex(n), 32, '0')::uuid AS id,
			now() - n * interval '1.75 seconds' AS at, now() + (n % 1000 - 200) * interval '1 second' AS soon
		FROM (SELECT n, CASE WHEN n > 100000 THEN (ARRAY['in_progress', 'unknown', 'failed_retryable', 'expired'])[n % 4 + 1] ELSE 'completed' END AS status
			FROM generate_series(1, 104000) AS n) AS numbered) AS made;
	INSERT INTO idempotency_key_events (tenant_id, operation, key, generation, attempt, actor, from_status, to_status, reason)
	SELECT tenant_id, operation, key, 1, 1, 'test', 'in_progress', status, 'test' FROM idempotency_keys WHERE status <> 'completed';
	INSERT INTO idempotency_key_tombstones (tenant_id, operation, key, generation)
	SELECT tenant_id, operation, key, 1 FROM idempotency_keys WHERE status = 'expired';
	INSERT INTO dead_letters (id, kind, finding, tenant_id, operation, key, generation, reason, evidence)
	SELECT subject, 'test', key, tenant_id, operation, key, 1, 'test', '{}' FROM idempotency_keys WHERE status = 'unknown' ORDER BY key LIMIT 50;
	UPDATE idempotency_keys AS k SET dead_letter_hold = d.hold FROM dead_letters AS d WHERE d.tenant_id = k.tenant_id AND d.operation = k.operation AND d.key = k.key;
	RESET session_replication_role;
	ANALYZE`

// planned is a query with the arguments that it is explained with, in the order of its parameters.
type planned struct {
	queue func(*dbsqlc.Queries)
	args  string
	scan  string // a regular expression: the index that must be walked, and on the next line the condition
}

// due is a walk along an index from its beginning to now. A condition that is only a filter would read all of it.
func due(column string) string {
	return `Index (?:Only )?Scan using idempotency_keys_` + column + ` .*\n *Index Cond: \(` + column + ` <= `
}

// byKey finds one row by its whole name.
const byKey = `Index Scan using idempotency_keys_pkey .*\n *Index Cond: \(\(tenant_id = [^)]+\) AND \(operation = [^)]+\) AND \(key = [^)]+\)\)`

// ofList finds the rows of a list by their names, and then again by where they lie.
const ofList = `Index Scan using idempotency_keys_pkey .*\n *Index Cond: \(\(tenant_id = .*operation = .*key = (?s:.*)Tid Scan on idempotency_keys `

func plans() map[string]planned {
	ctx := context.Background()
	const key, none = "'acme', 'POST /payments', 'key-of-row-50001'", "'00000000-0000-0000-0000-00000000c351'"
	// As many as a walk takes at once.
	names := make([]string, 500)
	for i := range names {
		names[i] = fmt.Sprintf("key-of-row-%d", 50001+i)
	}
	many := "array_fill('POST /payments'::text, ARRAY[500]), '{" + strings.Join(names, ",") + "}'"
	dueKeys := func(q *dbsqlc.Queries) { _, _ = q.FindDueKeys(ctx, dbsqlc.FindDueKeysParams{}) }
	return map[string]planned{
		"overdue leases": {dueKeys, "'sweep', 100", due("locked_until")},
		"due":            {dueKeys, "'claim', 100", due("reconcile_after")},
		"expired":        {dueKeys, "'expire', 500", due("expires_at")},
		"deletable":      {dueKeys, "'delete', 500", due("delete_after")},
		"sweep": {func(q *dbsqlc.Queries) { _, _ = q.SweepLeases(ctx, dbsqlc.SweepLeasesParams{}) },
			"'1 hour', 'acme', " + many, ofList},
		"claim": {func(q *dbsqlc.Queries) { _, _ = q.ClaimDue(ctx, dbsqlc.ClaimDueParams{}) },
			"'1 hour', 'acme', " + many, ofList},
		"expire": {func(q *dbsqlc.Queries) { _, _ = q.ExpireKeys(ctx, dbsqlc.ExpireKeysParams{}) },
			"'30 days', 'acme', " + many, ofList},
		"delete": {func(q *dbsqlc.Queries) { _, _ = q.DeleteKeys(ctx, dbsqlc.DeleteKeysParams{}) },
			"'acme', " + many, ofList},
		"release": {func(q *dbsqlc.Queries) { _, _ = q.ReleaseUnknownKey(ctx, dbsqlc.ReleaseUnknownKeyParams{}) },
			"'48 h', " + key + ", " + none + ", 1, 1, false, now(), '90 s', '24 h', false, 'lookup', 'not found'", byKey},
		"postponement": {func(q *dbsqlc.Queries) { _, _ = q.PostponeKey(ctx, dbsqlc.PostponeKeyParams{}) },
			"'1 min', 1, " + key + ", 1, 1, now(), 'lookup', 'later'", byKey},
		"look": {func(q *dbsqlc.Queries) { _, _ = q.FindKey(ctx, dbsqlc.FindKeyParams{}) }, key, byKey},
		"note": {func(q *dbsqlc.Queries) { _ = q.NoteEvent(ctx, dbsqlc.NoteEventParams{}) },
			key + ", 1, 'lookup', 'confirmed', NULL", byKey},
		"lease over": {func(q *dbsqlc.Queries) { _, _ = q.ExpireLease(ctx, dbsqlc.ExpireLeaseParams{}) },
			key + ", 1, 1", byKey},
		"retake": {func(q *dbsqlc.Queries) { _, _ = q.RetakeKey(ctx, dbsqlc.RetakeKeyParams{}) },
			none + ", '30 s', '48 h', " + key + ", 'x', 1, 1, '24 h'", byKey},
		"undecided": {func(q *dbsqlc.Queries) { _, _ = q.ListUndecided(ctx, dbsqlc.ListUndecidedParams{}) },
			"'{acme}', '{POST /payments}', '{key-of-row-50001}'", `Index Scan using idempotency_keys_pkey .*\n *Index Cond: \(\(tenant_id = .*operation = .*key = `},
	}
}

// overArrays are the steps of n keys at once. They name the rows one by one, in the order of the arrays: that is the
// order in which they are locked.
func overArrays(n int) map[string]planned {
	ctx := context.Background()
	all := func(value, kind string) string { return fmt.Sprintf("array_fill(%s::%s, ARRAY[%d])", value, kind, n) }
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("key-of-row-%d", 50001+i))
	}
	keys := all("'acme'", "text") + ", " + all("'POST /payments'", "text") + ", '{" + strings.Join(names, ",") + "}'"
	ids := all("'00000000-0000-0000-0000-00000000c351'", "uuid")
	ones := all("1", "int")
	response := strings.Join([]string{all("201", "int2"), all("'text/plain'", "text"), all("'/x'", "text"),
		all("1", "int2"), all("'x'", "bytea")}, ", ")
	of := fmt.Sprintf(" of %d", n)
	return map[string]planned{
		"reservation" + of: {func(q *dbsqlc.Queries) { _, _ = q.ReserveKeys(ctx, dbsqlc.ReserveKeysParams{}) },
			strings.Join([]string{keys, all("sha256('x')", "bytea"), ids, ids, "'30 s'", "'48 h'"}, ", "),
			inOrder},
		"completion" + of: {func(q *dbsqlc.Queries) { _, _ = q.CompleteKeys(ctx, dbsqlc.CompleteKeysParams{}) },
			strings.Join([]string{keys, ones, ones, all("true", "bool"), all("false", "bool"), response}, ", "),
			inOrder},
		"resolution" + of: {func(q *dbsqlc.Queries) { _, _ = q.ResolveKeys(ctx, dbsqlc.ResolveKeysParams{}) },
			strings.Join([]string{"'48 h'", keys, ids, ones, ones, all("'unknown'", "text"),
				all("true", "bool"), all("'lookup'", "text"),
				all("'found'", "text"), all("NULL", "jsonb"), response}, ", "), inOrder},
	}
}

// inOrder joins the rows of a table to those of the arrays one after the other, by the primary key.
const inOrder = `Nested Loop.*\n(?: *(?:Join Filter|Output).*\n)* *->  (?:CTE Scan on asked|Subquery Scan on \w+).*\n(?:.*\n)*?` +
	` *->  Index Scan using idempotency_keys_pkey .*\n *Index Cond: \(\(tenant_id = \(?\w+\.tenant_id(?:\)::text)?\) AND \(operation = \(?\w+\.operation(?:\)::text)?\) AND \(key = \(?\w+\.key(?:\)::text)?\)\)`

// The trap of arrays: for as many rows as they have elements, PostgreSQL would rather read a small table as a whole.
// Then it locks the rows in the order of the table.
func TestStatementsOverArraysFindRowsByKeyOnAFreshTable(t *testing.T) {
	t.Parallel()
	b := setup(t)
	conn, err := b.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	p := &planner{t, conn}
	p.wantInOrder("on a fresh table")
	resolution := overArrays(32)["resolution of 32"]
	const estimate = "r.key = r.key || '' AND "
	trapped := strings.Replace(resolution.spoken(), estimate, "", 1)
	if plan := p.explainAs("custom", trapped, resolution.args); !strings.Contains(resolution.spoken(), estimate) ||
		soundInOrder(plan, resolution.scan) == nil {
		t.Errorf("without the condition that is always true, the plan is sound as well; then the queries can be simpler:\n%s", plan)
	}
}

func (p *planner) wantInOrder(when string) {
	p.t.Helper()
	for _, n := range []int{1, 32} {
		for name, q := range overArrays(n) {
			for _, mode := range []string{"generic", "custom"} {
				plan := p.explainAs(mode, q.spoken(), q.args)
				if err := soundInOrder(plan, q.scan); err != nil {
					p.t.Errorf("%s, %s, %s plan: %v\n%s", name, when, mode, err, plan)
				}
			}
		}
	}
}

// soundInOrder is sound for a statement that may sort the elements of its arrays.
func soundInOrder(plan, scan string) error {
	return sound(strings.ReplaceAll(plan, "Sort", "Order"), scan)
}

// explainAs gives the plan of a mode, also where PostgreSQL would choose the other one.
func (p *planner) explainAs(mode, sql, args string) string {
	p.t.Helper()
	p.run("SET plan_cache_mode = force_" + mode + "_plan")
	defer p.run("RESET plan_cache_mode")
	return p.explain(sql, args)
}

// spoken is a query as it goes over the wire.
func (p planned) spoken() string {
	heard := &pgtest.Overheard{}
	p.queue(dbsqlc.New(heard))
	return heard.SQL
}

// planner is a session that asks for plans.
type planner struct {
	t    *testing.T
	conn *pgxpool.Conn
}

func (p *planner) run(sql string) {
	p.t.Helper()
	pgtest.Exec(p.t, p.conn, sql, pgx.QueryExecModeSimpleProtocol)
}

// explain gives the plan that a statement has after it was executed often enough for PostgreSQL to consider a generic
// plan.
func (p *planner) explain(sql, args string) string {
	p.t.Helper()
	execute := "EXECUTE planned"
	if args != "" {
		execute += " (" + args + ")"
	}
	p.run("PREPARE planned AS " + sql)
	defer p.run("DEALLOCATE planned")
	for range 6 {
		p.run("BEGIN; " + execute + "; ROLLBACK")
	}
	return strings.Join(pgtest.Values[string](p.t, p.conn, "EXPLAIN "+execute, pgx.QueryExecModeSimpleProtocol), "\n")
}

// unread is a part of a plan for which nothing is read.
var unread = regexp.MustCompile(`(?m)^.* Sort .*\n.*Sort Key: .*\n.*Result .*\n.*One-Time Filter: false$`)

// sound reports what is wrong with a plan that should find its rows by this scan.
func sound(plan, scan string) error {
	plan = unread.ReplaceAllString(plan, "")
	if !regexp.MustCompile(scan).MatchString(plan) {
		return fmt.Errorf("has no %s", scan)
	}
	for _, flaw := range []string{"Seq Scan on idempotency_key", "Sort", " trap "} {
		if strings.Contains(plan, flaw) {
			return errors.New("has " + flaw)
		}
	}
	return nil
}

func TestPlansOnABigAnalysedTable(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("long: it fills and analyses big tables")
	}
	b := setup(t)
	conn, err := b.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	p := &planner{t, conn}
	p.run(manyKeys)
	p.wantSound("with many open keys")
	p.run("SET session_replication_role = replica; DELETE FROM idempotency_keys WHERE finished_at IS NULL; RESET session_replication_role")
	p.run("VACUUM ANALYZE")
	p.wantSound("with none")

	// What would be wrong is noticed: a clock that PostgreSQL has to ask again for each row, and an index on the
	// status.
	sweep, hasty := plans()["overdue leases"], "k.locked_until <= clock_timestamp()"
	unfolded := strings.Replace(sweep.spoken(), "k.locked_until <= payonce_now()", hasty, 1)
	if plan := p.explain(unfolded, sweep.args); !strings.Contains(unfolded, hasty) || sound(plan, sweep.scan) == nil {
		t.Errorf("a VOLATILE clock does not spoil the sweep any more; then ours need not be STABLE:\n%s", plan)
	}
	p.run("CREATE INDEX trap ON idempotency_keys (lookup_failures) WHERE status = 'unknown'; ANALYZE idempotency_keys")
	postponement := plans()["postponement"]
	if plan := p.explain(postponement.spoken(), postponement.args); sound(plan, postponement.scan) == nil {
		t.Errorf("an index on the status does not change the postponement's plan any more; then the design can be simpler:\n%s", plan)
	}
}

func (p *planner) wantSound(when string) {
	p.t.Helper()
	for name, q := range plans() {
		plan := p.explain(q.spoken(), q.args)
		if err := sound(plan, q.scan); err != nil {
			p.t.Errorf("%s, %s: %v\n%s", name, when, err, plan)
		}
	}
	p.wantInOrder(when)
}
