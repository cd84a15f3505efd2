package payments

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/payment"
	"payonce/internal/payments/internal/dbsqlc"
	"payonce/test/pgtest"
)

// Neighbours are payments and refunds that differ from the one that is asked for in one part of its name, and
// come first in every order. A statement that forgets a part of the name meets a neighbour. The tables are filled
// behind the back of the guards, and what a test does is taken back.

// The ids of the payment, of the refund, and of a neighbour of each. A payment and a refund with one id are neighbours,
// too.
var (
	mineID  = uuid.MustParse("01900000-0000-7000-8000-000000000042")
	otherID = uuid.MustParse("01900000-0000-7000-8000-000000000001")
	aloneID = uuid.MustParse("01900000-0000-7000-8000-000000000003") // a refund; no payment has this id
)

const amidNeighbours = `
	SET LOCAL session_replication_role = replica;
	DELETE FROM tenants;
	INSERT INTO tenants (id, psp_account, psp) VALUES ('a-neighbour', 'an-account', 'stripe'), ('acme', 'acme', 'native'),
		('globex', 'globex', 'native');
	INSERT INTO payments (tenant_id, id, idempotency_key, generation, customer_id, amount_minor, currency, payment_method, status, psp_charge_id)
	SELECT tenant, id::uuid, key, 1, 'cus-1', 1000, 'USD', 'pm_ok', 'succeeded', 'operator:' || tenant || id
	FROM (VALUES ('a-neighbour', '01900000-0000-7000-8000-000000000042', 'charge-of-neighbour'), ('acme', '01900000-0000-7000-8000-000000000001', 'charge-other'),
		('acme', '01900000-0000-7000-8000-000000000042', 'charge-mine')) AS p (tenant, id, key);
	INSERT INTO refunds (tenant_id, id, payment_id, idempotency_key, generation, amount_minor, currency, status, psp_refund_id)
	SELECT tenant, id::uuid, payment::uuid, key, 1, 10, 'USD', 'succeeded', 'operator:' || tenant || id
	FROM (VALUES ('a-neighbour', '01900000-0000-7000-8000-000000000042', '01900000-0000-7000-8000-000000000042', 'refund-of-neighbour'),
		('acme', '01900000-0000-7000-8000-000000000001', '01900000-0000-7000-8000-000000000001', 'refund-other'),
		('acme', '01900000-0000-7000-8000-000000000003', '01900000-0000-7000-8000-000000000001', 'refund-alone'),
		('acme', '01900000-0000-7000-8000-000000000042', '01900000-0000-7000-8000-000000000042', 'refund-mine')) AS r (tenant, id, payment, key);
	INSERT INTO idempotency_keys (tenant_id, operation, key, status, fingerprint, attempt, generation, lease_id, subject, created_at, reserved_at, expires_at)
	SELECT tenant, operation, key, 'in_progress', '', 1, 1, '00000000-0000-0000-0000-00000000000a', subject::uuid, now(), now(), now()
	FROM (VALUES ('a-neighbour', 'POST /payments', 'order-mine', '01900000-0000-7000-8000-000000000042'),
		('acme', 'DELETE /payments', 'order-mine', '01900000-0000-7000-8000-000000000001'),
		('acme', 'POST /payments', 'an-order', '01900000-0000-7000-8000-000000000001'),
		('acme', 'POST /payments', 'order-mine', '01900000-0000-7000-8000-000000000042')) AS k (tenant, operation, key, subject)`

// scene is a transaction amid neighbours.
type scene struct {
	*shop
	tx pgx.Tx
	q  *dbsqlc.Queries
}

func (s *shop) scene(t *testing.T, edits ...string) *scene {
	t.Helper()
	tx := pgtest.Begin(t, s.pool)
	for _, sql := range append([]string{amidNeighbours}, edits...) {
		pgtest.Exec(t, tx, sql)
	}
	copied := *s
	copied.t = t
	return &scene{&copied, tx, dbsqlc.New(tx)}
}

