package payments

import (
	"errors"
	"testing"
	"time"

	"payonce/internal/idempotency"
	"payonce/internal/postgres"
	"payonce/test/pgproxy"
	"payonce/test/pgtest"
)

// successStep is the step of an owner that the PSP has told of the success.
func (g *stage) successStep() (gathered, Step) {
	c := gatherReserved(g.lease, g.movement)
	return c, judge(LookupPolicy{}, c.seen, Reply{Attempt: 1, Outcome: g.success()})
}

// A database that acknowledges nothing at present makes each further try wait as long. So the first is the last, and
// the client is told that the outcome is not known.
func TestOwnerStopsWhenItsStepIsNotReadInTime(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	proxy := s.proxied()
	g := s.charging("order-0000000001")
	limits := pgtest.Limits()
	limits.StatementTimeout = 250 * time.Millisecond // an answer may take twice as long
	impatient, err := postgres.Open(t.Context(), proxy.URL(), limits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(impatient.Close)
	s.service.keys = idempotency.New(impatient, terms(), time.Now)
	if _, err := s.service.keys.FindDurably(t.Context(), g.reservation.Ref); err != nil { // connects and prepares
		t.Fatal(err)
	}
	proxy.On("CompleteKeys", pgproxy.DropAcknowledgement)
	held := proxy.OnNext(3, "FindKey", pgproxy.HoldBefore)
	seen, step := g.successStep()
	applied, err := s.service.apply(t.Context(), seen, step, false)
	held.Release()
	if !errors.Is(err, errStepInDoubt) || applied.Passed {
		t.Errorf("passed is %t, %v", applied.Passed, err)
	}
	if n := proxy.Sent("CompleteKeys"); n != 1 {
		t.Errorf("the step was sent %d times", n)
	}
}

// The first try may have arrived, and the others were refused. The last error alone would say that nothing is written.
func TestStepThatMayHaveArrivedIsInDoubtWhateverComesAfter(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	proxy := s.proxied()
	g := s.charging("order-0000000001")
	s.failing(1<<30, diskFull, "idempotency_keys", "UPDATE", "NEW.status = 'completed'")
	proxy.On("CompleteKeys", pgproxy.CutBefore)
	is[Pending](t, g.live(g.lease, g.movement, g.success()))
	if n := proxy.Sent("CompleteKeys"); n != 3 {
		t.Errorf("the step was sent %d times", n)
	}
}
