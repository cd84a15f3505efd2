package payments

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
)

// about is a letter about what the stage's key stood for at first.
func (g *stage) about(generation int32) deadletters.Letter {
	subject := g.lease.Subject()
	return deadletters.Letter{Subject: &subject, About: &deadletters.About{
		Tenant: "acme", Scope: string(g.claim.Ref.Scope), Key: g.key.Key.String(), Generation: generation,
	}}
}

func (g *stage) inquire() Inquiry {
	g.t.Helper()
	i, err := g.service.Inquire(g.t.Context(), g.about(1))
	if err != nil {
		g.t.Fatal(err)
	}
	return i
}

// inTx runs fn in a transaction that commits if fn returns nil.
func (s *shop) inTx(fn func(context.Context, pgx.Tx) error) error {
	return s.service.db.Transact(s.t.Context(), fn)
}

func (s *shop) ruleExecuted(i Inquiry, pspID string) error {
	return s.inTx(func(ctx context.Context, tx pgx.Tx) error { return s.service.RuleExecutedTx(ctx, tx, i, pspID) })
}

func (s *shop) ruleNotExecuted(i Inquiry) error {
	return s.inTx(func(ctx context.Context, tx pgx.Tx) error { return s.service.RuleNotExecutedTx(ctx, tx, i) })
}

func (s *shop) wake(about deadletters.Letter) error {
	return s.inTx(func(ctx context.Context, tx pgx.Tx) error { return s.service.WakeTx(ctx, tx, about) })
}

// wantRefused wants a ruling to fail so, and to leave nothing.
func (s *shop) wantRefused(name string, want error, rule func() error) {
	s.t.Helper()
	before := s.everything()
	if err := rule(); !errors.Is(err, want) || s.everything() != before {
		s.t.Errorf("%s: error %v, want %v; moved: %v", name, err, want, s.everything() != before)
	}
}