// end takes everything back, before the next scene.
func (s *scene) end() {
	s.t.Helper()
	if err := s.tx.Rollback(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

// state is all that there is of payments and refunds, a line for each.
func (s *scene) state() []string {
	s.t.Helper()
	return pgtest.Values[string](s.t, s.tx, `SELECT 'payment ' || to_jsonb(p)::text FROM payments AS p
		UNION ALL SELECT 'refund ' || to_jsonb(r)::text FROM refunds AS r ORDER BY 1`)
}

// changed is what a statement has changed, a line for each row: its kind and name.
func (s *scene) changed(do func() error) (names []string) {
	s.t.Helper()
	before := s.state()
	if err := do(); err != nil {
		s.t.Fatal(err)
	}
	for _, line := range s.state() {
		if !slices.Contains(before, line) {
			names = append(names, s.nameOf(line))
		}
	}
	return names
}

func (s *scene) nameOf(line string) string {
	s.t.Helper()
	kind, row, _ := strings.Cut(line, " ")
	return pgtest.Value[string](s.t, s.tx, `SELECT concat_ws(' ', $1::text, r ->> 'tenant_id', right(r ->> 'id', 2))
		FROM (SELECT $2::jsonb AS r) AS row`, kind, row)
}

func TestStatementWritesNoNeighbour(t *testing.T) {
	t.Parallel()
	shop := setup(t)
	found := "ch_found"
	for name, c := range map[string]struct {
		edits []string
		do    func(context.Context, *dbsqlc.Queries) error
		want  string // what is changed; empty: nothing
	}{
		"name payment": {nil, func(ctx context.Context, q *dbsqlc.Queries) error {
			return q.NameMovement(ctx, dbsqlc.NameMovementParams{Object: "charge", TenantID: "acme", ID: mineID,
				PspID: found})
		}, "payment acme 42"},
		"name payment that has a name": {[]string{"UPDATE payments SET psp_charge_id = 'ch_' || tenant_id || id"},
			func(ctx context.Context, q *dbsqlc.Queries) error {
				return q.NameMovement(ctx, dbsqlc.NameMovementParams{Object: "charge", TenantID: "acme", ID: mineID,
					PspID: found})
			}, ""},
		"name refund": {nil, func(ctx context.Context, q *dbsqlc.Queries) error {
			return q.NameMovement(ctx, dbsqlc.NameMovementParams{Object: "refund", TenantID: "acme", ID: mineID,
				PspID: found})
		}, "refund acme 42"},
		"name refund that has a name": {[]string{"UPDATE refunds SET psp_refund_id = 're_' || tenant_id || id"},
			func(ctx context.Context, q *dbsqlc.Queries) error {
				return q.NameMovement(ctx, dbsqlc.NameMovementParams{Object: "refund", TenantID: "acme", ID: mineID,
					PspID: found})
			}, ""},
		"tally refunds": {nil, func(ctx context.Context, q *dbsqlc.Queries) error {
			return q.TallyRefunds(ctx, dbsqlc.TallyRefundsParams{TenantID: "acme", PaymentID: mineID})
		}, "payment acme 42"},
	} {
		t.Run(name, func(t *testing.T) {
			s := shop.scene(t, c.edits...)
			got := strings.Join(s.changed(func() error { return c.do(t.Context(), s.q) }), ", ")
			if got != c.want {
				t.Errorf("changed is %q, want %q", got, c.want)
			}
		})
	}
}

// ignored takes a statement without a row for one that has passed no row.
func ignored(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	return err
}

func TestReadFindsNoNeighbour(t *testing.T) {
	t.Parallel()
	shop := setup(t)
	s := shop.scene(t)
	ctx := t.Context()
	const mine = "charge-mine acme acme 42"
	charge := func(p dbsqlc.Payment, account string) string {
		return fmt.Sprintf("%s %s %s %s", p.IdempotencyKey, p.TenantID, account, p.ID.String()[34:])
	}
	listed := func(before uuid.UUID, want string) (string, string, error) {
		all, err := s.q.ListRefunds(ctx, dbsqlc.ListRefundsParams{TenantID: "acme", PaymentID: mineID, Before: before,
			MaxRows: 9})
		return keysOf(all, func(r dbsqlc.Refund) string { return r.IdempotencyKey }), want, err
	}
	booked := func(id uuid.UUID, account, object string) string {
		all, err := s.q.BookedMovements(ctx, dbsqlc.BookedMovementsParams{Account: account, Ids: []uuid.UUID{id},
			Object: object})
		if err != nil {
			t.Fatal(err)
		}
		return keysOf(all, func(r dbsqlc.BookedMovementsRow) string {
			return r.TenantID + " " + r.IdempotencyKey + " of " + r.ChargeID
		})
	}
	// Each id is one that a payment and a refund have: mine, another tenant's, and one of a refund alone.
	taken := func(object string) (all string, err error) {
		for _, id := range []string{"acme" + mineID.String(), "a-neighbour" + mineID.String(),
			"acme" + aloneID.String()} {
			is, failed := s.q.PSPIDTaken(ctx, dbsqlc.PSPIDTakenParams{Object: object, TenantID: "acme",
				PspID: payment.OperatorPSPID + id})
			all, err = all+fmt.Sprint(is)+" ", errors.Join(err, failed)
		}
		return all, err
	}
	for name, read := range map[string]func() (got, want string, err error){
		"PSPIDTaken charge": func() (string, string, error) {
			got, err := taken("charge")
			return got, "true false false ", err
		},
		"PSPIDTaken refund": func() (string, string, error) {
			got, err := taken("refund")
			return got, "true false true ", err
		},
		"GetPayment": func() (string, string, error) {
			p, err := s.q.GetPayment(ctx, dbsqlc.GetPaymentParams{TenantID: "acme", ID: mineID})
			return charge(p, "acme"), mine, err
		},
		"ListRefunds":        func() (string, string, error) { return listed(uuid.Max, "refund-mine") },
		"ListRefunds before": func() (string, string, error) { return listed(mineID, "") },
		"FindPayment": func() (string, string, error) {
			r, err := s.q.FindPayment(ctx, dbsqlc.FindPaymentParams{TenantID: "acme", ID: &mineID})
			return charge(r.Payment, r.PspAccount), mine, err
		},
		"FindRefund": func() (string, string, error) {
			r, err := s.q.FindRefund(ctx, dbsqlc.FindRefundParams{TenantID: "acme", ID: &mineID})
			return r.Refund.IdempotencyKey + " " + charge(r.Payment, r.PspAccount), "refund-mine " + mine, err
		},
		"FindPayment of a key": func() (string, string, error) {
			r, err := s.q.FindPayment(ctx, dbsqlc.FindPaymentParams{TenantID: "acme", Operation: "POST /payments",
				Key: "order-mine"})
			return charge(r.Payment, r.PspAccount), mine, err
		},
		"FindRefund of a key": func() (string, string, error) {
			r, err := s.q.FindRefund(ctx, dbsqlc.FindRefundParams{TenantID: "acme", Operation: "POST /payments",
				Key: "order-mine"})
			return r.Refund.IdempotencyKey + " " + charge(r.Payment, r.PspAccount), "refund-mine " + mine, err
		},
		"ExecutionOfAnybody charge": func() (string, string, error) {
			r, err := s.q.ExecutionOfAnybody(ctx, dbsqlc.ExecutionOfAnybodyParams{ID: otherID, Object: "charge"})
			return r.TenantID + " " + r.IdempotencyKey, "acme charge-other", err
		},
		"ExecutionOfAnybody refund": func() (string, string, error) {
			r, err := s.q.ExecutionOfAnybody(ctx, dbsqlc.ExecutionOfAnybodyParams{ID: otherID, Object: "refund"})
			return r.TenantID + " " + r.IdempotencyKey, "acme refund-other", err
		},
		"TenantOfAccount": func() (string, string, error) {
			r, err := s.q.TenantOfAccount(ctx, "acme")
			return r.ID + " " + r.Psp, "acme native", err
		},
		"BookedMovements charge": func() (string, string, error) {
			return booked(mineID, "acme", "charge"), "acme charge-mine of ", nil
		},
		"BookedMovements refund": func() (string, string, error) {
			return booked(mineID, "acme", "refund"), "acme refund-mine of operator:acme" + mineID.String(), nil
		},
		"BookedMovements charge of another account": func() (string, string, error) {
			return booked(otherID, "an-account", "charge"), "", nil
		},
		"BookedMovements refund of another account": func() (string, string, error) {
			return booked(otherID, "an-account", "refund"), "", nil
		},
		"BookedMovements refund as a charge": func() (string, string, error) {
			return booked(aloneID, "acme", "charge"), "", nil
		},
	} {
		if got, want, err := read(); err != nil || got != want {
			t.Errorf("%s: %q, want %q; %v", name, got, want, err)
		}
	}
	everywhere := dbsqlc.ExecutionOfAnybodyParams{ID: aloneID, Object: "charge"}
	if _, err := s.q.ExecutionOfAnybody(ctx, everywhere); !errors.Is(err, pgx.ErrNoRows) {
		t.Errorf("a refund of anybody is found as a charge: %v", err)
	}
}

func keysOf[Row any](all []Row, key func(Row) string) string {
	var keys []string
	for _, r := range all {
		keys = append(keys, key(r))
	}
	return strings.Join(keys, ", ")
}

// A payment or refund that had the key before its present one is found by all parts of its name.
func TestOtherMovementsOfAKeyHaveItsNameAndGeneration(t *testing.T) {
	t.Parallel()
	shop := setup(t)
	for _, object := range []string{"charge", "refund"} {
		s := shop.scene(t)
		p := dbsqlc.OtherMovementsOfKeyParams{Object: object, TenantID: "acme", Ids: []uuid.UUID{mineID, otherID},
			Subject: otherID, Key: object + "-mine", Generation: 1}
		ask := func(edit func(*dbsqlc.OtherMovementsOfKeyParams)) []uuid.UUID {
			asked := p
			edit(&asked)
			rows, err := s.q.OtherMovementsOfKey(t.Context(), asked)
			if err != nil {
				t.Fatal(err)
			}
			var ids []uuid.UUID
			for _, row := range rows {
				ids = append(ids, row.ID)
			}
			return ids
		}
		if diff := cmp.Diff([]uuid.UUID{mineID}, ask(func(*dbsqlc.OtherMovementsOfKeyParams) {})); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", object, diff)
		}
		for part, edit := range map[string]func(*dbsqlc.OtherMovementsOfKeyParams){
			"object":     func(p *dbsqlc.OtherMovementsOfKeyParams) { p.Object = "payout" },
			"tenant":     func(p *dbsqlc.OtherMovementsOfKeyParams) { p.TenantID = "globex" },
			"ids":        func(p *dbsqlc.OtherMovementsOfKeyParams) { p.Ids = []uuid.UUID{otherID} },
			"subject":    func(p *dbsqlc.OtherMovementsOfKeyParams) { p.Subject = mineID },
			"key":        func(p *dbsqlc.OtherMovementsOfKeyParams) { p.Key = "another" },
			"generation": func(p *dbsqlc.OtherMovementsOfKeyParams) { p.Generation = 2 },
		} {
			if ids := ask(edit); len(ids) != 0 {
				t.Errorf("%s: with another %s, %v are found", object, part, ids)
			}
		}
		s.end()
	}
}

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
					SELECT tenant_id, id, id, 'refund-mine', 1, 1000, 'USD', 'processing' FROM payments WHERE ` + mine + `;
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

func TestPaymentsAreListedByEachFilter(t *testing.T) {
	t.Parallel()
	s := setup(t).scene(t, `INSERT INTO payments (tenant_id, id, idempotency_key, generation, customer_id, amount_minor, currency,
			payment_method, status, created_at)
		VALUES ('acme', '01900000-0000-7000-8000-0000000000f0', 'x', 1, 'cus-2', 1, 'USD', 'pm_ok', 'processing', '2026-01-01 00:00:00Z')`,
		"UPDATE payments SET created_at = '2026-02-01 00:00:00Z' WHERE customer_id = 'cus-1'",
		"UPDATE payments SET reference = CASE WHEN tenant_id = 'acme' AND right(id::text, 2) = '42' THEN 'A' ELSE 'a' END")
	at := func(day int, month time.Month) *time.Time {
		moment := time.Date(2026, month, day, 0, 0, 0, 0, time.UTC)
		return &moment
	}
	customer, reference, status := "cus-1", "a", "processing"
	const all = "01 42 f0"
	for name, c := range map[string]struct {
		edit func(*dbsqlc.ListPaymentsParams)
		want string
	}{
		"all":                      {func(*dbsqlc.ListPaymentsParams) {}, all},
		"before an id":             {func(p *dbsqlc.ListPaymentsParams) { p.Before = mineID }, "01"},
		"from an id on":            {func(p *dbsqlc.ListPaymentsParams) { p.Oldest = mineID }, "42 f0"},
		"created at a time":        {func(p *dbsqlc.ListPaymentsParams) { p.CreatedAfter = at(1, 2) }, "01 42"},
		"created after all":        {func(p *dbsqlc.ListPaymentsParams) { p.CreatedAfter = at(2, 2) }, ""},
		"created before the first": {func(p *dbsqlc.ListPaymentsParams) { p.CreatedBefore = at(1, 1) }, ""},
		"created before others":    {func(p *dbsqlc.ListPaymentsParams) { p.CreatedBefore = at(1, 2) }, "f0"},
		"in a status":              {func(p *dbsqlc.ListPaymentsParams) { p.Status = &status }, "f0"},
	} {
		for _, of := range []struct { // each part of the statement, with each filter
			customer, reference *string
			has                 string
		}{{nil, nil, all}, {&customer, nil, "01 42"}, {nil, &reference, "01 f0"}, {&customer, &reference, "01"}} {
			p := dbsqlc.ListPaymentsParams{TenantID: "acme", Before: uuid.Max, MaxRows: 9, CustomerID: of.customer,
				Reference: of.reference}
			c.edit(&p)
			found, err := s.q.ListPayments(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			var got, want []string
			for _, f := range slices.Backward(found) { // newest first
				got = append(got, f.ID.String()[34:])
				if f.TenantID != "acme" {
					t.Errorf("%s: a payment of %s", name, f.TenantID)
				}
			}
			for id := range strings.FieldsSeq(c.want) {
				if strings.Contains(of.has, id) {
					want = append(want, id)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, of %q: %q, want %q", name, of.has, got, want)
			}
		}
	}
}
