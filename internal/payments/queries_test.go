package payments

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/internal/payments/internal/dbsqlc"
	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

// A caller without an error believes that there is no such payment, that the books are empty, or that a scan has
// nothing to look into.
func TestStatementThatFailsIsNoEmptyAnswer(t *testing.T) {
	t.Parallel()
	s := setup(t)
	p := s.paid("order-0000000042")
	charge := s.charging("order-0000000043")
	pool, outage := pgtest.WithOutage(t, s.pool)
	s.service.db = postgres.Wrap(pool, 0)
	s.service.keys = idempotency.New(s.service.db, terms(), time.Now)
	unknown := charge.record
	unknown.Account = "nobody"
	for statement, ask := range map[string]func(ctx context.Context) error{
		"GetPayment": func(ctx context.Context) error { _, err := s.service.Payment(ctx, "acme", p.ID); return err },
		"FindRefund": func(ctx context.Context) error {
			_, err := s.service.RefundByID(ctx, "acme", payment.RefundID(p.ID))
			return err
		},
		"ListPayments": func(ctx context.Context) error {
			_, err := s.service.PaymentsToTell(ctx, "acme", Filter{Limit: 1})
			return err
		},
		"ListRefunds": func(ctx context.Context) error {
			_, err := s.service.RefundsToTell(ctx, "acme", p.ID, RefundFilter{Limit: 1})
			return err
		},
		"BookedMovements": func(ctx context.Context) error {
			_, err := s.service.Unexplained(ctx, native.Name, gateway.ChargeObject, "acme", gateway.Page{})
			return err
		},
		"ExecutionOfAnybody": func(ctx context.Context) error {
			_, err := s.service.ApplyRecord(ctx, judge.Record{Source: judge.SourceScan, Record: unknown})
			return err
		},
	} {
		outage.On("name: "+statement, 1)
		err := ask(t.Context())
		if err == nil || errors.Is(err, ErrPaymentNotFound) || errors.Is(err, ErrRefundNotFound) {
			t.Errorf("%s has failed, and the answer is %v", statement, err)
		}
	}
	outage.Over()

	// Several statements in one round trip are not sent at all if their time is over.
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, ask := range map[string]func() error{
		"a lookup": func() error {
			_, err := s.lookUpDue(ended,
				idempotency.Due{Ref: charge.reservation.Ref, Generation: 1}, patient())
			return err
		},
		"Refund": func() error {
			_, err := s.service.Refund(ended, keyed(t, "refund-0000000042"), p.ID,
				payment.RefundRequest{AmountCents: 1})
			return err
		},
		"a refund that is refused": func() error {
			_, err := s.service.refuse(ended, charge.reservation, nil, ErrPaymentNotRefundable)
			return err
		},
	} {
		if err := ask(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s could not be asked, and the answer is %v", name, err)
		}
	}
	if charge.wantStatus(idempotency.InProgressStatus, 1); strings.Join(charge.timeline(), " ") != "" {
		t.Errorf("the timeline is %v", charge.timeline())
	}
}

func TestCallReturnsTheErrorOfItsStatement(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("order-0000000001").paidFor()
	g, h := s.charging("order-0000000002"), s.refunding("refund-0000000001", p, 100)
	s.exec("ALTER TABLE payments RENAME TO gone; ALTER TABLE refunds RENAME TO gone_as_well")
	var found *movement
	calls := map[string]postgres.Call{
		"begin payments": s.service.beginPayments([]reservation{{Try: beginning(g.reservation), movement: g.again()}},
			make([]reserved, 1)),
		"record payments": s.service.recordPayments([]rowUpdate{{key: g.lease.Execution()}}, make([]written, 1)),
	}
	for kind, m := range map[string]*stage{"payment": g, "refund": h} {
		calls["find "+kind] = s.service.findMovement(m.reservation.Ref, new(m.lease.Subject), &found)
		calls[kind+" of a key"] = s.service.findMovement(m.reservation.Ref, nil, &found)
		for i, call := range s.service.rowsOf([]reservation{{movement: m.again(),
			Try: idempotency.Try{Reservation: m.reservation, Resumes: m.lease.Subject}}}, make([]reserved, 1)) {
			calls[fmt.Sprintf("resume %s, %d", kind, i)] = call
		}
	}
	for name, call := range calls {
		pgtest.WantReturned(t, s.service.db, name, call)
	}
}

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
				all("'{}'", "jsonb"), text}},
		"record": {func(q *dbsqlc.Queries) { _, _ = q.RecordPayments(ctx, dbsqlc.RecordPaymentsParams{}) },
			[]string{id, all("'succeeded'", "text"), text, text, tenant, operation, key, one, one,
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
