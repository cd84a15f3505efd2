package stripe

import (
	"cmp"
	"strconv"

	"payonce/demo/mockpsp"
)

// confirmIntent executes an intent.
func (s *Server) confirmIntent(c *call) (func() (reply, error), error) {
	found, err := s.findIntent(c)
	if err != nil {
		return nil, err
	}
	current := s.store.newestIntent(found)
	method := cmp.Or(c.params.text("payment_method"), current.Method)
	if err := current.allows(method); err != nil {
		return nil, err
	}
	if capture := c.params.text("capture_method"); capture != "" && capture != current.Capture {
		return nil, invalid("capture_method", "The mock does not change the capture_method of a PaymentIntent.")
	}
	switch conflicts, err := s.conflicts(current, method); {
	case err != nil:
		return nil, err
	case conflicts:
		return nil, lockTimeout()
	}
	return func() (reply, error) { return s.executeConfirm(c, found, method) }, nil
}

// findIntent returns the intent of the path, for a request that changes it.
func (s *Server) findIntent(c *call) (*slot[*intent], error) {
	id := c.r.PathValue("id")
	found := s.store.intentSlot(c.account, id)
	if found == nil {
		return nil, noSuch("payment_intent", "intent", id)
	}
	return found, s.limit(s.store.newestIntent(found))
}

// conflicts says whether the intent is locked by another request, as Stripe has it under load.
func (s *Server) conflicts(current *intent, method string) (bool, error) {
	switch {
	case s.rates.Hit(rateConflict):
		return true, nil
	case method != methodConflict:
		return false, nil
	}
	return s.strikes(markOf(current.Account, methodConflict, current.reference()), 1)
}

// limit refuses a request about a payment that is one too many: the first two are.
func (s *Server) limit(current *intent) error {
	if current.Method != methodRateLimited {
		return nil
	}
	strikes, err := s.strikes(markOf(current.Account, methodRateLimited, current.reference()), 2)
	if strikes && err == nil {
		return rateLimited()
	}
	return err
}

// strikes counts refusals that come before any execution, and is true for the first few. Each has a mark in the
// ledger's file, so that a restart does not begin again.
func (s *Server) strikes(mark string, times int) (bool, error) {
	s.counting.Lock()
	defer s.counting.Unlock()
	for i := range times {
		numbered := mark + " " + strconv.Itoa(i+1)
		if !s.store.hasMark(numbered) {
			_, err := s.commit(asked{}, &work{change: change{Mark: numbered}})
			return true, err
		}
	}
	return false, nil
}

// pick returns the fault of a movement: that of its token, or else one that chance picks. Mark is what the fault leaves
// behind if it strikes once.
func (s *Server) pick(account, token, reference string) (f fault, mark string) {
	f, _ = faultOf(token)
	mark = markOf(account, token, reference)
	switch {
	case f.once && s.store.hasMark(mark):
		return fault{token: methodOK}, "" // the outage is over
	case f.once:
		return f, mark
	case f != fault{token: f.token}:
		return f, ""
	}
	f, _ = faultOf(s.psp.DrawFault())
	f.once = false
	return f, ""
}

// executeConfirm acts the fault out: pause, write, end. Another intent's confirmation never waits for it.
func (s *Server) executeConfirm(c *call, found *slot[*intent], method string) (reply, error) {
	current := s.store.newestIntent(found)
	f, mark := s.pick(c.account, method, current.reference())
	if f.token == methodOK && s.rates.Hit(rateRequiresAction) {
		f, _ = faultOf("pm_requires_action")
	}
	c.note.Fault(f.token)
	if f.slow {
		s.psp.Pause(s.psp.Config().SlowDelay)
	}
	switch {
	case f.idle && current.confirmable():
		return s.idle(c, f, mark)
	case f.late:
		return s.promiseConfirm(c, found, method, f, mark)
	}
	answered, err := s.execute(c.asked, found, method, f)
	if err != nil {
		return reply{}, err
	}
	return s.end(c, f, answered)
}

