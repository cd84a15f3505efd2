package payments

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/internal/postgres"
)

// A key under which money has moved, and of which we know too little: while a dead letter is open about it, nobody
// executes it.

// forgets has the PSP forget its keys, as it does after a day. Its ledger stays.
func (s *shop) forgets() {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodDelete, s.pspURL+"/_keys", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil || response.StatusCode != http.StatusOK {
		s.t.Fatalf("the PSP forgets: %v %v", response, err)
	}
	if err := response.Body.Close(); err != nil {
		s.t.Fatal(err)
	}
}

// scans reads the PSP's whole ledger, as a scan does.
func (s *shop) scans() {
	s.t.Helper()
	for _, o := range []gateway.Object{gateway.ChargeObject, gateway.RefundObject} {
		page, err := s.service.psps.Of(native.Name).List(s.t.Context(), o, "acme", time.Time{}, "")
		if err == nil {
			page, err = s.service.Unexplained(s.t.Context(), native.Name, o, "acme", page)
		}
		if err != nil {
			s.t.Fatal(err)
		}
		for _, r := range page.Records {
			s.evidenceBy(judge.SourceScan, r)
		}
	}
}

// moved counts the movements of the PSP's ledger that have succeeded.
func (s *shop) moved(o gateway.Object) (n int) {
	s.t.Helper()
	page, err := s.service.psps.Of(native.Name).List(s.t.Context(), o, "acme", time.Time{}, "")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, r := range page.Records {
		if r.Executed() {
			n++
		}
	}
	return n
}

// dismissed has an operator close the only open dead letter.
func (s *shop) dismissed() {
	s.t.Helper()
	open := deadletters.Filter{Status: deadletters.OpenStatus, Limit: 9}
	page, err := deadletters.List(s.t.Context(), s.service.db, open)
	if err != nil || len(page.DeadLetters) != 1 {
		s.t.Fatalf("open are %+v: %v", page.DeadLetters, err)
	}
	l := page.DeadLetters[0]
	err = pgx.BeginFunc(s.t.Context(), s.pool, func(tx pgx.Tx) error {
		ref := idempotency.StoredRef(l.About.Tenant, l.About.Operation, l.About.Key)
		if err := postgres.PipelineTx(s.t.Context(), tx, s.keys.LockKey(ref, l.About.Generation)); err != nil {
			return err
		}
		_, err := deadletters.ResolveTx(s.t.Context(), tx, deadletters.Decision{DeadLetter: l.ID, Version: l.Version,
			Action: deadletters.Dismiss, Actor: "ops", Reason: "refunded"})
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// wantHeld sends a request and expects that the PSP moves nothing for it.
func (s *shop) wantHeld(o gateway.Object, ask func() (Answer, error)) {
	s.t.Helper()
	before := s.moved(o)
	answer, err := ask()
	if err != nil {
		s.t.Fatal(err)
	}
	if now := s.moved(o); now != before {
		s.t.Fatalf("the PSP has moved money %d times instead of %d, and the answer is %T", now, before, answer)
	}
	is[Held](s.t, answer)
}

func (s *shop) creating(key string) func() (Answer, error) {
	return func() (Answer, error) { return s.service.Create(s.t.Context(), keyed(s.t, key), order()) }
}

// The database goes back to a time before the payment. The PSP has the charge, and no longer its key.
func TestKeyThatARestoreHasLostIsNotChargedTwice(t *testing.T) {
	t.Parallel()
	const key = "order-0000000001"
	lost := setup(t)
	lost.paid(key)
	s := setupAt(t, lost.pspURL, time.Now) // a database without the key and its payment
	s.forgets()
	s.scans()
	s.wantHeld(gateway.ChargeObject, s.creating(key))
	s.wantHeld(gateway.ChargeObject, s.creating(key)) // and again

	// The operator has seen to the charge. Only now the key is free, for a charge of its own.
	s.dismissed()
	if f := is[Final](t, s.create(key, order())); f.Response.Status != http.StatusCreated {
		t.Fatalf("answer is %+v", f)
	}
	if n := s.count("SELECT generation FROM payments"); n != 2 || s.moved(gateway.ChargeObject) != 2 {
		t.Fatalf("it was charged as generation %d", n)
	}
	s.scans() // which finds the same charge, and no new case
	if n := s.count("SELECT count(*) FROM dead_letters WHERE status = 'open'"); n != 0 {
		t.Fatalf("%d are open", n)
	}
}

// The same for a refund: its payment is still there.
func TestRefundThatARestoreHasLostIsNotPaidTwice(t *testing.T) {
	t.Parallel()
	s := setup(t)
	p := s.paid("order-0000000001")
	refunds := func() (Answer, error) {
		return s.service.Refund(t.Context(), keyed(t, "refund-000000001"), p.ID,
			payment.RefundRequest{AmountCents: 100})
	}
	if answer, err := refunds(); err != nil || is[Final](t, answer).Response.Status != http.StatusCreated {
		t.Fatalf("%+v %v", answer, err)
	}
	s.timePasses("DELETE FROM refunds")
	s.timePasses("DELETE FROM idempotency_keys WHERE operation = $1", payment.RefundOperation)
	s.timePasses("UPDATE payments SET refunded_minor = 0")
	s.forgets()
	s.scans()
	s.wantHeld(gateway.RefundObject, refunds)
	s.wantOutside(100) // and no other refund takes it
}

// A key that was given up as not executed. What is found then is money under the key, whatever the key stands for.
func TestKeyIsNotExecutedAgainWhileMoneyUnderItIsACase(t *testing.T) {
	t.Parallel()
	for name, between := range map[string]func(*stage){
		"released": func(g *stage) { g.record.Reference = "somebody's" },
		"expired":  func(g *stage) { g.expired() },
		"deleted":  func(g *stage) { g.deleted() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setup(t)
			g := s.charging("order-0000000001").failed()
			between(g)
			is[DeadLettered](t, s.evidenceBy(judge.SourceScan, g.record))
			before := s.everything()
			s.wantHeld(gateway.ChargeObject, s.creating("order-0000000001"))
			if now := s.everything(); now != before {
				t.Errorf("it has moved from\n%s to\n%s", before, now)
			}
			s.dismissed()
			lease := g.reserve(g.again())
			if lease.Attempt+lease.Generation != 3 {
				t.Errorf("after the decision it is reserved as %+v", lease)
			}
		})
	}
}

// While the PSP is not asked at all, the answer must not say that nothing was charged.
func TestHeldKeyIsNotCalledUnexecutedWhileTheBreakerIsOpen(t *testing.T) {
	t.Parallel()
	s := setup(t)
	g := s.charging("order-0000000001").failed().deleted()
	is[DeadLettered](t, s.evidenceBy(judge.SourceScan, g.record))
	r := s.keys.NewReservation(g.reservation.Ref, g.reservation.Fingerprint, uuid.New(), uuid.New())
	answer, err := s.service.answerWithoutPSP(t.Context(), r, g.again())
	if err != nil {
		t.Fatal(err)
	}
	is[Held](t, answer)
}
