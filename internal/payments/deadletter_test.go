package payments

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/internal/postgres"
	"payonce/internal/problem"
)

// about is a dead letter about what the stage's key stood for at first.
func (s *stage) about(generation int32) deadletters.DeadLetter {
	subject := s.lease.Subject
	return deadletters.DeadLetter{Subject: &subject, About: &deadletters.About{
		Tenant: s.reservation.Ref.Tenant, Operation: string(s.reservation.Ref.Operation), Key: s.key.Key.String(),
		Generation: generation,
	}}
}

// inquire has an operator decide about what the stage's key stood for at first. The PSP is asked for it.
func (s *stage) inquire(action deadletters.Action, pspID string) Inquiry {
	s.t.Helper()
	i, err := s.inquired(s.t.Context(), s.about(1), judge.OperatorDecision{Action: action, PSPID: pspID})
	if err != nil {
		s.t.Fatal(err)
	}
	return i
}

// refusedDecision is a decision that was refused.
type refusedDecision struct{ why judge.Refusal }

func (r refusedDecision) Error() string { return string(r.why.Ground) + ": " + r.why.Detail }

// Is compares grounds.
func (r refusedDecision) Is(other error) bool {
	o, ok := errors.AsType[refusedDecision](other)
	return ok && o.why.Ground == r.why.Ground
}

func on(g problem.Code) error { return refusedDecision{judge.Refusal{Ground: g}} }

// decideTx carries out what was inquired about. closing is nil if the test leaves the dead letter open.
func (s *shop) decideTx(ctx context.Context, tx pgx.Tx, i Inquiry, closing *deadletters.Decision) (judge.Step, error) {
	step, err := i(ctx, tx, func() (err error) {
		if closing != nil {
			_, err = deadletters.ResolveTx(ctx, tx, *closing)
		}
		return err
	})
	if err == nil && step.Refuse() != nil {
		err = refusedDecision{*step.Refuse()}
	}
	return step, err
}

func (s *shop) decide(i Inquiry) error {
	return s.inTx(func(ctx context.Context, tx pgx.Tx) error {
		_, err := s.decideTx(ctx, tx, i, nil)
		return err
	})
}

// executes decides that the money has moved, under an id where the operator names one.
func (s *stage) executes(pspID string) error { return s.decide(s.inquire(deadletters.Executed, pspID)) }

// releases decides that the money has not moved.
func (s *stage) releases() error { return s.decide(s.inquire(deadletters.NotExecuted, "")) }

// wakes has the key looked up again.
func (s *stage) wakes(about deadletters.DeadLetter) error {
	d := judge.OperatorDecision{Action: deadletters.Retry}
	i, err := s.inquired(s.t.Context(), about, d)
	if err != nil {
		return err
	}
	return s.decide(i)
}

// wantRefused wants a decision to fail with this error, and to change nothing.
func (s *shop) wantRefused(name string, want error, decide func() error) {
	s.t.Helper()
	before := s.everything()
	if err := decide(); !errors.Is(err, want) || s.everything() != before {
		s.t.Errorf("%s: error %v, want %v; moved: %v", name, err, want, s.everything() != before)
	}
}

// Of the records under the key, those count for a decision that refer to this payment, or to nothing. One that refers
// to something else is not taken as this payment's. If money has moved by it, nothing is released under the key.
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
	strange, others, none := refersTo("psp_strange", "order 42"), refersTo("psp_others", other.record.Reference),
		refersTo("psp_none", "")
	psp.onLookup(finds(strange, others))
	for _, r := range []gateway.Record{strange, others} {
		s.wantRefused("executed, as what is for something else", on(judge.ContradictsPSP),
			func() error { return g.executes(r.ID) })
	}
	for _, r := range []gateway.Record{none, g.record} {
		psp.onLookup(finds(strange, r))
		s.wantRefused("not executed, and the PSP has one of this payment or of none", on(judge.ContradictsPSP),
			g.releases)
	}
	psp.onLookup(finds(declinedAs(g.record, "no_money")))
	s.wantRefused("not executed, and the PSP has declined it", on(judge.ContradictsPSP), g.releases)
	s.wantRefused("executed, and the PSP has declined it", on(judge.ContradictsPSP),
		func() error { return g.executes("") })
	// The decline need not be the first of the PSP's records.
	psp.onLookup(finds(declinedAs(as("psp_other", otherAmount.record(g)), "no_money"),
		declinedAs(g.record, "no_money")))
	s.wantRefused("executed, and the PSP's second record declines it", on(judge.ContradictsPSP),
		func() error { return g.executes("") })
	// The PSP contradicts itself, and an operator has to decide: money has moved under the key.
	psp.onLookup(finds(strange, declinedAs(g.record, "no_money")))
	s.wantRefused("not executed, and money has moved for something else", on(judge.ContradictsPSP), g.releases)
	if err := g.executes(""); err != nil {
		t.Error(err)
	}
	g.wantStatus(idempotency.CompletedStatus, 1)
}

