package payments

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/test/pgproxy"
	"payonce/test/pgtest"
)

// What lookups cannot decide.

func gatewayLost() gateway.Outcome { return gateway.Indeterminate{Reason: "no answer in time"} }

// A PSP that does not answer is asked ever more seldom, and at last it is an operator's case. It is still asked after
// that, and what it says then still counts.
func TestBudgetOfUnansweredLookupsEndsAsADeadLetter(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	g := s.charging("order-0000000001").lost().windowPasses()
	for _, wait := range []time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second} {
		g.resolves(Scheduled)
		g.wantWait(wait)
		s.wantDeadLetters()
	}
	finding := "lookups_exhausted key acme POST /payments order-0000000001 1 " + g.lease.Subject.String()
	for range 3 {
		g.resolves(ToOperator)
		g.wantWait(patient().Recheck)
		s.wantDeadLetters(finding)
		g.wantStatus(idempotency.UnknownStatus, 1)
	}
	if n := s.count("SELECT count(*) FROM dead_letters WHERE subject = $1 AND reason LIKE '%4 lookups in a row%PSP answered 500'", g.lease.Subject); n != 1 {
		t.Errorf("the dead letter is %s", s.texts("SELECT d::text FROM dead_letters AS d"))
	}
	// While an operator has the case, a lookup releases nothing.
	psp.onLookup(finds())
	g.resolves(ToOperator)
	g.wantWait(patient().Recheck)
	g.wantStatus(idempotency.UnknownStatus, 1)

	psp.onLookup(finds(g.record))
	g.resolves(Resolved)
	g.wantMoved(payment.Succeeded, g.record.ID)
	s.wantDeadLetters(finding)
}

func TestAnsweredLookupGivesTheBudgetBack(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	g := s.charging("order-0000000001").lost()
	for range 3 {
		g.resolves(Scheduled)
	}
	psp.onLookup(finds())
	g.resolves(Scheduled)
	psp.onLookup(nil)
	for range 3 {
		g.resolves(Scheduled)
	}
	g.resolves(ToOperator)
}

func TestMalformedAnswersProveNothing(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	g := s.charging("order-0000000001").lost().windowPasses()
	for i, body := range []string{`{"data":null,"hasMore":false}`, `{}`, ``} {
		psp.onLookup(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(body)) })
		g.resolves(Scheduled)
		if n := s.count("SELECT lookup_failures FROM idempotency_keys"); n != i+1 {
			t.Errorf("%q: %d failures are counted", body, n)
		}
	}
	g.wantStatus(idempotency.UnknownStatus, 1)
}

// Beyond the PSP's memory, "nothing" may mean "forgotten".
func TestNothingIsNoProofWhenThePSPMayHaveForgotten(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	psp.onLookup(finds())
	g := s.charging("order-0000000001").lost().windowPasses()
	s.timePasses("UPDATE idempotency_keys SET reserved_at = clock_timestamp() - $1::interval", terms().PSPMemory)
	for range 2 {
		g.resolves(ToOperator)
		g.wantWait(patient().Recheck)
		g.wantStatus(idempotency.UnknownStatus, 1)
		s.wantDeadLetters("psp_memory_over key acme POST /payments order-0000000001 1 " + g.lease.Subject.String())
	}
	psp.onLookup(finds(g.record))
	g.resolves(Resolved)
}

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

// The record lies under the key that was asked for: whatever it refers to, the dead letter is about this key.
func TestRecordThatIsFoundAndContradictsIsADeadLetterOfTheKey(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	other := s.charging("order-other-00000").lost()
	for name, change := range map[string]func(*gateway.Record){
		"amount":                     func(r *gateway.Record) { r.AmountMinor++ },
		"reference of nothing":       func(r *gateway.Record) { r.Reference = "order 42" },
		"no reference":               func(r *gateway.Record) { r.Reference = "" },
		"reference of another of us": func(r *gateway.Record) { r.Reference = other.record.Reference },
	} {
		g := s.charging(key("order", name)).lost().windowPasses()
		r := g.record
		change(&r)
		psp.onLookup(finds(r))
		for range 2 {
			g.resolves(ToOperator)
			g.wantWait(patient().Recheck)
		}
		g.wantStatus(idempotency.UnknownStatus, 1)
		if n := s.count("SELECT count(*) FROM dead_letters WHERE kind || ' ' || finding = $1",
			contradicts(g, r.ID)); n != 1 {
			t.Errorf("%s: %d dead letters of the key", name, n)
		}
	}
	if n := s.count("SELECT count(*) FROM dead_letters"); n != 4 {
		t.Errorf("%d dead letters in all", n)
	}
}

