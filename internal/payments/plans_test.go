package payments

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"payonce/internal/payments/internal/dbsqlc"
	"payonce/test/pgtest"
)

// manyTenants are 30 tenants with 1000 payments each, and a refund of every tenth.
const manyTenants = `
	SET session_replication_role = replica;
	INSERT INTO tenants (id, psp_account) SELECT 'tenant-' || t, 'account_' || t FROM generate_series(1, 30) AS t;
	INSERT INTO payments (tenant_id, id, idempotency_key, generation, customer_id, amount_minor, currency, payment_method, status, psp_charge_id)
	SELECT 'tenant-' || t, lpad(to_hex(t * 4096 + n), 32, '0')::uuid, 'key-' || n, 1, 'cus-1', 12000, 'USD', 'pm_ok', 'succeeded', 'ch_' || n
	FROM generate_series(1, 30) AS t, generate_series(1, 1000) AS n;
	INSERT INTO refunds (tenant_id, id, payment_id, idempotency_key, generation, amount_minor, currency, status, psp_refund_id)
	SELECT tenant_id, id, id, idempotency_key, 1, 100, 'USD', 'succeeded', psp_charge_id FROM payments WHERE psp_charge_id LIKE '%0';
	RESET session_replication_role;
	ANALYZE`

// overArray is a statement for n payments at once, with the arguments that it is explained with.
type overArray struct {
	ask  func(*dbsqlc.Queries)
	args []string
}

// overArrays are the statements of a group: each finds its rows by what the arrays name.
func overArrays(n int) map[string]overArray {
	ctx := context.Background()
	all := func(value, kind string) string { return fmt.Sprintf("array_fill(%s::%s, ARRAY[%d])", value, kind, n) }
	var ids, keys []string
	for i := range n {
		ids = append(ids, fmt.Sprintf("00000000-0000-0000-0000-%012x", 4096+i))
		keys = append(keys, fmt.Sprintf("key-%d", i))
	}
	id, key := "'{"+strings.Join(ids, ",")+"}'", "'{"+strings.Join(keys, ",")+"}'"
	tenant, operation, text := all("'acme'", "text"), all("'POST /payments'", "text"), all("'x'", "text")
	one := all("1", "int4")
	return map[string]overArray{
		"begin": {func(q *dbsqlc.Queries) { _, _ = q.BeginPayments(ctx, dbsqlc.BeginPaymentsParams{}) },
			[]string{id, tenant, operation, key, id, text, all("1", "int8"), all("'USD'", "text"), text, text,
				all("'{}'", "jsonb"), "NULL"}},
		"record": {func(q *dbsqlc.Queries) { _, _ = q.RecordPayments(ctx, dbsqlc.RecordPaymentsParams{}) },
			[]string{"NULL", id, all("'succeeded'", "text"), text, text, tenant, operation, key, one, one,
				all("'completed'", "text")}},
	}
}

// For arrays of 32 elements, PostgreSQL would read a small table as a whole, and continue so while the table grows. It
// plans with that number when it knows the arrays: in a custom plan. Both statements have a condition on the key that
// is always true. With it, PostgreSQL expects one row, and finds the row by an index (internal/idempotency).
func TestRowsOfAGroupAreFoundByKeyOnAFreshTable(t *testing.T) {
	t.Parallel()
	s := setup(t)
	conn, err := s.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	run := func(sql string) {
		t.Helper()
		pgtest.Exec(t, conn, sql, pgx.QueryExecModeSimpleProtocol)
	}
	for _, n := range []int{1, 32} {
		for name, c := range overArrays(n) {
			heard := &pgtest.Overheard{}
			c.ask(dbsqlc.New(heard))
			for _, mode := range []string{"generic", "custom"} {
				run("SET plan_cache_mode = force_" + mode + "_plan")
				run("PREPARE planned AS " + heard.SQL)
				lines := pgtest.Values[string](t, conn, "EXPLAIN EXECUTE planned ("+strings.Join(c.args, ", ")+")",
					pgx.QueryExecModeSimpleProtocol)
				run("DEALLOCATE planned")
				plan := strings.Join(lines, "\n")
				if strings.Contains(plan, "Seq Scan") || strings.Contains(plan, "Hash") ||
					!strings.Contains(plan, "idempotency_keys_pkey") {
					t.Errorf("%s, %d payments, %s plan:\n%s", name, n, mode, plan)
				}
			}
		}
	}
}