func TestInquiryHasThePSPsFreshWord(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	g := s.charging("order-0000000001").lost()
	i := g.inquire()
	if _, failed := i.Answer().(gateway.LookupFailed); !failed || i.WindowOver() || i.Verdict() != nil || i.Status() != idempotency.UnknownStatus {
		t.Errorf("a PSP that does not answer: %T, over %v, verdict %v, %s", i.Answer(), i.WindowOver(), i.Verdict(), i.Status())
	}
	g.windowPasses()
	psp.onLookup(finds())
	if i = g.inquire(); i.Answer() != (gateway.NotFound{}) || !i.WindowOver() || i.Verdict() != nil {
		t.Errorf("nothing found: %T, over %v, verdict %v", i.Answer(), i.WindowOver(), i.Verdict())
	}
	for r, want := range map[gateway.Record]gateway.Outcome{
		g.record: g.success(), refusedBy(g.record, "no_money"): gateway.Declined{ID: g.record.ID, Code: "no_money"},
	} {
		psp.onLookup(finds(r))
		if got := g.inquire().Verdict(); got != want {
			t.Errorf("found %s: %+v", r.Status, got)
		}
	}
	psp.onLookup(finds(otherAmount.record(g)))
	if o, ok := g.inquire().Verdict().(gateway.Indeterminate); !ok || !o.Contradiction {
		t.Errorf("found another amount: %+v", o)
	}
	for name, about := range map[string]deadletters.Letter{
		"another generation": g.about(2),
		"another key":        {About: &deadletters.About{Scope: string(g.claim.Ref.Scope), Key: "order-0000000002", Generation: 1}},
	} {
		if _, err := s.service.Inquire(t.Context(), about); !errors.Is(err, idempotency.ErrNoKey) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Of the records under the key, those count for a decision that refer to this payment, or to nothing. One that refers to something else is not taken as
// executed, and does not stand in the way of "not executed": otherwise nothing could be decided.
func TestRecordThatRefersToSomethingElseDecidesNothing(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	other := s.charging("order-0000000002").failed()
	g := s.charging("order-0000000001").lost().windowPasses()
	refersTo := func(id, reference string) gateway.Record {
		r := as(id, g.record)
		r.Reference = reference
		return r
	}
	strange, others, none := refersTo("psp_strange", "order 42"), refersTo("psp_others", other.record.Reference), refersTo("psp_none", "")
	psp.onLookup(finds(strange, others))
	i := g.inquire()
	for _, r := range []gateway.Record{strange, others} {
		if reference, foreign := i.Foreign(r.ID); !foreign || reference != r.Reference {
			t.Errorf("%s refers to %q, foreign: %v", r.ID, reference, foreign)
		}
	}
	if _, foreign := i.Foreign("psp_else"); foreign || len(i.Own()) != 0 || i.Verdict() != nil {
		t.Errorf("own records are %+v, verdict %+v", i.Own(), i.Verdict())
	}
	for _, r := range []gateway.Record{none, g.record} {
		psp.onLookup(finds(strange, r))
		i := g.inquire()
		if _, foreign := i.Foreign(r.ID); foreign || len(i.Own()) != 1 || i.Own()[0].ID != r.ID {
			t.Errorf("own records are %+v", i.Own())
		}
		s.wantRefused("not executed, and the PSP has one of this payment or of none", ErrMoved, func() error { return s.ruleNotExecuted(i) })
	}
	psp.onLookup(finds(refusedBy(g.record, "no_money")))
	if r, known := g.inquire().Knows(); !known || r.ID != g.record.ID {
		t.Errorf("the PSP's decline is not known: %+v", r)
	}
	psp.onLookup(finds(strange, refusedBy(g.record, "no_money")))
	i = g.inquire()
	if r, known := i.Knows(); known {
		t.Errorf("a PSP that contradicts itself knows %+v: nothing could be decided", r)
	}
	if err := s.ruleNotExecuted(i); err != nil {
		t.Error(err)
	}
	g.wantStatus(idempotency.FailedRetryableStatus, 1)
}

func TestRulingExecutedCompletesTheKey(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	p := s.charging("paid-00000000001").paidFor()
	for _, g := range []*stage{s.charging("order-0000000001").lost(), s.refunding("refund-000000001", p, 100).lost()} {
		if err := s.ruleExecuted(g.inquire(), g.record.ID); err != nil {
			t.Fatal(err)
		}
		g.wantStatus(idempotency.CompletedStatus, 1)
		g.wantMoved(Success, g.record.ID)
		g.wantTimeline("owner in_progress>unknown", "operator unknown>completed")
		before := s.everything()
		is[Confirmed](t, s.settle(SourceLookup, g.record))
		is[Lettered](t, s.settle(SourceLookup, executedTwice.record(g)))
		if s.everything() != before {
			t.Error("evidence has moved what was ruled")
		}
	}
	s.wantTotals(p, 100, 100)
	// The PSP has not said so, and the tenant's timeline must not say that it has.
	if reasons := s.texts("SELECT DISTINCT reason FROM idempotency_key_events WHERE actor = 'operator'"); len(reasons) != 1 || reasons[0] != "an operator says: executed" {
		t.Errorf("the timeline says %q", reasons)
	}
	if f := is[Final](t, s.create("order-0000000001", order())); !f.Replayed || f.Response.Status != 201 {
		t.Errorf("the retry was answered %+v", f)
	}
}

// Where an operator has vouched without the PSP's id, the first record of the PSP that comes to light confirms him, and names the movement:
// with its name a second one is noticed, and the payment can be refunded. What was answered stays to the byte. A refusal confirms nothing.
func TestEvidenceConfirmsWhatAnOperatorVouchesFor(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001").swept()
	if err := s.ruleExecuted(g.inquire(), OperatorPSPID+"42"); err != nil {
		t.Fatal(err)
	}
	stored := g.row()
	for _, source := range []Source{SourceScan, SourceLookup, SourceWebhook} {
		is[Confirmed](t, s.settle(source, g.record))
	}
	if f := is[Final](t, g.live(g.lease, g.movement, g.success())); string(f.Response.Body) != string(stored.Response.Body) {
		t.Errorf("the late owner answers %s", f.Response.Body)
	}
	s.wantLetters()
	g.wantMoved(Success, g.record.ID)
	if r := g.row(); string(r.Response.Body) != string(stored.Response.Body) {
		t.Errorf("the stored response is %s now", r.Response.Body)
	}
	is[Lettered](t, s.settle(SourceLookup, refusedBy(g.record, "no_money")))
	is[Lettered](t, s.settle(SourceScan, as("psp_again", g.record)))
	s.wantLetters("contradicts_completed record acme "+g.record.ID, "duplicate_movement record acme psp_again")
}

// ways are how a key moves between an operator's look and his word.
func ways() map[string]func(*stage) {
	return map[string]func(*stage){
		"completed": func(g *stage) { g.settle(SourceWebhook, as("psp_"+g.key.Key.String(), g.record)) },
		"released":  func(g *stage) { g.proven() },
		"retried":   func(g *stage) { g.proven().reserve(g.again()) },
		"lost again": func(g *stage) {
			m := g.proven().again()
			g.live(g.reserve(m), m, gatewayLost())
			g.windowPasses()
		},
		"renewed": func(g *stage) { g.proven().renewed() },
		"deleted": func(g *stage) { g.proven().deleted() },
	}
}

func TestRulingOnAKeyThatHasMovedIsRefused(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	psp.onLookup(finds())
	for name, moves := range ways() {
		for what, rule := range map[string]func(Inquiry) error{
			"executed":     func(i Inquiry) error { return s.ruleExecuted(i, "psp_ruled") },
			"not executed": s.ruleNotExecuted,
		} {
			g := s.charging(key("order", name+" "+what)).lost().windowPasses()
			i := g.inquire()
			moves(g)
			s.wantRefused(name+", "+what, ErrMoved, func() error { return rule(i) })
		}
	}
	for name, bring := range map[string]func(*stage){
		"in progress": func(*stage) {}, "failed retryable": func(g *stage) { g.failed() }, "succeeded": func(g *stage) { g.succeeded() },
	} {
		g := s.charging(key("order", name))
		bring(g)
		i := g.inquire()
		s.wantRefused(name+", executed", ErrMoved, func() error { return s.ruleExecuted(i, "psp_ruled") })
		s.wantRefused(name+", not executed", ErrMoved, func() error { return s.ruleNotExecuted(i) })
	}
}

func TestRulingNotExecutedNeedsTheProof(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	g := s.charging("order-0000000001").lost()
	rule := func() error { return s.ruleNotExecuted(g.inquire()) }
	psp.onLookup(finds())
	s.wantRefused("inside the window", ErrMoved, rule)
	g.windowPasses()
	psp.onLookup(nil)
	s.wantRefused("the PSP does not answer", ErrMoved, rule)
	psp.onLookup(finds(g.record))
	s.wantRefused("the PSP knows it", ErrMoved, rule)
	psp.onLookup(finds(otherAmount.record(g)))
	s.wantRefused("the PSP knows something of the kind", ErrMoved, rule)
	psp.onLookup(finds())
	s.settle(SourceWebhook, otherAmount.record(g))
	s.wantRefused("another letter is open", ErrMoved, rule)
	s.wantRefused("nobody has inquired", ErrMoved, func() error { return s.ruleNotExecuted(Inquiry{}) })

	// An operator stands in for the PSP's memory.
	s.resolveLetter(deadletters.Dismiss)
	s.timePasses("UPDATE idempotency_keys SET reserved_at = reserved_at - interval '25 hours'")
	if err := rule(); err != nil {
		t.Fatal(err)
	}
	g.wantStatus(idempotency.FailedRetryableStatus, 1)
	g.wantMoved(Failed, "")
	g.wantTimeline("owner in_progress>unknown", "operator unknown>failed_retryable")
	is[Forgotten](t, s.create("order-0000000001", order())) // released, and yet never sent again
}

func TestRulingThatIsRolledBackLeavesNothing(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	psp.onLookup(finds())
	g := s.charging("order-0000000001").lost().windowPasses()
	i := g.inquire()
	undone := errors.New("undone")
	for name, rule := range map[string]func(context.Context, pgx.Tx) error{
		"executed":     func(ctx context.Context, tx pgx.Tx) error { return s.service.RuleExecutedTx(ctx, tx, i, "psp_1") },
		"not executed": func(ctx context.Context, tx pgx.Tx) error { return s.service.RuleNotExecutedTx(ctx, tx, i) },
		"woken":        func(ctx context.Context, tx pgx.Tx) error { return s.service.WakeTx(ctx, tx, g.about(1)) },
	} {
		s.wantRefused(name, undone, func() error {
			return s.inTx(func(ctx context.Context, tx pgx.Tx) error {
				if err := rule(ctx, tx); err != nil {
					return err
				}
				return undone
			})
		})
	}
	if err := s.ruleNotExecuted(i); err != nil {
		t.Fatal(err)
	}
}

// The PSP's id of one payment is not taken for another one.
func TestRulingUnderTheIDOfAnotherPaymentIsRefused(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	other := s.charging("order-0000000001").succeeded()
	g := s.charging("order-0000000002").lost()
	before := s.everything()
	if err := s.ruleExecuted(g.inquire(), other.record.ID); !BelongsToAnother(err) || s.everything() != before {
		t.Fatalf("error %v", err)
	}
}

func TestWokenKeyIsDueAtOnceWithAFreshBudget(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001").lost()
	g.resolves(Scheduled)
	due := func() int {
		return s.count("SELECT count(*) FROM idempotency_keys WHERE reconcile_after <= clock_timestamp() AND lookup_failures = 0")
	}
	if due() != 0 {
		t.Fatal("the key is due before it was woken")
	}
	if err := s.wake(g.about(1)); err != nil || due() != 1 {
		t.Fatalf("%d keys are due: %v", due(), err)
	}
	s.wantRefused("another generation", idempotency.ErrNoKey, func() error { return s.wake(g.about(2)) })
	s.settle(SourceWebhook, g.record)
	s.wantRefused("not unknown any more", nil, func() error { return s.wake(g.about(1)) })
	g.deleted()
	s.wantRefused("gone", idempotency.ErrNoKey, func() error { return s.wake(g.about(1)) })
}

// The PSP cannot be told which charge to give back.
func TestPaymentThatAnOperatorVouchedForIsNotRefundedHere(t *testing.T) {
	t.Parallel()
	s := setup(t)
	p := s.paid("vouched-0000000001")
	s.exec("ALTER TABLE payments DISABLE TRIGGER payments_verdict_is_final")
	s.exec("UPDATE payments SET psp_charge_id = 'operator:letter'")
	_, err := s.service.Refund(t.Context(), keyed(t, "refund-00000000001"), p.ID, RefundRequest{})
	if !errors.Is(err, ErrPaymentNotRefundable) {
		t.Fatal(err)
	}
}
