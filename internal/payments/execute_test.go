package payments

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"payonce/internal/gateway"
	"payonce/internal/payment"
	"payonce/internal/postgres"
	"payonce/test/pgproxy"
)

// Nothing is written and nothing is sent for a request that has no lease, or that nobody waits for.
func TestRequestThatCannotBeExecutedIsNotBegun(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	ended, end := context.WithCancel(t.Context())
	end()
	answer, err := s.service.Create(ended, keyed(t, "order-0000000001"), order())
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a client that has hung up is answered %T, %v", answer, err)
	}
	makeID := s.service.newID
	s.service.newID = withoutID(2, makeID)
	if answer, err := s.service.Create(t.Context(), keyed(t, "order-0000000002"), order()); err == nil {
		t.Errorf("a payment without a lease is answered %T", answer)
	}
	s.service.newID = makeID
	s.failing(1<<30, diskFull, "payments", "INSERT", "true")
	answer, err = s.service.Create(t.Context(), keyed(t, "order-0000000003"), order())
	if !postgres.Unavailable(err) {
		t.Errorf("while the disk is full, a payment is answered %T, %v", answer, err)
	}
	if posts, _ := psp.seen(); posts != 0 || s.count("SELECT count(*) FROM idempotency_keys") != 0 {
		t.Errorf("%d charges were sent", posts)
	}
}

// The client is told that nothing was executed only if that is written. A retry may find the key unknown otherwise.
func TestReleaseThatIsNotWrittenIsNotTold(t *testing.T) {
	t.Parallel()
	s := setupAt(t, "http://127.0.0.1:1", time.Now) // nobody listens, so nothing is sent
	proxy := s.proxied()
	is[NotExecuted](t, s.create("order-0000000001", order()))
	proxy.OnNext(3, "ReleaseKey", pgproxy.CutBefore)
	is[Pending](t, s.create("order-0000000002", order()))
}

// What the first of two steps has come to is the outcome. The second one is not tried.
func TestOutcomeOfTheFirstStepIsKept(t *testing.T) {
	t.Parallel()
	s := setupTwoSteps(t)
	s.failing(1<<30, oddError, "payments", "UPDATE", "OLD.psp_object_id IS DISTINCT FROM NEW.psp_object_id")
	is[NotExecuted](t, s.pay(twoStepKey, "pm_ok"))
	if reasons := s.texts("SELECT reason FROM idempotency_key_events"); len(reasons) != 1 ||
		reasons[0] != "the PSP's object was not stored" {
		t.Errorf("the timeline says %q", reasons)
	}
}

// A payment that could not be read is not taken for an empty one: the client is told of the payment that it has asked
// for.
func TestPaymentThatCannotBeReadKeepsItsID(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001").swept().proven().expired()
	s.proxied().On("GetPayment", pgproxy.CutBefore)
	p := is[Pending](t, g.live(g.lease, g.movement, gateway.NotExecuted{Reason: "no connection"}))
	if id := is[payment.Payment](t, p.Resource).ID; uuid.UUID(id) != g.lease.Subject {
		t.Errorf("answered for %s", id)
	}
}

// Nothing is told of a payment that cannot be read, also if the PSP is not asked.
func TestFailedPaymentThatCannotBeReadIsNoAnswer(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.charging("order-0000000044").failed()
	s.proxied().On("GetPayment", pgproxy.CutBefore)
	answer, err := s.withoutPSP().service.Create(t.Context(), keyed(t, "order-0000000044"), order())
	if !postgres.Unavailable(err) {
		t.Errorf("answered %T %+v: %v", answer, answer, err)
	}
}

// A retry knows its payment from the statement that has taken the key. To read it again would be a third round trip.
func TestRetakenPaymentIsNotReadAgain(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	proxy := s.proxied()
	g := s.charging("order-0000000001").failed()
	m := g.again()
	g.reserve(m)
	if n := proxy.Sent("GetPayment"); n != 0 || m.subject() != g.lease.Subject {
		t.Errorf("the payment was read %d times, and is %s", n, m.subject())
	}
}

// A payment that the database refuses is an error, also when it is sent alone.
func TestPaymentThatTheDatabaseRefusesIsNotBegun(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	k := keyed(t, "order-0000000001")
	m := s.charge(k)
	m.wanted.AmountCents = 0
	r := reserving{service: s.service, reservation: s.reservation(payment.CreateOperation, k), movement: m, again: true}
	if d, err := r.send(t.Context()); err == nil || m.resource() != nil {
		t.Errorf("decided %T, of %v", d, m.resource())
	}
	if n := s.count("SELECT count(*) FROM idempotency_keys"); n != 0 {
		t.Errorf("%d keys are taken", n)
	}
}
