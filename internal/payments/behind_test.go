package payments

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"payonce/internal/payments/internal/dbsqlc"
	"payonce/test/pgtest"
)

// leaseID is the lease of the key in amidNeighbours.
var leaseID = uuid.MustParse("00000000-0000-0000-0000-00000000000a")

// behind is a statement that writes a payment or a refund behind the step of its key.
type behind struct {
	edits []string // what has been there before
	do    func(context.Context, *dbsqlc.Queries) error
	want  string            // what it changes
	key   []string          // what it compares of the key, in addition to the name
	rows  map[string]string // in what state of its own row it writes nothing
}

func statementsBehindKeys() map[string]behind {
	const key, op = "order-mine", "POST /payments"
	one := func(s string) []string { return []string{s} }
	charge := "ch_1"
	byLease := []string{"lease_id = gen_random_uuid()", "subject = gen_random_uuid()", "status = 'unknown'"}
	byAttempt := []string{"generation = 2", "attempt = 2", "subject = gen_random_uuid()", "status = 'unknown'"}
	const mine = "tenant_id = 'acme' AND id = '01900000-0000-7000-8000-000000000042'"
	return map[string]behind{
		"begin payment": {
			edits: one("DELETE FROM payments WHERE " + mine), key: byLease, want: "payment acme 42",
			do: func(ctx context.Context, q *dbsqlc.Queries) error {
				_, err := q.BeginPayments(ctx, dbsqlc.BeginPaymentsParams{Ids: []uuid.UUID{mineID},
					TenantIds: one("acme"), Operations: one(op), Keys: one(key), LeaseIds: []uuid.UUID{leaseID},
					CustomerIds: one("cus-1"), AmountsMinor: []int64{1}, Currencies: one("USD"),
					PaymentMethods: one("pm_ok"), Descriptions: one(""), Metadata: [][]byte{nil}})
				return err
			}},
		"resume payment": {
			edits: one("UPDATE payments SET status = 'failed'"), key: byLease, want: "payment acme 42",
			do: func(ctx context.Context, q *dbsqlc.Queries) error {
				_, err := q.ResumePayment(ctx, dbsqlc.ResumePaymentParams{TenantID: "acme", ID: mineID, Operation: op,
					Key: key, LeaseID: leaseID})
				return err
			}, rows: map[string]string{"not failed": "UPDATE payments SET status = 'declined'"}},
		"remember object": {
			edits: one("UPDATE payments SET status = 'processing'"), key: byLease, want: "payment acme 42",
			do: func(ctx context.Context, q *dbsqlc.Queries) error {
				_, err := q.RememberObject(ctx, dbsqlc.RememberObjectParams{TenantID: "acme", ID: mineID,
					Operation: op, Key: key, LeaseID: leaseID, ObjectID: "pi_1"})
				return err
			}, rows: map[string]string{"not processing": "UPDATE payments SET status = 'failed'",
				"with another object": "UPDATE payments SET psp_object_id = 'pi_0'"}},
		"record payment": {
			edits: one("UPDATE payments SET status = 'processing'"), key: byAttempt, want: "payment acme 42",
			do: func(ctx context.Context, q *dbsqlc.Queries) error {
				_, err := q.RecordPayments(ctx, dbsqlc.RecordPaymentsParams{Ids: []uuid.UUID{mineID},
					Statuses: one("failed"), PspChargeIds: one(charge), DeclineCodes: one(""), TenantIds: one("acme"),
					Operations: one(op), Keys: one(key), Generations: []int32{1}, Attempts: []int32{1},
					KeyStatuses: one("in_progress")})
				return err
			}, rows: map[string]string{"succeeded": "UPDATE payments SET status = 'succeeded'",
				"that has it already": "UPDATE payments SET status = 'failed'"}},
		"begin refund": {
			// A neighbour refund holds the whole payment of the neighbour, and none is left there.
			edits: one("DELETE FROM refunds WHERE " + mine), key: byLease, want: "refund acme 42",
			do: func(ctx context.Context, q *dbsqlc.Queries) error {
				_, err := q.BeginRefund(ctx, dbsqlc.BeginRefundParams{TenantID: "acme", ID: mineID, PaymentID: mineID,
					Operation: op, IdempotencyKey: key, LeaseID: leaseID})
				return err
			}, rows: map[string]string{"of a payment that is processing": "UPDATE payments SET status = 'processing'",
				"that exists, and nothing is left": `INSERT INTO refunds (tenant_id, id, payment_id, idempotency_key, generation, amount_minor, currency, status)
					SELECT tenant_id, id, id, '', 1, 1000, 'USD', 'processing' FROM payments WHERE ` + mine + `;
					UPDATE payments SET refund_held_minor = 1000`}},
		"resume refund": {
			edits: one("UPDATE refunds SET status = 'failed'"), key: byLease, want: "refund acme 42",
			do: func(ctx context.Context, q *dbsqlc.Queries) error {
				_, err := q.ResumeRefund(ctx, dbsqlc.ResumeRefundParams{TenantID: "acme", ID: mineID, Operation: op,
					Key: key, LeaseID: leaseID})
				return err
			}, rows: map[string]string{"not failed": "UPDATE refunds SET status = 'processing'"}},
		"record refund": {
			edits: one("UPDATE refunds SET status = 'processing'"), key: byAttempt, want: "refund acme 42",
			do: func(ctx context.Context, q *dbsqlc.Queries) error {
				_, err := q.RecordRefund(ctx, dbsqlc.RecordRefundParams{TenantID: "acme", ID: mineID, Status: "failed",
					PspRefundID: &charge, Operation: op, Key: key, Generation: 1, Attempt: 1,
					KeyStatus: "in_progress"})
				return err
			}, rows: map[string]string{"succeeded": "UPDATE refunds SET status = 'succeeded'",
				"that has it already": "UPDATE refunds SET status = 'failed'"}},
	}
}

