package payments

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/postgres"
)

// What ends the hold of a key under which money has moved, and what does not.

// open are the open dead letters, newest first.
func (s *shop) open() []deadletters.DeadLetter {
	s.t.Helper()
	page, err := deadletters.List(s.t.Context(), s.service.db,
		deadletters.Filter{Status: deadletters.OpenStatus, Limit: 9})
	if err != nil {
		s.t.Fatal(err)
	}
	return page.DeadLetters
}

// retried has an operator retry a dead letter, and returns what is left to do after the commit.
func (s *shop) retried(l deadletters.DeadLetter) *judge.Again {
	s.t.Helper()
	i, err := s.service.Inquire(s.t.Context(), l,
		judge.OperatorDecision{Action: deadletters.Retry, Version: l.Version})
	if err != nil {
		s.t.Fatal(err)
	}
	var step judge.Step
	err = s.inTx(func(ctx context.Context, tx pgx.Tx) (err error) {
		ref := idempotency.StoredRef(l.About.Tenant, l.About.Operation, l.About.Key)
		if err = postgres.PipelineTx(ctx, tx, s.keys.LockKey(ref, l.About.Generation)); err != nil {
			return err
		}
		step, err = s.decideTx(ctx, tx, i, &deadletters.Decision{DeadLetter: l.ID, Version: l.Version,
			Action: deadletters.Retry, Actor: "ops", Reason: "again"})
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return step.Again()
}

// A retry resolves the case that holds the key. There is no moment in which the client could charge again.
func TestRetryOfARecordDoesNotFreeItsKey(t *testing.T) {
	t.Parallel()
	const key = "order-0000000001"
	for name, between := range map[string]func(*stage){
		"expired":                                func(g *stage) { g.expired() },
		"deleted":                                func(g *stage) { g.deleted() },
		"lost":                                   func(g *stage) { g.record.Reference = "somebody's"; g.deleted() },
		"released, and the record is somebody's": func(g *stage) { g.record.Reference = "somebody's" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setup(t)
			g := s.charging(key).failed()
			between(g)
			is[DeadLettered](t, s.evidenceBy(judge.SourceScan, g.record))
			again := s.retried(s.open()[0])
			s.wantHeld(gateway.ChargeObject, s.creating(key))
			if l := s.open(); again != nil || len(l) != 1 || l[0].Version != 1 {
				t.Errorf("left is %+v, and open are %+v", again, l)
			}
		})
	}
}

// A retry of a case whose payment is there again judges the record by the payment, and the key is free of the case.
func TestRetryFindsThePaymentThatIsThereAgain(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001").succeeded()
	s.timePasses("UPDATE payments SET id = '00000000-0000-7000-8000-000000000000'")
	is[DeadLettered](t, s.evidenceBy(judge.SourceScan, g.record))
	l := s.open()[0]
	s.timePasses("UPDATE payments SET id = $1", g.lease.Subject)
	if again := s.retried(l); again != nil || len(s.open()) != 0 || l.Kind != deadletters.UnknownMovement {
		t.Errorf("of %s is left %+v, and open are %+v", l.Kind, again, s.open())
	}
}

// The statement of a day may come before the scan. Its case names no key, and does not keep the scan's case away.
func TestStatementsCaseDoesNotKeepTheKeysCaseAway(t *testing.T) {
	t.Parallel()
	s := setup(t)
	g := s.charging("order-0000000001").failed().deleted()
	g.record.Reference = "somebody's"
	b := judge.Break{Kind: judge.BreakMissingHere, Account: g.record.Account, PSPID: g.record.ID,
		Object: g.record.Object,
		Theirs: &judge.Side{AmountMinor: 12000, Currency: "USD"}}
	s.wantResolved(b, false)
	is[DeadLettered](t, s.evidenceBy(judge.SourceScan, g.record))
	s.wantHeld(gateway.ChargeObject, s.creating("order-0000000001"))
	is[DeadLettered](t, s.evidenceBy(judge.SourceWebhook, g.record))
	if n := len(s.open()); n != 2 {
		t.Errorf("%d are open", n)
	}
}

// What others have moved out of a payment is no money under its key. An expired key begins a new payment.
func TestRefundOfOthersDoesNotHoldTheNextGeneration(t *testing.T) {
	t.Parallel()
	s := setup(t)
	g := s.charging("order-0000000001")
	p := g.paidFor()
	g.expired()
	s.tells(judge.SourceWebhook, byOthers(gateway.RefundObject, p.PSPChargeID, "re_1", "succeeded", 500), true)
	if f := is[Final](t, s.create("order-0000000001", order())); f.Response.Status != 201 {
		t.Errorf("answer is %+v", f)
	}
}

// The PSP's record may name any generation. One that no key of ours can have reached is not ours, and holds no key.
func TestImpossibleGenerationHoldsNoKey(t *testing.T) {
	t.Parallel()
	s := setup(t)
	g := s.charging("order-0000000001").failed().deleted()
	g.record.Reference, g.record.Key = "", "order-0000000001.g2147483647"
	is[DeadLettered](t, s.evidenceBy(judge.SourceScan, g.record))
	if f := is[Final](t, s.create("order-0000000001", order())); f.Response.Status != 201 {
		t.Errorf("answer is %+v", f)
	}
}

// lostAgain is the next payment of an expired key. It is lost, and its grace period is over.
func (s *stage) lostAgain() *stage {
	s.t.Helper()
	next := *s
	next.movement = s.again()
	next.lease = s.reserve(next.movement)
	next.lost().windowPasses()
	return &next
}

// A case says that money moved for an earlier payment of the key. That proves nothing for the payment that has it now.
func TestMoneyOfAnEarlierPaymentDoesNotProveTheNextOne(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	g := s.charging("order-0000000001").failed().expired()
	next := g.lostAgain()
	is[DeadLettered](t, s.evidenceBy(judge.SourceScan, g.record))
	psp.onLookup(finds())
	i, err := s.service.Inquire(t.Context(), next.about(2), judge.OperatorDecision{Action: deadletters.Executed})
	if err != nil {
		t.Fatal(err)
	}
	s.wantRefused("the PSP has nothing", on(judge.ContradictsPSP), func() error {
		return s.decide(i)
	})
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
		got, err := s.service.LookUpDue(t.Context(),
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
