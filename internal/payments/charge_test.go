package payments

import (
	"testing"

	"github.com/google/uuid"

	"payonce/internal/gateway"
	"payonce/internal/postgres"
	"payonce/test/pgproxy"
)

// A payment that could not be read is not taken for an empty one: the client is told of the payment that it has asked
// for.
func TestPaymentThatCannotBeReadKeepsItsID(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001").swept().proven().expired()
	s.proxied().On("GetPayment", pgproxy.CutBefore)
	p := is[Pending](t, g.live(g.lease, g.movement, gateway.NotExecuted{Reason: "no connection"}))
	if id := is[Payment](t, p.Resource).ID; uuid.UUID(id) != g.lease.Subject() {
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
	if n := proxy.Sent("GetPayment"); n != 0 || m.subject() != g.lease.Subject() {
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
	c := s.reservation(CreateOperation, k)
	if d, err := s.service.reserveOnce(t.Context(), c, m, true, false); err == nil || m.resource() != nil {
		t.Errorf("decided %T, of %v", d, m.resource())
	}
	if n := s.count("SELECT count(*) FROM idempotency_keys"); n != 0 {
		t.Errorf("%d keys are taken", n)
	}
}