// Nothing is written of a payment or refund if its key is not where the statement expects it: somebody else has moved
// it.
func TestStatementPassesOnlyBehindItsKey(t *testing.T) {
	t.Parallel()
	shop := setup(t)
	const mine = " WHERE tenant_id = 'acme' AND operation = 'POST /payments' AND key = 'order-mine'"
	for name, c := range statementsBehindKeys() {
		try := func(what, want string, edits ...string) {
			s := shop.scene(t, append(slices.Clone(c.edits), edits...)...)
			defer s.end()
			got := strings.Join(s.changed(func() error { return ignored(c.do(t.Context(), s.q)) }), ", ")
			if got != want {
				t.Errorf("%s, %s: changed is %q, want %q", name, what, got, want)
			}
		}
		try("as it should be", c.want)
		itsName := []string{"tenant_id = 'globex'", "operation = 'PUT /payments'", "key = 'order-else'"}
		for _, part := range append(itsName, c.key...) {
			try("key with "+part, "", "UPDATE idempotency_keys SET "+part+mine)
		}
		for what, edit := range c.rows {
			try(what, "", edit)
		}
	}
}

// A statement that is sent again, after its acknowledgement was lost, finds its own object.
func TestObjectThatIsRememberedPassesAgain(t *testing.T) {
	t.Parallel()
	s := setup(t).scene(t, "UPDATE payments SET status = 'processing', psp_object_id = 'pi_1'")
	n, err := s.q.RememberObject(t.Context(), dbsqlc.RememberObjectParams{TenantID: "acme", ID: mineID,
		Operation: "POST /payments", Key: "order-mine", LeaseID: leaseID, ObjectID: "pi_1"})
	if err != nil || n != 1 {
		t.Errorf("%d rows, %v", n, err)
	}
}

