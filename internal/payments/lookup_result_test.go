package payments

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"payonce/demo/mockpsp"
	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/test/pgproxy"
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

// A lookup whose acknowledgement is lost leaves it to the next one to say what has become of the key.
func TestLookupWhoseAcknowledgementIsLostClaimsNothing(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	psp.onLookup(finds())
	s := setupOn(t, psp)
	proxy := s.proxied()
	for name, action := range map[string]pgproxy.Action{
		"cut": pgproxy.CutBefore, "lost": pgproxy.DropAcknowledgement,
	} {
		g := s.charging(key("order", name)).lost().windowPasses()
		before := proxy.Sent("ReleaseUnknownKey")
		event := proxy.On("ReleaseUnknownKey", action)
		due := idempotency.Due{Ref: g.reservation.Ref, Generation: 1}
		result, err := s.lookUpDue(t.Context(), due, patient())
		if result != "" || err == nil {
			t.Errorf("%s: %q, %v", name, result, err)
		}
		event.Await(t)
		if n := proxy.Sent("ReleaseUnknownKey") - before; n != 1 {
			t.Errorf("%s: sent %d times", name, n)
		}
	}
}

// setupRefusing is setup with a PSP that refuses, once it is told to, for a reason that we do not know: it counts how
// often.
func setupRefusing(t *testing.T) (s *shop, refuses *atomic.Bool, refused *atomic.Int32) {
	t.Helper()
	refuses, refused = &atomic.Bool{}, &atomic.Int32{}
	config := mockpsp.DefaultConfig()
	config.Secret, config.HangLimit = pspSecret, time.Millisecond
	mock, err := mockpsp.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := mock.Close(); err != nil {
			t.Error(err)
		}
	})
	return setupOn(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && refuses.Load() {
			refused.Add(1)
			http.Error(w, `{"error":{"code":"contract_ended"}}`, http.StatusBadRequest)
			return
		}
		mock.ServeHTTP(w, r)
	})), refuses, refused
}

// A client that repeats its key for ever is lost, released and sent again: a bounded number of times. Then a person
// finds out why, and the PSP is asked for nothing more.
func TestKeyThatIsLostAgainAndAgainComesToAnEnd(t *testing.T) {
	t.Parallel()
	s, refuses, refused := setupRefusing(t)
	p := s.paid("paid-00000000001")
	refuses.Store(true)
	charge := func(k Keyed) Answer { return s.create(k.Key.String(), order()) }
	refund := func(k Keyed) Answer {
		answer, err := s.service.Refund(t.Context(), k, p.ID, payment.RefundRequest{AmountCents: 100})
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	for operation, ask := range map[idempotency.Operation]func(k Keyed) Answer{
		payment.CreateOperation: charge, payment.RefundOperation: refund,
	} {
		refused.Store(0)
		k := keyed(t, "again-and-again-001")
		g := &stage{shop: s, t: t, key: k, reservation: s.reservation(operation, k)}
		for range 2 * judge.MostAttempts {
			is[Pending](t, ask(k))
			g.windowPasses()
			s.resolve(operation, k.Key.String())
		}
		if n := refused.Load(); n != judge.MostAttempts {
			t.Errorf("%s: sent %d times, want %d", operation, n, judge.MostAttempts)
		}
		g.wantStatus(idempotency.UnknownStatus, judge.MostAttempts)
		g.wantWait(patient().Recheck)
	}
	if n := s.count("SELECT count(*) FROM dead_letters WHERE kind = $1 AND status = 'open'",
		deadletters.LookupsExhausted); n != 2 {
		t.Errorf("%d dead letters, want one for each key", n)
	}
}

// The PSP still lists what it did for the payment that had this very key before.
func TestRecordOfAnEarlierPaymentOfTheKeySaysNothing(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	p := s.charging("paid-00000000001").paidFor()
	for _, old := range []*stage{s.charging("order-0000000001").succeeded(),
		s.refunding("refund-000000001", p, 100).succeeded()} {
		now := old.twin().lost()
		psp.onLookup(finds(old.record))
		now.resolves(Scheduled)
		known, err := s.service.Gather(t.Context(), now.lease.Execution())
		if err != nil {
			t.Fatal(err)
		}
		answer, _, _, err := s.service.Ask(t.Context(), known, gateway.EndNothing)
		if answer != (gateway.NotFound{}) || err != nil {
			t.Errorf("the answer is %+v: %v", answer, err)
		}
		now.windowPasses().resolves(Resolved)
		now.wantStatus(idempotency.FailedRetryableStatus, 1)

		// What is ours beside it counts.
		third := now.twin().lost()
		psp.onLookup(finds(old.record, third.record))
		third.resolves(Resolved)
		third.wantMoved(payment.Succeeded, third.record.ID)
	}
	s.wantDeadLetters()
}

// The key of a generation was never sent for another generation's payment: that the PSP lists one under it is a
// contradiction.
func TestRecordOfAnotherGenerationsPaymentIsAContradiction(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	first := s.charging("order-0000000001").failed()
	m := first.again()
	lease := first.expired().reserve(m)
	first.live(lease, m, gateway.Indeterminate{Reason: "no answer in time"})
	strange := first.record
	strange.Key = lease.PassThroughKey()
	psp.onLookup(finds(strange))
	due := idempotency.Due{Ref: first.reservation.Ref, Generation: 2, Subject: lease.Subject}
	if r, err := s.lookUpDue(t.Context(), due, patient()); r != ToOperator || err != nil {
		t.Fatalf("it came to %q: %v", r, err)
	}
}

// An open dead letter about an earlier payment holds neither the release nor the expiry of the key, if it does not say
// that money moved.
func TestDeadLettersAboutAnEarlierPaymentHoldNothing(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	old := s.charging("order-0000000001").succeeded()
	now := old.twin()
	is[DeadLettered](t, s.evidenceBy(judge.SourceWebhook, declinedAs(old.record, "no_money")))
	now.lost().windowPasses()
	psp.onLookup(finds())
	if now.gathers().Seen.Held {
		t.Error("the dead letter is taken for one about the new payment")
	}
	now.resolves(Resolved)
	now.expired()
	if n, err := s.keys.Delete(t.Context(), 10); n != 0 || err != nil {
		t.Errorf("%d keys deleted: %v", n, err)
	}
	now.timePasses("UPDATE idempotency_keys SET delete_after = clock_timestamp()")
	if n, err := s.keys.Delete(t.Context(), 10); n != 0 || err != nil {
		t.Errorf("%d keys deleted, with the timeline that an open dead letter needs: %v", n, err)
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

// The PSP has answered another payment with the id of this one's decline. That must not keep this one from its answer.
func TestDeclineUnderTheIDOfAnotherPaymentCountsWithoutIt(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	g := s.charging("order-0000000001").lost().windowPasses()
	other := s.charging("order-0000000002")
	other.live(other.lease, other.movement, gateway.Succeeded{ID: g.record.ID})
	psp.onLookup(finds(declinedAs(g.record, "no_money")))
	g.resolves(Resolved)
	g.wantMoved(payment.Declined, "")
}
