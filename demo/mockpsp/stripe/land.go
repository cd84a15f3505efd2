package stripe

import (
	"cmp"
	"strings"
	"time"
)

// promiseConfirm notes that the confirmation will land after its call has ended. Until then its key is in use, and the
// intent may be canceled.
func (s *Server) promiseConfirm(c *call, found *slot[*intent], method string, f fault, mark string) (reply, error) {
	found.changing.Lock()
	defer found.changing.Unlock()
	current := s.store.newestIntent(found)
	switch {
	case current.isLate():
		return reply{}, lockTimeout()
	case !current.confirmable():
		return s.commit(c.asked, &work{result: failWith(unexpectedState("confirm", current))})
	}
	next := *current
	next.Method = method
	next.Due = s.dueLater(s.psp.Config().LateDelay, dueConfirm, f, c.asked)
	next.Due.Key, next.Due.Hash, next.Due.Expand = c.asked.key, c.asked.hash, c.asked.expand
	_, err := s.commit(c.asked, &work{change: change{Intent: &next, Mark: mark}, fault: f})
	return reply{Ending: f.ending}, err
}

// askCustomer asks for the authentication of the customer, who takes some time for it.
func (s *Server) askCustomer(by asked, next *intent, f fault) *work {
	next.Status = needsAction
	if !f.abandoned {
		next.Due = s.dueLater(s.config.ActionDelay, dueAuthentic, f, by)
	}
	w := &work{change: change{Intent: next}, fault: f}
	w.tell(next.Account, "payment_intent.requires_action")
	w.result = succeedWith(next.shown)
	return w
}

// beginDebit asks a bank for the money, which takes some time. The intent cannot be canceled any more.
func (s *Server) beginDebit(by asked, next *intent, f fault) *work {
	what := dueCleared
	if f.returned {
		what = dueReturned
	}
	next.Status = inProcess
	next.Due = s.dueLater(s.config.ActionDelay, what, f, by)
	made := chargeFor(next, nil)
	made.Status = pending
	next.Charge = made.ID
	w := &work{change: change{Intent: next, Charge: made}, fault: f}
	w.tell(next.Account, "charge.pending", "payment_intent.processing")
	w.result = succeedWith(next.shown)
	return w
}

func (s *Server) dueLater(wait time.Duration, what dueKind, f fault, by asked) *due {
	return &due{At: s.now().Add(wait).UTC(), What: what, Fault: f.token, For: by.from}
}

// land does what is due of an intent, unless it was canceled before.
func (s *Server) land(account, id string, d *due) error {
	leave, err := s.psp.Enter()
	if err != nil {
		return nil // the file has it, and the next start resumes it
	}
	defer leave()
	found := s.store.intentSlot(account, id)
	f, _ := faultOf(d.Fault)
	f = fault{token: f.token}
	if d.What == dueConfirm {
		by := asked{key: d.Key, hash: d.Hash, from: d.For, expand: d.Expand}
		if current := s.store.newestIntent(found); current.Due != d {
			return nil
		}
		_, err := s.execute(by, found, s.store.newestIntent(found).Method, f)
		return err
	}
	found.changing.Lock()
	defer found.changing.Unlock()
	current := s.store.newestIntent(found)
	if current.Due != d {
		return nil // canceled, or confirmed with another payment method
	}
	if d.What == dueDispute {
		return s.landNewDispute(current)
	}
	next := *current
	var w *work
	switch d.What {
	case dueReturned:
		w = decline(asked{}, &next, s.store.chargeOf(account, current.Charge), f)
	case dueCleared:
		w = s.succeed(asked{}, &next, s.store.chargeOf(account, current.Charge), f)
	default:
		w = s.succeed(asked{}, &next, nil, f)
	}
	w.result = nil
	w.movement.IdempotencyKey = cmp.Or(w.movement.IdempotencyKey, d.For.Key)
	_, err = s.commit(asked{}, w)
	return err
}

// landNewDispute opens the dispute that is due of an intent. If the charge has nothing left, nothing is disputed. The
// caller holds the lock of the intent.
func (s *Server) landNewDispute(current *intent) error {
	f, _ := faultOf(current.Due.Fault)
	next := *current
	next.Due = nil
	made := &dispute{Reason: f.disputed, Status: needsResponse}
	if f.inquiry {
		made.Status = warningNeedsResponse
	}
	if f.decided != "" {
		made.Due = s.dueLater(s.psp.Config().LateDelay, f.decided, f, asked{})
	}
	w, err := s.openDispute(&next, made)
	if err != nil {
		w = &work{}
	} else {
		w.fault = fault{token: f.token}
	}
	w.Intent = &next
	_, err = s.commit(asked{}, w)
	return err
}

// landDispute has the bank decide. It looks at the evidence first.
func (s *Server) landDispute(of *dispute) error {
	leave, err := s.psp.Enter()
	if err != nil {
		return nil // the file has it, and the next start resumes it
	}
	defer leave()
	_, err = s.withDispute(of.Account, of.ID, func(newest *dispute) (reply, error) {
		if newest.Due != of.Due {
			return reply{}, nil // somebody has done something else by hand
		}
		status := map[dueKind]string{dueWon: won, dueLost: lost}[of.Due.What]
		if strings.HasPrefix(of.Status, "warning_") {
			status = warningClosed
		}
		first := status == won && of.Status == needsResponse
		if first {
			status = underReview
		}
		w, err := s.changeDispute(newest, status)
		if err != nil {
			return reply{}, err
		}
		if first {
			w.Dispute.Due = s.dueLater(s.psp.Config().LateDelay, of.Due.What, fault{}, asked{})
		}
		w.result, w.fault.token = nil, of.Due.Fault
		return s.commit(asked{}, w)
	})
	return err
}

// schedule starts the clocks of what a change has promised.
func (s *Server) schedule(ch *change) {
	if i := ch.Intent; i != nil && i.Due != nil {
		s.at(i.Due, func() error { return s.land(i.Account, i.ID, i.Due) })
	}
	for _, r := range []*refund{ch.Refund, ch.Promise} {
		if r != nil && r.Due != nil {
			s.at(r.Due, func() error { return s.landRefund(r) })
		}
	}
	if d := ch.Dispute; d != nil && d.Due != nil {
		s.at(d.Due, func() error { return s.landDispute(d) })
	}
}

func (s *Server) at(d *due, land func() error) {
	s.timers.Start(d.At.Sub(s.now()), func() {
		if err := land(); err != nil {
			s.log.Error("what is due could not be written", "error", err)
		}
	})
}

// Due counts what is still to happen by itself: late confirmations and refunds, customers and banks. A test that waits
// until it is 0 has seen all of it.
func (s *Server) Due() int { return s.timers.Len() }