// Twice under one key is once too often, and the client is told of the first.
func TestSecondRecordUnderOneKeyIsADeadLetter(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	g := s.charging("order-0000000001").lost()
	psp.onLookup(finds(g.record, executedTwice.record(g)))
	g.resolves(ToOperator)
	g.wantStatus(idempotency.CompletedStatus, 1)
	g.wantMoved(payment.Succeeded, g.record.ID)
	s.wantDeadLetters("duplicate_movement record acme " + g.record.ID + "-2")
}

// In whatever order the PSP lists them: a client that is told of a refusal pays elsewhere.
func TestClientIsNotToldOfARefusalWhenMoneyHasMoved(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	g := s.charging("order-0000000001").lost()
	refused := declinedAs(as("ch_refused", g.record), "no_money")
	psp.onLookup(finds(refused, g.record))
	g.resolves(ToOperator)
	g.wantMoved(payment.Succeeded, g.record.ID)
	s.wantDeadLetters("contradicts_completed record acme ch_refused")

	// Nor when what has moved is not what was asked for.
	other := s.charging("order-0000000002").lost()
	refused = declinedAs(as("ch_refused_too", other.record), "no_money")
	psp.onLookup(finds(refused, otherAmount.record(other)))
	other.resolves(ToOperator)
	other.wantStatus(idempotency.UnknownStatus, 1)
	other.wantMoved(payment.Processing, "")
}

// The budget is the PSP's: questions that we had no place for say nothing of it.
func TestQuestionThatWasNotAskedTakesNothingOfTheBudget(t *testing.T) {
	t.Parallel()
	h := newHeld(t)
	psp := &actor{}
	s := setupOn(t, psp)
	g := s.charging("order-0000000001").lost().windowPasses()
	g.resolves(Scheduled) // a failure of the PSP's own

	limits := gateway.DefaultLimits()
	limits.InFlight, limits.Queue = 1, time.Millisecond
	narrow, err := native.New(s.pspURL, pspSecret, limits, nil, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(narrow.Close)
	s.service.psps = gateway.PSPs{native.Name: narrow}
	psp.onLookup(h.before(finds()))
	err = whileAsked(h, func() error {
		_, err := narrow.List(t.Context(), gateway.ChargeObject, "acme", time.Time{}, "")
		return err
	}, func() {
		for range patient().Budget + 1 {
			g.resolves(Scheduled)
			g.wantWait(patient().Base)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := s.count("SELECT lookup_failures FROM idempotency_keys"); n != 1 {
		t.Errorf("%d failures are counted", n)
	}
	s.wantDeadLetters()
}

// successStep is the step of an owner that the PSP has told of the success.
func (s *stage) successStep() (gathered, judge.Step) {
	c := gatherReserved(s.lease, s.movement)
	return c, judge.Judge(c.seen, judge.Reply{Attempt: 1, Outcome: s.success()})
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
	impatient := pgtest.Open(t, proxy.URL(), limits)
	s.service.keys = idempotency.New(impatient, terms(), time.Now)
	if _, err := s.service.keys.FindDurably(t.Context(), g.reservation.Ref); err != nil { // connects and prepares
		t.Fatal(err)
	}
	proxy.On("CompleteKeys", pgproxy.DropAcknowledgement)
	held := proxy.OnNext(3, "FindKey", pgproxy.HoldBefore)
	seen, step := g.successStep()
	applied, err := s.service.apply(t.Context(), seen, step)
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
