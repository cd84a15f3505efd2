package payments

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/test/pgtest"
)

// What contradicts is a dead letter, and holds the key: "nothing", later, does not release it. Until the operator has
// judged.
func TestOpenDeadLetterHoldsTheKey(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	g := s.charging("order-0000000001").lost().windowPasses()
	is[DeadLettered](t, s.evidenceBy(judge.SourceWebhook, otherAmount.record(g)))
	// A PSP that does not answer makes no second case of it, however often.
	for range patient().Budget + 1 {
		g.resolves(ToOperator)
		g.wantWait(patient().Recheck)
	}
	s.wantDeadLetters(contradicts(g, g.record.ID))
	psp.onLookup(finds())
	g.resolves(ToOperator)
	g.wantWait(patient().Recheck)
	g.wantStatus(idempotency.UnknownStatus, 1)
	g.wantMoved(payment.Processing, "")
	s.resolveDeadLetter(deadletters.Dismiss)
	g.resolves(Resolved)
	g.wantStatus(idempotency.FailedRetryableStatus, 1)
}

// An operator has judged one attempt of a key. The next one is lost as well: without a dead letter of its own, nobody
// would look at it.
func TestJudgementOfAnAttemptDoesNotCoverTheNext(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	g := s.charging("order-0000000001").lost().windowPasses()
	exhaust := func() {
		for range 3 {
			g.resolves(Scheduled)
		}
		g.resolves(ToOperator)
	}
	exhaust()
	psp.onLookup(finds())
	s.notExecuted(g)
	g.wantStatus(idempotency.FailedRetryableStatus, 1)

	psp.onLookup(nil)
	is[Pending](t, s.create("order-0000000001", order()))
	g.wantStatus(idempotency.UnknownStatus, 2)
	exhaust()
	if n := s.count("SELECT count(*) FROM dead_letters WHERE status = 'open' AND kind = 'lookups_exhausted'"); n != 1 {
		t.Fatalf("%d open dead letters about an unknown key that nobody else will decide about", n)
	}
}

