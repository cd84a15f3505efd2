package operator

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
)

// keyAsIs puts a key of the first generation into the table, behind the guard's back.
func (f *fixture) keyAsIs(ref idempotency.Ref, status idempotency.Status, subject uuid.UUID) {
	f.t.Helper()
	f.exec("ALTER TABLE idempotency_keys DISABLE TRIGGER USER")
	f.exec(`INSERT INTO idempotency_keys (tenant_id, operation, key, status, fingerprint, attempt, generation, lease_id,
			subject, created_at, reserved_at, expires_at)
		VALUES ($1, $2, $3, $4, sha256(''), 1, 1, gen_random_uuid(), $5, now(), now(), now() + interval '1 day')`,
		ref.Tenant, string(ref.Operation), ref.Key.String(), string(status), subject)
	f.exec("ALTER TABLE idempotency_keys ENABLE TRIGGER USER")
}

// movements puts a payment and a refund of it into the tables, both with this id.
func (f *fixture) movements(tenant string, id uuid.UUID) {
	f.t.Helper()
	f.exec(`INSERT INTO payments (tenant_id, id, idempotency_key, generation, customer_id, amount_minor, currency,
			payment_method, status, psp_charge_id)
		VALUES ($1, $2, $3, 1, 'cus-1', 12000, 'USD', 'pm_ok', 'succeeded', 'ch_' || $2::uuid)`, tenant, id, clientKey)
	f.exec(`INSERT INTO refunds (tenant_id, id, payment_id, idempotency_key, generation, amount_minor, currency, status,
			psp_refund_id)
		VALUES ($1, $2, $2, $3, 1, 100, 'USD', 'succeeded', 're_' || $2::uuid)`, tenant, id, clientKey)
}

// aboutOthers are dead letters that differ from one about this key and payment in one part each.
func aboutOthers(ref idempotency.Ref, subject uuid.UUID) map[string]deadletters.DeadLetter {
	others := map[string]deadletters.DeadLetter{}
	for name, change := range map[string]func(*deadletters.About, *uuid.UUID){
		"tenant":     func(a *deadletters.About, _ *uuid.UUID) { a.Tenant = "a-neighbour" },
		"operation":  func(a *deadletters.About, _ *uuid.UUID) { a.Operation = payment.RefundOperation },
		"key":        func(a *deadletters.About, _ *uuid.UUID) { a.Key = "an-order-0000000042" },
		"generation": func(a *deadletters.About, _ *uuid.UUID) { a.Generation++ },
		"subject":    func(_ *deadletters.About, s *uuid.UUID) { *s = uuid.Must(uuid.NewV7()) },
	} {
		its := subject
		l := aboutKey(ref, &its)
		change(l.About, &its)
		others[name] = l
	}
	return others
}

// aboutKey is a dead letter about the first generation of a key. Without a subject, it is about whatever payment the
// key stands for.
func aboutKey(ref idempotency.Ref, subject *uuid.UUID) deadletters.DeadLetter {
	l := alone(deadletters.LookupsExhausted, `{}`)
	l.About = &deadletters.About{Tenant: ref.Tenant, Operation: string(ref.Operation), Key: ref.Key.String(),
		Generation: 1}
	l.Subject = subject
	return l
}

// Otherwise an operator would be shown the status of another merchant's key, and would decide about that key.
func TestDeadLetterFindsAndLocksItsOwnKeyAlone(t *testing.T) {
	t.Parallel()
	o := setup(t)
	ref, subject := idempotency.StoredRef("acme", payment.CreateOperation, clientKey), uuid.Must(uuid.NewV7())
	o.keyAsIs(ref, idempotency.UnknownStatus, subject)
	check := func(name string, l deadletters.DeadLetter, want idempotency.Status) {
		if got := o.show(o.put(l).ID).Key; got != want {
			t.Errorf("%s: the key is shown as %q", name, got)
		}
		var locked idempotency.Status
		if err := o.db.Transact(t.Context(), func(ctx context.Context, tx pgx.Tx) (err error) {
			locked, err = o.ops.holdTx(ctx, tx, l)
			return err
		}); err != nil || locked != want {
			t.Errorf("%s: the locked key is %q, %v", name, locked, err)
		}
	}
	check("its own", aboutKey(ref, &subject), idempotency.UnknownStatus)
	check("its own, no payment named", aboutKey(ref, nil), idempotency.UnknownStatus)
	for name, l := range aboutOthers(ref, subject) {
		check("another "+name, l, "")
	}
}

// What is found and cannot be closed is found again in each run. If it took up the run's limit, nothing would be
// closed.
func TestOnlyAnsweredDeadLettersTakeUpTheLimitOfARun(t *testing.T) {
	t.Parallel()
	o := setup(t)
	ref, subject := idempotency.StoredRef("acme", payment.CreateOperation, clientKey), uuid.Must(uuid.NewV7())
	open := idempotency.StoredRef("acme", payment.CreateOperation, "an-open-key-000001")
	o.keyAsIs(ref, idempotency.CompletedStatus, subject)
	o.keyAsIs(open, idempotency.UnknownStatus, subject)
	for _, l := range aboutOthers(ref, subject) {
		o.put(l)
	}
	o.put(aboutKey(open, &subject))
	ofAnotherKind := aboutKey(ref, &subject)
	ofAnotherKind.Kind = deadletters.ContradictsCompleted
	o.put(ofAnotherKind)
	o.done(decision(o.put(aboutKey(ref, &subject)), deadletters.Dismiss))

	answered := []deadletters.DeadLetter{o.put(aboutKey(ref, &subject)), o.put(aboutKey(ref, nil))}
	for range answered {
		if closed, err := o.ops.CloseAnswered(t.Context(), 1); closed != 1 || err != nil {
			t.Errorf("%d dead letters are closed, %v", closed, err)
		}
	}
	for _, l := range answered {
		if r := o.show(l.ID).Resolution; r == nil || r.Action != deadletters.Answered {
			t.Errorf("the resolution is %+v", r)
		}
	}
}