// There is no index on a payment's id alone: each statement that evidence goes by finds its rows by the tenant. The one
// that asks all tenants does so once for each, where they are few beside the payments.
func TestEvidenceFindsItsMovementByTheTenant(t *testing.T) {
	t.Parallel()
	s := setup(t)
	conn, err := s.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	run := func(sql string) {
		t.Helper()
		pgtest.Exec(t, conn, sql, pgx.QueryExecModeSimpleProtocol)
	}
	explain := func(execute string) string {
		t.Helper()
		lines := pgtest.Values[string](t, conn, "EXPLAIN "+execute, pgx.QueryExecModeSimpleProtocol)
		return strings.Join(lines, "\n")
	}
	run(manyTenants)
	const id = "'00000000-0000-0000-0000-00000000f032'" // the 50th payment of tenant 15
	ctx := context.Background()
	for name, c := range map[string]struct {
		ask  func(*dbsqlc.Queries)
		args string
	}{
		"payment of anybody": {func(q *dbsqlc.Queries) {
			_,
				_ = q.ExecutionOfAnybody(ctx, dbsqlc.ExecutionOfAnybodyParams{})
		}, id + ", 'charge'"},
		"payment": {func(q *dbsqlc.Queries) { _, _ = q.FindPayment(ctx, dbsqlc.FindPaymentParams{}) },
			"'tenant-15', " + id + ", '', ''"},
		"payment of a key": {func(q *dbsqlc.Queries) { _, _ = q.FindPayment(ctx, dbsqlc.FindPaymentParams{}) },
			"'tenant-15', NULL, 'POST /payments', 'key-50'"},
		"refund": {func(q *dbsqlc.Queries) { _, _ = q.FindRefund(ctx, dbsqlc.FindRefundParams{}) },
			"'tenant-15', " + id + ", '', ''"},
		"page of payments": {func(q *dbsqlc.Queries) {
			_, _ = q.BookedMovements(ctx, dbsqlc.BookedMovementsParams{})
		}, "ARRAY[" + id + "]::uuid[], 'account_15', 'charge'"},
		"page of refunds": {func(q *dbsqlc.Queries) {
			_, _ = q.BookedMovements(ctx, dbsqlc.BookedMovementsParams{})
		}, "ARRAY[" + id + "]::uuid[], 'account_15', 'refund'"},
		"totals of a payment": {func(q *dbsqlc.Queries) { _ = q.TallyRefunds(ctx, dbsqlc.TallyRefundsParams{}) },
			"'tenant-15', " + id},
		"object of a payment": {func(q *dbsqlc.Queries) {
			_, _ = q.RememberObject(ctx, dbsqlc.RememberObjectParams{})
		}, "'pi_1', 'tenant-15', " + id + ", 'POST /payments', 'key-50', " + id},
	} {
		heard := &pgtest.Overheard{}
		c.ask(dbsqlc.New(heard))
		run("PREPARE planned AS " + heard.SQL)
		for range 6 { // often enough for a generic plan to be considered
			run("BEGIN; EXECUTE planned (" + c.args + "); ROLLBACK")
		}
		plan := explain("EXECUTE planned (" + c.args + ")")
		run("DEALLOCATE planned")
		for _, table := range []string{"payments", "refunds"} {
			if strings.Contains(plan, "Seq Scan on "+table) {
				t.Errorf("%s reads a whole table:\n%s", name, plan)
			}
		}
		if !strings.Contains(plan, "Index Cond: ((tenant_id = ") {
			t.Errorf("%s does not begin with the tenant:\n%s", name, plan)
		}
	}
}

var _ dbsqlc.DBTX = (*pgtest.Overheard)(nil)