// notExecuted resolves the one open dead letter, about the given key, as an operator does.
func (s *shop) notExecuted(g *stage) {
	s.t.Helper()
	id := pgtest.Value[uuid.UUID](s.t, s.pool, "SELECT id FROM dead_letters WHERE status = 'open'")
	deadLetter := g.about(1)
	deadLetter.ID = id
	inquiry, err := s.inquired(s.t.Context(), deadLetter,
		judge.OperatorDecision{Action: deadletters.NotExecuted})
	if err != nil {
		s.t.Fatal(err)
	}
	err = s.service.db.Transact(s.t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		_, err := s.decideTx(ctx, tx, inquiry, &deadletters.Decision{DeadLetter: id, Version: 1,
			Action: deadletters.NotExecuted, Actor: "ann", Reason: "the PSP says no"})
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// While money of an earlier payment holds the key, the next one is looked up rarely. Who closes that case has decided
// nothing about the next payment, so it is looked up at once.
func TestNextPaymentIsLookedUpOnceTheCaseOfTheEarlierOneIsClosed(t *testing.T) {
	t.Parallel()
	s := setup(t)
	g := s.charging("order-0000000001").failed().expired()
	g.lostAgain()
	is[DeadLettered](t, s.evidenceBy(judge.SourceScan, g.record))
	resolves := func(want LookupResult) {
		got, err := s.lookUpDue(t.Context(),
			idempotency.Due{Ref: g.reservation.Ref, Generation: 2}, patient())
		if err != nil || got != want {
			t.Fatalf("resolved to %q, want %q (%v)", got, want, err)
		}
	}
	resolves(ToOperator)
	for _, due := range []int{0, 1} {
		if n := s.count("SELECT count(*) FROM idempotency_keys WHERE reconcile_after <= payonce_now()"); n != due {
			t.Fatalf("%d are due, want %d", n, due)
		}
		if due == 0 {
			s.dismissed()
		}
	}
	resolves(Resolved)
}

// A second charge that nobody asked for is money that moved, whatever was decided about the first.
func TestSecondStrayChargeOfAKeyIsACaseOfItsOwn(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	g := s.charging("order-0000000001")
	psp.onLookup(finds(as("psp_stray_1", otherAmount.record(g))))
	g.lost().windowPasses().resolves(ToOperator)
	want := []string{contradicts(g, "psp_stray_1")}
	for _, source := range []judge.Source{judge.SourceWebhook, judge.SourceScan, judge.SourceLookup} {
		s.resolveDeadLetter(deadletters.Dismiss)
		id := "psp_stray_by_" + string(source)
		if source == judge.SourceLookup {
			psp.onLookup(finds(as(id, otherAmount.record(g))))
			g.resolves(ToOperator)
		} else {
			is[DeadLettered](t, s.evidenceBy(source, as(id, otherAmount.record(g))))
		}
		want = append(want, contradicts(g, id))
		s.wantDeadLetters(want...)
	}
}

// While an open dead letter says that money moved, nobody is told that the payment was declined.
func TestDeclineBesideMovedMoneyIsForAnOperator(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	for i, source := range []judge.Source{judge.SourceWebhook, judge.SourceScan, judge.SourceLookup} {
		g := s.charging("order-000000000" + string(rune('1'+i))).lost().windowPasses()
		is[DeadLettered](t, s.evidenceBy(judge.SourceWebhook, as("psp_stray_"+string(source), otherAmount.record(g))))
		declined := as("psp_declined_"+string(source), declinedAs(g.record, "no_money"))
		for range 2 {
			if source == judge.SourceLookup {
				psp.onLookup(finds(declined))
				g.resolves(ToOperator)
			} else if l := is[DeadLettered](t, s.evidenceBy(source, declined)); l.Kind != deadletters.PSPContradicts {
				t.Errorf("%s: dead letter %s", source, l.Kind)
			}
		}
		g.wantStatus(idempotency.UnknownStatus, 1)
		g.wantMoved(payment.Processing, "")
		if n := s.count("SELECT count(*) FROM dead_letters WHERE finding = $1 AND evidence #>> '{record,status}' = 'declined'",
			strings.TrimPrefix(contradicts(g, declined.ID), "psp_contradicts_request ")); n != 1 {
			t.Errorf("%s: %d dead letters hold the decline", source, n)
		}
		// A retry of the dead letter about the money says that it is seen to: what is left is the decline.
		s.resolveDeadLetterThat("evidence #>> '{record,status}' = 'succeeded'", deadletters.Retry)
		is[Completed](t, s.evidenceBy(judge.SourceWebhook, declined))
		g.wantMoved(payment.Declined, declined.ID)
	}
}

// A cancelled object is never executed, so nobody has to wait for the grace period.
func TestCancelledKeyIsFreeAtOnce(t *testing.T) {
	t.Parallel()
	s := setupTwoSteps(t)
	s.chooses(func(step string, _ *http.Request) bool { return step == "create" }) // Nothing else arrives.
	is[Pending](t, s.pay(twoStepKey, "pm_ok"))
	if s.status(twoStepKey) != "unknown" {
		t.Fatalf("key %s", s.status(twoStepKey))
	}
	s.chooses(nil)
	if got := s.lookUp(twoStepKey); got != Resolved || s.status(twoStepKey) != "failed_retryable" {
		t.Fatalf("lookup %s, key %s, steps %q", got, s.status(twoStepKey), s.steps())
	}
	// The next attempt has an object of its own: the first one is cancelled for good.
	if f := is[Final](t, s.pay(twoStepKey, "pm_ok")); f.Response.Status != http.StatusCreated {
		t.Fatalf("answer %d", f.Response.Status)
	}
}

// A customer has time to pay until the grace period is over. Then the lookup cancels.
func TestLookupLeavesThePaymentToTheCustomerWithinTheGracePeriod(t *testing.T) {
	t.Parallel()
	s := setupTwoSteps(t)
	is[Pending](t, s.pay(twoStepKey, "pm_requires_action_abandoned"))
	if got := s.lookUp(twoStepKey); got != Scheduled || s.status(twoStepKey) != "unknown" {
		t.Fatalf("lookup %s, key %s", got, s.status(twoStepKey))
	}
	if s.steps() != "create confirm read" {
		t.Fatalf("steps %q", s.steps())
	}
	s.wantWait(twoStepKey, patient().Cap)
	s.exec("UPDATE idempotency_keys SET unknown_since = unknown_since - $1::interval", terms().GracePeriod)
	if got := s.lookUp(twoStepKey); got != Resolved || s.status(twoStepKey) != "failed_retryable" {
		t.Fatalf("lookup %s, key %s", got, s.status(twoStepKey))
	}
	if s.steps() != "create confirm read read cancel" {
		t.Fatalf("steps %q", s.steps())
	}
}