// idle ends a request that has executed nothing. A 500 is a result, and saved. Silence is none: the request was cut
// short, and its key stands for nothing.
func (s *Server) idle(c *call, f fault, mark string) (reply, error) {
	w := &work{change: change{Mark: mark}, fault: f}
	if f.broken {
		w.result = failWith(serverError())
	}
	if mark == "" && !f.broken {
		return s.end(c, f, reply{})
	}
	answered, err := s.commit(c.asked, w)
	if err != nil {
		return reply{}, err
	}
	return s.end(c, f, answered)
}

// execute moves the money of an intent, or has the bank refuse to, and answers. One request at a time does so.
func (s *Server) execute(by asked, found *slot[*intent], method string, f fault) (reply, error) {
	found.changing.Lock()
	defer found.changing.Unlock()
	current := s.store.newestIntent(found)
	landing := current.isLate() && current.Due.Key == by.key && current.Due.For == by.from
	switch {
	case current.Stuck:
		return reply{Ending: mockpsp.EndSilence}, nil
	case current.isLate() && !landing:
		return reply{}, lockTimeout()
	case !current.confirmable():
		return s.commit(by, &work{result: failWith(unexpectedState("confirm", current))})
	case method == "":
		e := unexpectedState("confirm", current)
		e.message = "You cannot confirm this PaymentIntent because it's missing a payment method."
		return s.commit(by, &work{result: failWith(e)})
	case current.Status == needsAction && method == current.Method:
		return s.commit(by, &work{result: succeedWith(current.shown)})
	}
	next := *current
	next.Method, next.Failure, next.Due = method, nil, nil
	w := s.outcome(by, &next, f)
	if f.broken {
		w.result = failWith(serverError())
	}
	if f.stuck {
		w.result = nil // a repeat finds the intent stuck, and no result
	}
	return s.commit(by, w)
}

// outcome is what a confirmation comes to. It completes the next version of the intent.
func (s *Server) outcome(by asked, next *intent, f fault) *work {
	switch {
	case f.action:
		return s.askCustomer(by, next, f)
	case f.debit:
		return s.beginDebit(by, next, f)
	case f.declined:
		return decline(by, next, nil, f)
	default:
		return s.succeed(by, next, nil, f)
	}
}

// succeed charges the intent. Begun is the charge that was pending, or nil.
func (s *Server) succeed(by asked, next *intent, begun *charge, f fault) *work {
	if f.wrongAmount {
		next.Amount++
	}
	next.Status, next.Received, next.Stuck, next.Due = succeeded, next.Amount, f.stuck, nil
	made := chargeFor(next, begun)
	made.Status, made.Stuck = succeeded, f.stuck
	next.Charge = made.ID
	w := &work{change: change{Intent: next, Charge: made}, fault: f, movement: movementOf(by, next)}
	w.movement.Status = mockpsp.StatusSucceeded
	if later, _ := faultOf(next.Method); later.disputed != "" {
		next.Due = s.dueLater(s.psp.Config().LateDelay, dueDispute, later, by)
	}
	w.tell(next.Account, "charge.succeeded", "payment_intent.succeeded")
	w.result = succeedWith(next.shown)
	return w
}

// decline has the bank refuse. The intent needs another payment method then.
func decline(by asked, next *intent, begun *charge, f fault) *work {
	made := chargeFor(next, begun)
	made.Status = failed
	reason, _ := declineOf(f.token)
	reason.Charge, reason.Method = made.ID, next.Method
	made.Failure = &reason
	w := &work{fault: f, movement: movementOf(by, next)}
	w.movement.Status, w.movement.DeclineCode = mockpsp.StatusDeclined, made.Failure.Decline
	next.Status, next.Charge, next.Failure, next.Method, next.Due = needsMethod, made.ID, made.Failure, "", nil
	w.Intent, w.Charge = next, made
	w.tell(next.Account, "charge.failed", "payment_intent.payment_failed")
	w.result = func() (int, object) {
		e := next.Failure.said()
		e.intent = next
		return failWith(e)()
	}
	return w
}

// chargeFor returns the next version of the charge that was begun, or a new one.
func chargeFor(i *intent, begun *charge) *charge {
	if begun != nil {
		next := *begun
		return &next
	}
	return &charge{
		ID: newID(chargePrefix(i.Method)), Account: i.Account, Intent: i.ID, Amount: i.Amount, Currency: i.Currency,
		Method: i.Method, About: i.About, Metadata: i.Metadata,
	}
}
