package stripe

import "payonce/demo/mockpsp"

// cancelIntent makes sure that an intent is never executed.
func (s *Server) cancelIntent(c *call) (func() (reply, error), error) {
	found, err := s.findIntent(c)
	if err != nil {
		return nil, err
	}
	if s.rates.Hit(rateConflict) {
		return nil, lockTimeout()
	}
	return func() (reply, error) { return s.executeCancel(c, found, c.params.text("cancellation_reason")) }, nil
}

// executeCancel cancels, unless one of the random faults of a cancellation strikes: its answer is lost, or is a 500,
// and half of the time nothing was canceled.
func (s *Server) executeCancel(c *call, found *slot[*intent], reason string) (reply, error) {
	lost, broken := s.rates.Hit(rateCancelLost), s.rates.Hit(rateCancel500)
	var f fault
	switch {
	case lost:
		f = fault{token: rateCancelLost, ending: mockpsp.EndCut}
	case broken:
		f = fault{token: rateCancel500, broken: true}
	default:
		return s.cancel(c.asked, found, reason, f)
	}
	c.note.Fault(f.token)
	if s.rates.Coin() {
		return s.idle(c, f, "")
	}
	answered, err := s.cancel(c.asked, found, reason, f)
	if err != nil {
		return reply{}, err
	}
	return s.end(c, f, answered)
}

func (s *Server) cancel(by asked, found *slot[*intent], reason string, f fault) (reply, error) {
	found.changing.Lock()
	defer found.changing.Unlock()
	current := s.store.newestIntent(found)
	w := &work{fault: f}
	switch {
	case current.Stuck:
		return reply{}, serverError()
	case current.confirmable():
		next := *current
		next.Status, next.WhyCancel, next.Due = canceled, reason, nil
		w.Intent = &next
		w.tell(next.Account, "payment_intent.canceled")
		w.result = succeedWith(next.shown)
	default:
		w.result = failWith(unexpectedState("cancel", current))
	}
	if f.broken {
		w.result = failWith(serverError())
	}
	return s.commit(by, w)
}