// Only the owner of a refund's key locks the payment, and no other payment: a replay waits for nobody.
func TestOnlyTheOwnerLocksThePayment(t *testing.T) {
	t.Parallel()
	shop := setup(t)
	// What is locked must be seen by another session, so these rows are committed.
	shop.exec(strings.Replace(amidNeighbours, "SET LOCAL", "SET", 1) + `;
		INSERT INTO idempotency_keys SELECT (jsonb_populate_record(k, '{"key": "order-of-neighbour"}')).* FROM idempotency_keys AS k
			WHERE tenant_id = 'a-neighbour';
		RESET session_replication_role`)
	for name, c := range map[string]struct {
		edit func(*dbsqlc.LockPaymentParams)
		want int // payments that are not locked
	}{
		"the owner":         {func(*dbsqlc.LockPaymentParams) {}, 2},
		"no lease":          {func(p *dbsqlc.LockPaymentParams) { p.LeaseID = nil; p.Key = "" }, 2},
		"another lease":     {func(p *dbsqlc.LockPaymentParams) { p.LeaseID = new(uuid.New()) }, 3},
		"another key":       {func(p *dbsqlc.LockPaymentParams) { p.Key = "order-else" }, 3},
		"another operation": {func(p *dbsqlc.LockPaymentParams) { p.Operation = "PUT /payments" }, 3},
		"another tenant":    {func(p *dbsqlc.LockPaymentParams) { p.TenantID = "globex" }, 3},
		"no key, but that of a neighbour": {func(p *dbsqlc.LockPaymentParams) {
			p.Key = "order-of-neighbour"
		}, 3},
	} {
		tx := pgtest.Begin(t, shop.pool)
		p := dbsqlc.LockPaymentParams{TenantID: "acme", ID: mineID, Operation: "POST /payments", Key: "order-mine",
			LeaseID: &leaseID}
		c.edit(&p)
		if err := dbsqlc.New(tx).LockPayment(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if free := shop.texts("SELECT id::text FROM payments FOR UPDATE SKIP LOCKED"); len(free) != c.want {
			t.Errorf("%s: not locked are %v", name, free)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// Totals that are right already are not written again: the payment's row stays as it is, for those who read it.
func TestTotalsThatAreRightAreNotWritten(t *testing.T) {
	t.Parallel()
	s := setup(t).scene(t)
	place := func() string {
		return pgtest.Value[string](t, s.tx, "SELECT ctid::text FROM payments WHERE tenant_id = 'acme' AND id = $1", mineID)
	}
	var places []string
	for range 3 {
		places = append(places, place())
		err := s.q.TallyRefunds(t.Context(), dbsqlc.TallyRefundsParams{TenantID: "acme", PaymentID: mineID})
		if err != nil {
			t.Fatal(err)
		}
	}
	if places[0] == places[1] || places[1] != places[2] {
		t.Errorf("the row was at %v", places)
	}
	if n := s.count("SELECT count(*) FROM payments"); n != 0 {
		t.Fatalf("%d payments are committed", n)
	}
}

// The totals of a payment are those of its own refunds, and not of the tenant's others.
func TestTotalsAreOfThePaymentsOwnRefunds(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	one, two := s.charging("order-0000000001").paidFor(), s.charging("order-0000000002").paidFor()
	s.refunding("refund-0000000001", one, 100).succeeded()
	s.refunding("refund-0000000002", two, 300).succeeded()
	s.refunding("refund-0000000003", two, 1)
	s.wantTotals(one, 100, 100)
	s.wantTotals(two, 301, 300)
}

func TestPaymentsAreListedByEachFilter(t *testing.T) {
	t.Parallel()
	s := setup(t).scene(t, `INSERT INTO payments (tenant_id, id, idempotency_key, generation, customer_id, amount_minor, currency,
			payment_method, status, created_at)
		VALUES ('acme', '01900000-0000-7000-8000-0000000000f0', 'x', 1, 'cus-2', 1, 'USD', 'pm_ok', 'processing', '2026-01-01 00:00:00Z')`,
		"UPDATE payments SET created_at = '2026-02-01 00:00:00Z' WHERE customer_id = 'cus-1'")
	at := func(day int, month time.Month) *time.Time {
		moment := time.Date(2026, month, day, 0, 0, 0, 0, time.UTC)
		return &moment
	}
	customer, status := "cus-2", "processing"
	const all = "01 42 f0"
	for name, c := range map[string]struct {
		edit func(*dbsqlc.ListPaymentsParams)
		want string
	}{
		"all of the tenant":        {func(*dbsqlc.ListPaymentsParams) {}, all},
		"before an id":             {func(p *dbsqlc.ListPaymentsParams) { p.Before = mineID }, "01"},
		"from an id on":            {func(p *dbsqlc.ListPaymentsParams) { p.Oldest = mineID }, "42 f0"},
		"created at a time":        {func(p *dbsqlc.ListPaymentsParams) { p.CreatedAfter = at(1, 2) }, "01 42"},
		"created after all":        {func(p *dbsqlc.ListPaymentsParams) { p.CreatedAfter = at(2, 2) }, ""},
		"created before the first": {func(p *dbsqlc.ListPaymentsParams) { p.CreatedBefore = at(1, 1) }, ""},
		"created before others":    {func(p *dbsqlc.ListPaymentsParams) { p.CreatedBefore = at(1, 2) }, "f0"},
		"of a customer":            {func(p *dbsqlc.ListPaymentsParams) { p.CustomerID = &customer }, "f0"},
		"in a status":              {func(p *dbsqlc.ListPaymentsParams) { p.Status = &status }, "f0"},
	} {
		p := dbsqlc.ListPaymentsParams{TenantID: "acme", Before: uuid.Max, MaxRows: 9}
		c.edit(&p)
		found, err := s.q.ListPayments(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		ids := map[string]bool{}
		for _, f := range found {
			ids[f.ID.String()[34:]] = true
			if f.TenantID != "acme" {
				t.Errorf("%s: a payment of %s", name, f.TenantID)
			}
		}
		if got := strings.Join(slices.Sorted(maps.Keys(ids)), " "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
