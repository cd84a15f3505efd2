package psp

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"payonce/internal/gateway"
)

// What every story is about.
const (
	amount    = 4321
	key       = "key-of-the-conformance-suite"
	reference = "pay_conformance"
)

func aCharge(d *Dialect) gateway.Charge {
	return gateway.Charge{
		Account: d.Account + "acme", Key: key, Attempt: 1, Reference: reference, AmountMinor: amount, Currency: "USD",
		PaymentMethod: "pm_ok",
	}
}

// story is what happened in a row, in the words of the grid.
type story struct {
	answer, atOnce, after, events, next, again, ledger string
}

// verdict is what is known about a request.
type verdict string

const (
	succeeded    verdict = "succeeded"
	declined     verdict = "declined"
	notExecuted  verdict = "not executed"
	contradicted verdict = "contradiction"
	waiting      verdict = "waiting"
	unknown      verdict = "unknown"
)

// scene is a row while it runs.
type scene struct {
	*world
	fault   Fault
	request gateway.Request // with the id of the object, as it is stored
	story   story

	answer        gateway.Outcome
	atOnce, after gateway.Lookup
	verdict       verdict
	id            string // of the movement, if it has succeeded
}

// play plays a row from the first request to the statement of the day, and checks the claims.
func play(t *testing.T, d *Dialect, o gateway.Object, f Fault) story {
	t.Helper()
	s := &scene{world: setupSeeded(t, d, f.Seed), fault: f}
	s.request = s.firstRequest(o)
	s.send()
	if _, refused := s.answer.(gateway.NotExecuted); refused {
		s.goOn()
	} else {
		s.lookUp()
		s.tryAgain()
	}
	s.sendOnceMore()
	s.story.events = s.eventWords()
	s.story.ledger = s.ledgerWords()
	s.checkLists()
	s.checkStatement()
	return s.story
}

// firstRequest is the request of the row. A refund is of a charge that has succeeded.
func (s *scene) firstRequest(o gateway.Object) gateway.Request {
	s.t.Helper()
	ch := aCharge(s.dialect)
	if o == gateway.ChargeObject {
		ch.PaymentMethod, ch.AmountMinor = s.fault.Token, cmp.Or(s.fault.Amount, amount)
		return ch
	}
	ch.Key, ch.Reference, ch.AmountMinor = "key-of-the-first-charge", "pay_first", 2*amount
	r := gateway.Refund{
		Account: ch.Account, Key: key, Attempt: 1, Reference: reference, ChargeID: s.charge(ch), AmountMinor: amount,
		Currency: "USD", Reason: s.fault.Token,
	}
	return r
}

// charge makes a charge that must succeed, and returns its id.
func (w *world) charge(ch gateway.Charge) string {
	w.t.Helper()
	_, o := w.perform(ch)
	if s, ok := o.(gateway.Succeeded); ok {
		return s.ID
	}
	w.t.Fatalf("charge %s: %T %+v", ch.Key, o, o)
	return ""
}

// perform sends a request as the payments do: the object's id is stored before the charge is executed.
func (w *world) perform(r gateway.Request) (gateway.Request, gateway.Outcome) {
	w.t.Helper()
	switch r := r.(type) {
	case gateway.Charge:
		moved := w.moved()
		id, refused := "", gateway.Outcome(nil)
		w.entering(w.dialect.Entries.Prepare, func(c gateway.PSP) { id, refused = c.Prepare(w.t.Context(), r) })
		if w.moved() != moved {
			w.t.Error("Prepare has moved money")
		}
		if (id != "") != w.client.Traits().TwoSteps && refused == nil {
			w.t.Errorf("Prepare returned the id %q", id)
		}
		if refused != nil {
			return r, refused
		}
		r.ObjectID = id
		var o gateway.Outcome
		w.entering(w.dialect.Entries.Charge, func(c gateway.PSP) { o = c.Charge(w.t.Context(), r) })
		return r, o
	case gateway.Refund:
		var o gateway.Outcome
		w.entering(w.dialect.Entries.Refund, func(c gateway.PSP) { o = c.Refund(w.t.Context(), r) })
		return r, o
	}
	panic("no such request")
}

// entering calls a method of the port whose first step is given, with the client that the row needs. If the row says
// so, the provider is not there. The client is new then: an idle connection would be found broken, which is something
// else.
func (w *world) entering(step string, call func(gateway.PSP)) {
	w.t.Helper()
	prepares := step == w.dialect.Entries.Prepare
	switch {
	case w.wire.refusing(step):
		w.wire.down()
		call(w.newClient(patience))
		w.wire.up()
		w.client = w.newClient(patience) // the connections of the other one are broken
	case w.wire.isSilent(step, prepares):
		call(w.newClient(longestWait))
	default:
		call(w.client)
	}
}

