package payments

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

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