func TestDecisionExecutedCompletesTheKey(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	p := s.charging("paid-00000000001").paidFor()
	for _, g := range []*stage{s.charging("order-0000000001").lost(), s.refunding("refund-000000001", p, 100).lost()} {
		if err := g.executes(g.record.ID); err != nil {
			t.Fatal(err)
		}
		g.wantStatus(idempotency.CompletedStatus, 1)
		g.wantMoved(payment.Succeeded, payment.OperatorPSPID+g.record.ID)
		g.wantTimeline("owner in_progress>unknown", "operator unknown>completed")
		is[Confirmed](t, s.evidenceBy(judge.SourceLookup, g.record))
		g.wantMoved(payment.Succeeded, g.record.ID)
		before := s.everything()
		is[Confirmed](t, s.evidenceBy(judge.SourceLookup, g.record))
		is[DeadLettered](t, s.evidenceBy(judge.SourceLookup, executedTwice.record(g)))
		if s.everything() != before {
			t.Error("evidence has moved what was decided")
		}
	}
	s.wantTotals(p, 100, 200) // The second refund under the same marks has moved money, too.
	// The PSP has not said so, and the tenant's timeline must not say that it has.
	if reasons := s.texts("SELECT DISTINCT reason FROM idempotency_key_events WHERE actor = 'operator'"); len(reasons) != 1 || reasons[0] != "an operator says: executed" {
		t.Errorf("the timeline says %q", reasons)
	}
	if f := is[Final](t, s.create("order-0000000001", order())); !f.Replayed || f.Response.Status != 201 {
		t.Errorf("the retry was answered %+v", f)
	}
}

// An operator has vouched without the PSP's id. The first record of the PSP that comes to light confirms the decision,
// and gives the movement its id. With the id, a second movement is noticed, and the payment can be refunded. The stored
// answer does not change. A refusal confirms nothing.
func TestEvidenceConfirmsWhatAnOperatorVouchesFor(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001").swept()
	if err := g.executes(payment.OperatorPSPID + "42"); err != nil {
		t.Fatal(err)
	}
	stored := g.row()
	for _, source := range []judge.Source{judge.SourceScan, judge.SourceLookup, judge.SourceWebhook} {
		is[Confirmed](t, s.evidenceBy(source, g.record))
	}
	if f := is[Final](t, g.live(g.lease, g.movement,
		g.success())); string(f.Response.Body) != string(stored.Response.Body) {
		t.Errorf("the late owner answers %s", f.Response.Body)
	}
	s.wantDeadLetters()
	g.wantMoved(payment.Succeeded, g.record.ID)
	if r := g.row(); string(r.Response.Body) != string(stored.Response.Body) {
		t.Errorf("the stored response is %s now", r.Response.Body)
	}
	is[DeadLettered](t, s.evidenceBy(judge.SourceLookup, declinedAs(g.record, "no_money")))
	is[DeadLettered](t, s.evidenceBy(judge.SourceScan, as("psp_again", g.record)))
	s.wantDeadLetters("contradicts_completed record acme "+g.record.ID, "duplicate_movement record acme psp_again")
}