// moved counts the movements of money.
func (w *world) moved() (n int) {
	w.t.Helper()
	for _, e := range w.ledger() {
		if e.moved() {
			n++
		}
	}
	return n
}

// send sends the request. The fault strikes now, or at the first lookup.
func (s *scene) send() {
	s.t.Helper()
	s.rates(s.fault.Rates)
	if s.fault.Cut != "" {
		s.wire.arm(s.fault.Cut, s.fault.Step)
	}
	e := s.dialect.Entries
	before := []int{s.wire.sent(e.Prepare), s.wire.sent(e.Charge), s.wire.sent(e.Refund)}
	s.request, s.answer = s.perform(s.request)
	for i, step := range []string{e.Prepare, e.Charge, e.Refund} {
		if sent := s.wire.sent(step) - before[i]; sent > 1 {
			s.t.Errorf("one call has sent %d requests: %s", sent, step)
		}
	}
	s.rates("")
	s.story.answer = outcomeWords(s.answer)
	s.checkAnswer()
}

// lookUp asks at once, and again when everything late has happened. Then nothing may be open.
func (s *scene) lookUp() {
	s.t.Helper()
	s.atOnce = s.ask(gateway.EndUnsent)
	s.story.atOnce = s.lookupWords(s.atOnce)
	s.disarm()
	switch s.conclude(); s.verdict {
	case succeeded, declined, contradicted:
		s.story.after = "–"
		if s.fault.Fails {
			s.later()
			s.story.after = s.lookupWords(s.ask(gateway.EndNothing))
		}
	case notExecuted, waiting, unknown:
		s.later()
		s.after = s.ask(gateway.EndWaiting)
		s.story.after = s.lookupWords(s.after)
		s.conclude()
	}
	s.checkVerdict()
}

// disarm ends the fault on the wire. A row whose fault never struck has shown nothing.
func (s *scene) disarm() {
	s.t.Helper()
	if s.fault.Cut != "" && !s.wire.disarm() {
		s.t.Errorf("%s has not struck at %s", s.fault.Cut, s.fault.Step)
	}
}

// goOn does what the payments do after the answer "not executed": they make the next attempt, and ask nothing before. A
// lookup could end what the dialect had to end itself. So the first lookup comes when everything late has happened.
func (s *scene) goOn() {
	s.t.Helper()
	s.disarm()
	s.story.atOnce = "–"
	s.conclude()
	last := s.tryAgain()
	s.later()
	executed := s.executed()
	if len(executed) > 1 {
		s.t.Errorf("not executed, and the next attempt was made: the money has moved twice: %+v", executed)
	}
	done, isDone := last.(gateway.Succeeded)
	if isDone && (len(executed) != 1 || executed[0].ID != done.ID) {
		s.t.Errorf("the next attempt has succeeded as %s, and the ledger has %+v", done.ID, executed)
	}
	s.after = s.ask(gateway.EndWaiting)
	s.story.after = s.lookupWords(s.after)
	if found, ok := s.after.(gateway.Found); ok && slices.ContainsFunc(found.Records, func(r gateway.Record) bool {
		return r.ID != done.ID
	}) {
		s.t.Errorf("not executed, and the lookup has found %+v", found.Records)
	}
}

func (s *scene) ask(end gateway.End) (l gateway.Lookup) {
	s.t.Helper()
	entry := s.dialect.Entries.LookupRefund
	if ch, ok := s.request.(gateway.Charge); ok {
		entry = s.dialect.Entries.LookupCharge
		if s.dialect.Entries.Prepare != "" && ch.ObjectID == "" {
			entry = s.dialect.Entries.Prepare // it is made again
		}
	}
	s.entering(entry, func(c gateway.PSP) { l = c.Lookup(s.t.Context(), s.request, end) })
	return l
}

// conclude weighs what is known: an answer, lookups and events.
func (s *scene) conclude() {
	s.verdict, s.id = unknown, ""
	for _, v := range []func() (verdict, string){s.ofAnswer, s.ofLookup, s.ofEvents} {
		if s.verdict, s.id = v(); s.verdict != unknown && s.verdict != waiting {
			return
		}
	}
	if _, absent := s.after.(gateway.NotFound); absent {
		s.verdict = notExecuted
	}
}

func (s *scene) ofAnswer() (verdict, string) {
	switch o := s.answer.(type) {
	case gateway.Succeeded:
		return succeeded, o.ID
	case gateway.Declined:
		return declined, ""
	case gateway.NotExecuted:
		return notExecuted, ""
	case gateway.Pending:
		return waiting, ""
	case gateway.Indeterminate:
		if o.Contradiction {
			return contradicted, ""
		}
	}
	return unknown, ""
}