// A dead letter shows the payment of its own tenant with its own id. A dead letter without a tenant shows none.
func TestDeadLetterShowsNoPaymentOfAnother(t *testing.T) {
	t.Parallel()
	o := setup(t)
	ref := idempotency.StoredRef("acme", payment.CreateOperation, clientKey)
	mine, others, refund := uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7())
	o.movements("a-neighbour", mine)
	o.movements("acme", others)
	o.exec(`INSERT INTO refunds (tenant_id, id, payment_id, idempotency_key, generation, amount_minor, currency, status)
		VALUES ('acme', $1, $2, 'order-1', 1, 100, 'USD', 'processing')`, refund, others)
	o.put(aboutKey(ref, &mine))
	for _, subject := range []uuid.UUID{others, refund} {
		noTenant := alone(deadletters.OtherAccount, `{}`)
		noTenant.Subject = &subject
		o.put(noTenant)
	}
	page, err := o.ops.listDeadLetters(t.Context(), deadletters.Filter{Status: deadletters.OpenStatus, Limit: 10})
	if err != nil || len(page.Rows) != 3 {
		t.Fatalf("%+v, %v", page, err)
	}
	for _, e := range page.Rows {
		if e.PaymentOrRefund != nil {
			t.Errorf("%s shows %+v", e.Kind, e.PaymentOrRefund)
		}
	}
}

// neighboursOf are the names that differ from a key's name in one part.
func neighboursOf(ref idempotency.Ref) map[string]idempotency.Ref {
	operation, key := string(ref.Operation), ref.Key.String()
	return map[string]idempotency.Ref{
		"tenant":    idempotency.StoredRef("a-neighbour", operation, key),
		"operation": idempotency.StoredRef(ref.Tenant, payment.RefundOperation, key),
		"key":       idempotency.StoredRef(ref.Tenant, operation, "an-order-0000000042"),
	}
}

func TestKeyIsShownUnderItsWholeNameAlone(t *testing.T) {
	t.Parallel()
	o := setup(t)
	ref, subject := idempotency.StoredRef("acme", payment.CreateOperation, clientKey), uuid.Must(uuid.NewV7())
	o.keyAsIs(ref, idempotency.CompletedStatus, subject)
	o.movements("a-neighbour", subject)
	o.movements("acme", uuid.Must(uuid.NewV7()))
	if rows, err := o.ops.ShowKey(t.Context(), ref); err != nil || string(rows.Movement) != "null" {
		t.Errorf("a key without a payment is shown with %s, %v", rows.Movement, err)
	}
	for name, other := range neighboursOf(ref) {
		if rows, err := o.ops.ShowKey(t.Context(), other); !errors.Is(err, idempotency.ErrNoKey) {
			t.Errorf("another %s: shown is %s, %v", name, rows.Key, err)
		}
	}
	others := slices.Collect(maps.Values(neighboursOf(ref)))
	if stamps, err := o.ops.Stamps(t.Context(), others); err != nil || len(stamps) != 0 {
		t.Errorf("keys that do not exist have the stamps %v, %v", stamps, err)
	}
}

// A page that is open waits for a change of the stamp. It would be loaded again whenever anything happens.
func TestStampOfAKeyChangesWithItsOwnEventsAndPaymentAlone(t *testing.T) {
	t.Parallel()
	o := setup(t)
	ref, subject := idempotency.StoredRef("acme", payment.CreateOperation, clientKey), uuid.Must(uuid.NewV7())
	o.keyAsIs(ref, idempotency.CompletedStatus, subject)
	o.movements("acme", subject)
	stamp := func() string {
		stamps, err := o.ops.Stamps(t.Context(), []idempotency.Ref{ref})
		if err != nil || len(stamps) != 1 {
			t.Fatalf("stamps are %v, %v", stamps, err)
		}
		return stamps[ref]
	}
	happens := func(ref idempotency.Ref) {
		o.exec(`INSERT INTO idempotency_key_events (tenant_id, operation, key, generation, attempt, actor, from_status,
				to_status, reason)
			VALUES ($1, $2, $3, 1, 1, 'owner', 'in_progress', 'completed', '')`,
			ref.Tenant, string(ref.Operation), ref.Key.String())
	}
	happens(ref)
	before := stamp()
	for name, other := range neighboursOf(ref) {
		happens(other)
		if after := stamp(); after != before {
			t.Errorf("something happens to another %s: the stamp was %q and is %q", name, before, after)
		}
	}
	o.movements("a-neighbour", subject)
	o.movements("acme", uuid.Must(uuid.NewV7()))
	if after := stamp(); after != before {
		t.Errorf("there are other payments: the stamp was %q and is %q", before, after)
	}
	happens(ref)
	second := stamp()
	o.exec("UPDATE payments SET refund_held_minor = 100, refunded_minor = 100 WHERE (tenant_id, id) = ('acme', $1)",
		subject)
	third := stamp()
	o.exec("UPDATE payments SET moved_outside_minor = 100 WHERE (tenant_id, id) = ('acme', $1)", subject)
	if fourth := stamp(); second == before || third == second || fourth == third {
		t.Errorf("the stamps are %q, after an event %q, after a refund %q, and after others' refund %q", before, second,
			third, fourth)
	}
}