// ways are how a key moves between an operator's look and the decision.
func ways() map[string]func(*stage) {
	return map[string]func(*stage){
		"completed": func(g *stage) { g.evidenceBy(judge.SourceWebhook, as("psp_"+g.key.Key.String(), g.record)) },
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

// The PSP was not asked, because the key was still being executed. If it is unknown by now, nobody may decide without
// having asked.
func TestDecisionThatHasNotAskedThePSPDoesNotDecide(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	for _, action := range []deadletters.Action{deadletters.Executed, deadletters.NotExecuted} {
		g := s.charging(key("order", string(action)))
		i := g.inquire(action, "")
		g.lost().windowPasses()
		s.wantRefused(string(action), ErrMoved, func() error { return g.decide(i) })
	}
}

func TestDecisionAboutAKeyThatHasMovedIsRefused(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	psp.onLookup(finds())
	actions := []deadletters.Action{deadletters.Executed, deadletters.NotExecuted}
	for name, moves := range ways() {
		for _, action := range actions {
			g := s.charging(key("order", name+" "+string(action))).lost().windowPasses()
			i := g.inquire(action, "")
			moves(g)
			s.wantRefused(name+", "+string(action), ErrMoved, func() error { return g.decide(i) })
		}
	}
	for name, bring := range map[string]func(*stage){
		"in progress": func(*stage) {}, "failed retryable": func(g *stage) { g.failed() },
		"succeeded": func(g *stage) { g.succeeded() },
	} {
		g := s.charging(key("order", name))
		bring(g)
		for _, action := range actions {
			s.wantRefused(name+", "+string(action), on(judge.NotApplicable),
				func() error { return g.decide(g.inquire(action, "")) })
		}
	}
}

func TestDecisionNotExecutedNeedsTheProof(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	g := s.charging("order-0000000001").lost()
	psp.onLookup(finds())
	s.wantRefused("inside the window", on(judge.GraceOpen), g.releases)
	g.windowPasses()
	psp.onLookup(nil)
	s.wantRefused("the PSP does not answer", on(judge.NoFreshProof), g.releases)
	psp.onLookup(finds(g.record))
	s.wantRefused("the PSP knows it", on(judge.ContradictsPSP), g.releases)
	psp.onLookup(finds(otherAmount.record(g)))
	s.wantRefused("the PSP knows something of the kind", on(judge.ContradictsPSP), g.releases)
	psp.onLookup(finds())
	s.evidenceBy(judge.SourceWebhook, otherAmount.record(g))
	s.wantRefused("another dead letter is open", on(judge.NotApplicable), g.releases)
	nothing, err := s.inquired(t.Context(), deadletters.DeadLetter{}, judge.OperatorDecision{})
	if err != nil {
		t.Fatal(err)
	}
	s.wantRefused("it is about nothing", on(judge.NotApplicable), func() error { return g.decide(nothing) })

	// An operator stands in for the PSP's memory.
	s.resolveDeadLetter(deadletters.Dismiss)
	s.timePasses("UPDATE idempotency_keys SET reserved_at = reserved_at - interval '25 hours'")
	if err := g.releases(); err != nil {
		t.Fatal(err)
	}
	g.wantStatus(idempotency.FailedRetryableStatus, 1)
	g.wantMoved(payment.Failed, "")
	g.wantTimeline("owner in_progress>unknown", "operator unknown>failed_retryable")
	is[Forgotten](t, s.create("order-0000000001", order())) // released, and yet never sent again
}

// The PSP has declined something else than was asked. No money has moved, and a retry would find the same contradiction
// again. So an operator can say that it was not executed, and the client is told of the decline.
func TestDeclineOfSomethingElseIsClosedAsADecline(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	p := s.charging("paid-00000000001").paidFor()
	for _, g := range []*stage{s.charging("order-0000000001").lost(), s.refunding("refund-000000001", p, 100).lost()} {
		declined := declinedAs(as("psp_no_"+g.key.Key.String(), otherAmount.record(g)), "no_money")
		psp.onLookup(finds(declined, as("psp_moved", otherAmount.record(g))))
		s.wantRefused("one of the records has moved money", on(judge.ContradictsPSP), g.releases)
		psp.onLookup(finds(declined))
		if err := g.releases(); err != nil {
			t.Fatal(err)
		}
		g.wantStatus(idempotency.CompletedStatus, 1)
		g.wantMoved(payment.Declined, declined.ID)
		g.wantTimeline("owner in_progress>unknown", "operator unknown>completed")
		if r := g.row(); r.Response.Status != http.StatusPaymentRequired {
			t.Errorf("the stored response is %+v", r.Response)
		}
	}
	s.wantTotals(p, 0, 0)
}

// The same, and the PSP has given the decline an id that another payment of ours has.
func TestDeclineOfSomethingElseUnderATakenIDHasNone(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	paid := s.charging("paid-00000000001")
	paid.paidFor()
	g := s.charging("order-0000000001").lost()
	psp.onLookup(finds(declinedAs(as(paid.record.ID, otherAmount.record(g)), "no_money")))
	if err := g.releases(); err != nil {
		t.Fatal(err)
	}
	g.wantMoved(payment.Declined, "")
}

// Money has moved for something else under the key. Then a decline decides nothing, and the key is not released.
func TestDeclineOfSomethingElseBesideMoneyForAnotherIsNoDecline(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	g := s.charging("order-0000000001").lost().windowPasses()
	strange := as("psp_strange", g.record)
	strange.Reference = "order 42"
	psp.onLookup(finds(strange, declinedAs(as("psp_no", otherAmount.record(g)), "no_money")))
	s.wantRefused("money moved for something else", on(judge.ContradictsPSP), g.releases)
}

// Money has moved by a record in an open dead letter of the key. So nobody is told of a decline.
func TestDeclineOfSomethingElseIsNotToldWhileMoneyMoved(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	g := s.charging("order-0000000001").lost()
	is[DeadLettered](t, s.evidenceBy(judge.SourceWebhook, as("psp_stray", otherAmount.record(g))))
	psp.onLookup(finds(declinedAs(as("psp_no", otherAmount.record(g)), "no_money")))
	s.wantRefused("a dead letter says that money moved", on(judge.ContradictsPSP), g.releases)
}

func TestDecisionThatIsRolledBackLeavesNothing(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	psp.onLookup(finds())
	g := s.charging("order-0000000001").lost()
	undone := errors.New("undone")
	for _, action := range []deadletters.Action{deadletters.Executed, deadletters.NotExecuted, deadletters.Retry} {
		if action == deadletters.NotExecuted {
			g.windowPasses()
		}
		i := g.inquire(action, "")
		s.wantRefused(string(action), undone, func() error {
			return s.inTx(func(ctx context.Context, tx pgx.Tx) error {
				if _, err := g.decideTx(ctx, tx, i, nil); err != nil {
					return err
				}
				return undone
			})
		})
	}
	if err := g.releases(); err != nil {
		t.Fatal(err)
	}
}

// The PSP's id of one payment is not taken for another one.
func TestDecisionUnderTheIDOfAnotherPaymentIsRefused(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	other := s.charging("order-0000000001").succeeded()
	g := s.charging("order-0000000002").lost()
	s.wantRefused("taken", on(judge.ContradictsPSP), func() error { return g.executes(other.record.ID) })
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
	if err := g.wakes(g.about(1)); err != nil || due() != 1 {
		t.Fatalf("%d keys are due: %v", due(), err)
	}
	s.wantRefused("another generation", on(judge.NotApplicable), func() error { return g.wakes(g.about(2)) })
	s.evidenceBy(judge.SourceWebhook, g.record)
	s.wantRefused("not unknown any more", on(judge.NotApplicable), func() error { return g.wakes(g.about(1)) })
	g.deleted()
	s.wantRefused("gone", on(judge.NotApplicable), func() error { return g.wakes(g.about(1)) })
}

// A decision is about what the dead letter was opened for. What has the key now may be another payment.
func TestDeadLetterIsAboutWhatItNames(t *testing.T) {
	t.Parallel()
	ref := idempotency.StoredRef("acme", payment.CreateOperation, "order-0000000001")
	at := func(generation int32, subject uuid.UUID) idempotency.KeyView {
		return idempotency.KeyView{Status: idempotency.UnknownStatus, Execution: idempotency.Execution{Ref: ref,
			Subject: subject, Generation: generation}}
	}
	of := func(subject uuid.UUID) *movement {
		return &movement{psp: gateway.PSPs{}.Of(""), payment: &payment.Payment{ID: payment.ID(subject),
			Status: payment.Processing}}
	}
	nameless := aboutOwn(`{}`)
	nameless.Subject = nil
	for name, c := range map[string]struct {
		deadLetter deadletters.DeadLetter
		view       idempotency.KeyView
		m          *movement
		is         bool
	}{
		"it is":                         {aboutOwn(`{}`), at(1, ownSubject), of(ownSubject), true},
		"of another generation":         {aboutOwn(`{}`), at(2, otherSubject), of(otherSubject), false},
		"of another payment":            {aboutOwn(`{}`), at(1, otherSubject), of(otherSubject), false},
		"of a payment that is not read": {aboutOwn(`{}`), at(1, ownSubject), nil, false},
		"of a payment that is renewed":  {aboutOwn(`{}`), at(1, ownSubject), of(otherSubject), false},
		"it names no payment":           {nameless, at(1, otherSubject), of(otherSubject), false},
	} {
		g := gatheredAbout(c.deadLetter, c.view, c.m)
		if (g.movement != nil) != c.is || (g.Seen.Status == idempotency.UnknownStatus) != c.is ||
			g.Seen.Own.Ref != ref || !c.is && g.Seen.Own.Generation != 1 ||
			!c.is && (g.Seen.Own.Subject == ownSubject) != (c.deadLetter.Subject != nil) {
			t.Errorf("%s: %+v", name, g.Seen)
		}
	}
}

// A dead letter about a job or a webhook has no key. A retry of it reads none.
func TestDecisionAboutNoKeyReadsNone(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	deadLetter := deadletters.DeadLetter{ID: otherSubject, Kind: deadletters.JobDiscarded, Version: 1,
		Evidence: []byte(`{"jobId":7}`)}
	inquiry, err := s.inquired(t.Context(), deadLetter,
		judge.OperatorDecision{Action: deadletters.Retry, Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	err = s.inTx(func(ctx context.Context, tx pgx.Tx) error {
		step, err := s.decideTx(ctx, tx, inquiry, nil)
		if step.Again() == nil || step.Again().JobID != 7 {
			t.Errorf("the step is %+v", step)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// What could not be read is an error, and no decision.
func TestDecisionThatFailsDecidesNothing(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	g := s.charging("order-0000000001").lost()
	deadLetter, retry := g.about(1), judge.OperatorDecision{Action: deadletters.Retry}
	deadLetter.Version, retry.Version = 1, 1
	ended, end := context.WithCancel(t.Context())
	end()
	if inquiry, err := s.inquired(ended, deadLetter, retry); err == nil {
		t.Errorf("inquired %+v", inquiry)
	}
	inquiry, err := s.inquired(t.Context(), deadLetter, retry)
	if err != nil {
		t.Fatal(err)
	}
	if _, lookups := psp.seen(); lookups != 0 {
		t.Errorf("a retry has asked the PSP %d times, and only the next lookup may", lookups)
	}
	before := s.everything()
	tx, err := s.pool.Begin(t.Context())
	if err == nil {
		err = tx.Rollback(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if step, err := s.decideTx(t.Context(), tx, inquiry, nil); err == nil {
		t.Errorf("the key is not read: %+v", step)
	}
	if s.everything() != before {
		t.Error("something has moved")
	}
}

// aboutOwn is a dead letter about the first key of the tests here.
func aboutOwn(evidence string) deadletters.DeadLetter {
	subject := ownSubject
	return deadletters.DeadLetter{Subject: &subject, Evidence: []byte(evidence), About: &deadletters.About{
		Tenant: "acme", Operation: payment.CreateOperation, Key: "order-0000000001", Generation: 1}}
}

// openAbout opens a dead letter about a key at Stripe, and returns it.
func (s *twoSteps) openAbout(key string, kind deadletters.Kind) deadletters.DeadLetter {
	s.t.Helper()
	ref := idempotency.Ref{Tenant: "initech", Operation: payment.CreateOperation, Key: keyed(s.t, key).Key}
	row, err := s.keys.Find(s.t.Context(), ref)
	if err != nil {
		s.t.Fatal(err)
	}
	subject := row.Execution().Subject
	l := deadletters.DeadLetter{
		ID: uuid.New(), Kind: kind, Finding: string(kind), Subject: &subject, Evidence: []byte("{}"),
		About: &deadletters.About{Tenant: "initech", Operation: string(payment.CreateOperation), Key: key,
			Generation: 1},
	}
	if err := s.service.db.Pipeline(s.t.Context(), deadletters.Open(l)); err != nil {
		s.t.Fatal(err)
	}
	stored, err := deadletters.Get(s.t.Context(), s.service.db.Reader(), l.ID)
	if err != nil {
		s.t.Fatal(err)
	}
	return stored
}

// A decision is refused while another dead letter about the key is open. What the PSP has cancelled cannot be taken
// back, so the PSP is only read then.
func TestDecisionThatAnotherDeadLetterForbidsEndsNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		others int
		want   bool // the payment is cancelled
	}{"alone": {0, true}, "another is open": {1, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setupTwoSteps(t)
			is[Pending](t, s.pay(twoStepKey, "pm_requires_action_abandoned"))
			deadLetter := s.openAbout(twoStepKey, deadletters.LookupsExhausted)
			for range c.others {
				s.openAbout(twoStepKey, deadletters.PSPContradicts)
			}
			if _, err := s.inquired(t.Context(), deadLetter,
				judge.OperatorDecision{Action: deadletters.NotExecuted, Version: deadLetter.Version}); err != nil {
				t.Fatal(err)
			}
			if cancelled := strings.Contains(s.steps(), "cancel"); cancelled != c.want {
				t.Errorf("steps %q, want a cancellation: %t", s.steps(), c.want)
			}
		})
	}
}

// A dead letter, or a job, about the payment that had the key before does nothing to the one that has it now.
func TestActionForAnEarlierPaymentLeavesTheKeyAlone(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	p := s.charging("paid-00000000001").paidFor()
	for _, old := range []*stage{s.charging("order-0000000001").succeeded(),
		s.refunding("refund-000000001", p, 100).succeeded()} {
		now := old.twin().lost()
		due := func(g *stage) idempotency.Due {
			return idempotency.Due{Ref: g.reservation.Ref, Generation: 1, Subject: g.lease.Subject}
		}
		_, asked := psp.seen()
		if r, err := s.lookUpDue(t.Context(), due(old), patient()); r != Moot || err != nil {
			t.Errorf("a job for the old one came to %q: %v", r, err)
		}
		for _, decides := range []func() error{old.releases, func() error { return old.executes("") }} {
			s.wantRefused("decided by a dead letter about the old one", on(judge.NotApplicable), decides)
		}
		if _, now := psp.seen(); now != asked {
			t.Error("the PSP was asked for the old one")
		}
		s.wantRefused("woken by a dead letter about the old one", on(judge.NotApplicable),
			func() error { return old.wakes(old.about(1)) })
		if err := now.wakes(now.about(1)); err != nil {
			t.Error(err)
		}
		r, err := s.lookUpDue(t.Context(), due(now), patient())
		if r != Scheduled || err != nil {
			t.Errorf("a job for the new one came to %q: %v", r, err)
		}
	}
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
	i, err := s.inquired(t.Context(), next.about(2), judge.OperatorDecision{Action: deadletters.Executed})
	if err != nil {
		t.Fatal(err)
	}
	s.wantRefused("the PSP has nothing", on(judge.ContradictsPSP), func() error {
		return s.decide(i)
	})
}

// retried has an operator retry a dead letter, and returns what is left to do after the commit.
func (s *shop) retried(l deadletters.DeadLetter) *judge.Again {
	s.t.Helper()
	i, err := s.inquired(s.t.Context(), l,
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