func (s *scene) ofLookup() (verdict, string) {
	l := s.after
	if l == nil {
		l = s.atOnce
	}
	switch l := l.(type) {
	case gateway.Found:
		return s.ofRecords(l.Records)
	case gateway.NotFound:
		if l.Final {
			return notExecuted, ""
		}
	case gateway.Waiting:
		return waiting, ""
	case gateway.LookupFailed:
	}
	return unknown, ""
}

// ofRecords judges records as the payments do: what was executed counts first.
func (s *scene) ofRecords(records []gateway.Record) (verdict, string) {
	v, id := unknown, ""
	for _, executed := range []bool{true, false} {
		for _, r := range records {
			if r.Executed() != executed || v == succeeded || v == contradicted {
				continue
			}
			switch o := s.request.Judge(r).(type) {
			case gateway.Succeeded:
				v, id = succeeded, o.ID
			case gateway.Declined:
				v = declined
			case gateway.Indeterminate:
				v = contradicted
			case gateway.NotExecuted, gateway.Pending:
				s.t.Errorf("a record is judged as %T", o)
			}
		}
	}
	return v, id
}

func (s *scene) ofEvents() (verdict, string) {
	var records []gateway.Record
	for _, m := range s.received() {
		if e, ok := m.event.(gateway.Moved); ok && s.isRelated(e.Record) {
			records = append(records, e.Record)
		}
	}
	return s.ofRecords(records)
}

// mostAttempts bounds the attempts of a row. A provider may refuse the first two.
const mostAttempts = 3

// tryAgain makes further attempts, as the payments do once it is proven that nothing was executed. It returns the
// outcome of the last one, and nil if there is none.
func (s *scene) tryAgain() (last gateway.Outcome) {
	s.t.Helper()
	s.story.next = "–"
	if s.verdict != notExecuted {
		return nil
	}
	var words []string
	refused := true
	for attempt := int32(2); attempt <= mostAttempts && refused; attempt++ {
		next := s.request
		switch r := next.(type) {
		case gateway.Charge:
			r.Attempt, r.ObjectID = attempt, ""
			next = r
		case gateway.Refund:
			r.Attempt = attempt
			next = r
		}
		_, last = s.perform(next)
		words = append(words, outcomeWords(last))
		_, refused = last.(gateway.NotExecuted)
	}
	s.story.next = strings.Join(words, ", then ")
	if executed := s.executed(); len(executed) > 1 {
		s.t.Errorf("two attempts have moved money: %+v", executed)
	}
	return last
}

// sendOnceMore sends the first attempt again, as a packet that was under way for long. An object whose id was not
// stored is never executed, so then only its making is repeated.
func (s *scene) sendOnceMore() {
	s.t.Helper()
	before := len(s.executed())
	ch, isCharge := s.request.(gateway.Charge)
	if isCharge && s.client.Traits().TwoSteps {
		s.client.Prepare(s.t.Context(), ch)
		if len(s.executed()) != before {
			s.t.Error("making the object again has moved money")
		}
	}
	switch r := s.request.(type) {
	case gateway.Charge:
		if r.ObjectID != "" || !s.client.Traits().TwoSteps {
			s.client.Charge(s.t.Context(), r)
		}
	case gateway.Refund:
		s.client.Refund(s.t.Context(), r)
	}
	s.awaitWebhooks()
	switch after := len(s.executed()); {
	case after == before:
		s.story.again = "moves nothing"
	case before == 0 && after == 1:
		s.story.again = "moves the money, once"
	case s.fault.Forgets:
		s.story.again = "moves it again: the key is forgotten"
	default:
		s.t.Errorf("sent once more: %d movements before, and %d after", before, after)
	}
}

func outcomeWords(o gateway.Outcome) string {
	switch o := o.(type) {
	case gateway.Succeeded:
		return "succeeded"
	case gateway.Declined:
		return "declined: " + o.Code
	case gateway.NotExecuted:
		return "not executed: " + o.Reason
	case gateway.Pending:
		return "pending: " + o.Reason
	case gateway.Indeterminate:
		if o.Contradiction {
			return "contradiction: " + o.Reason
		}
		return "unknown: " + o.Reason
	}
	return fmt.Sprintf("%T", o)
}

func (s *scene) lookupWords(l gateway.Lookup) string {
	switch l := l.(type) {
	case gateway.Found:
		return "found: " + s.recordWords(l.Records)
	case gateway.NotFound:
		if l.Final {
			return "ended"
		}
		return "not found"
	case gateway.Waiting:
		return "waiting: " + l.Reason
	case gateway.LookupFailed:
		return "failed: " + l.Reason
	}
	return fmt.Sprintf("%T", l)
}

func (s *scene) recordWords(records []gateway.Record) string {
	var words []string
	for _, r := range records {
		word := outcomeWords(s.request.Judge(r))
		if len(words) == 0 || words[len(words)-1] != word {
			words = append(words, word)
		} else {
			words[len(words)-1] = "twice " + word
		}
	}
	return strings.Join(words, ", ")
}
