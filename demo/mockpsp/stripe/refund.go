package stripe

import (
	"cmp"
	"fmt"
	"net/http"
)

// wish is what a refund is asked for.
type wish struct {
	intent   string
	amount   int64 // 0 is all that is left
	reason   string
	metadata map[string]string
}

// reason is one of Stripe's. A test token is taken beside them: it picks the fault of a refund.
func reason() form {
	stripes := oneOf("duplicate", "fraudulent", "requested_by_customer")
	return form{stripes.says + ", or a token below", func(name, value string) error {
		if _, isToken := faultOf(value); isToken {
			return nil
		}
		return stripes.check(name, value)
	}}
}

// createRefund gives money back, at once.
func (s *Server) createRefund(c *call) (func() (reply, error), error) {
	p := c.params
	asked := wish{p.text("payment_intent"), p.number("amount"), p.text("reason"), p.metadata()}
	if asked.intent == "" {
		return nil, missing("payment_intent")
	}
	found := s.store.intentSlot(c.account, asked.intent)
	if found == nil {
		return nil, noSuch("payment_intent", "payment_intent", asked.intent)
	}
	if err := s.limit(s.store.newestIntent(found)); err != nil {
		return nil, err
	}
	if s.rates.Hit(rateConflict) {
		return nil, lockTimeout()
	}
	return func() (reply, error) { return s.executeRefund(c, found, asked) }, nil
}

// refundToken is the test token of a refund: its reason or, for callers who send only the reasons of Stripe, the reason
// in its metadata.
func refundToken(r *refund) string {
	for _, token := range []string{r.Reason, r.Metadata["reason"]} {
		if _, known := faultOf(token); known {
			return token
		}
	}
	return methodOK
}

func (s *Server) executeRefund(c *call, found *slot[*intent], in wish) (reply, error) {
	wanted := &refund{
		ID: newID("re_"), Account: c.account, Intent: s.store.newestIntent(found).ID, Amount: in.amount,
		Reason: in.reason, Metadata: in.metadata,
	}
	reference := cmp.Or(in.metadata["reference"], c.asked.key.Key)
	f, mark := s.pick(c.account, refundToken(wanted), reference)
	c.note.Fault(f.token)
	if f.slow {
		s.psp.Pause(s.psp.Config().SlowDelay)
	}
	switch {
	case f.idle:
		return s.idle(c, f, mark)
	case f.late:
		wanted.Due = s.dueLater(s.psp.Config().LateDelay, dueRefund, f, c.asked)
		wanted.Due.Key, wanted.Due.Hash, wanted.Due.Expand = c.asked.key, c.asked.hash, c.asked.expand
		_, err := s.commit(c.asked, &work{change: change{Promise: wanted}, fault: f})
		return reply{Ending: f.ending}, err
	}
	answered, err := s.refundCharge(c.asked, found, wanted, f)
	if err != nil {
		return reply{}, err
	}
	return s.end(c, f, answered)
}

// refundCharge moves the money of a refund back. The intent's lock bounds what all refunds of a charge add up to.
func (s *Server) refundCharge(by asked, found *slot[*intent], wanted *refund, f fault) (reply, error) {
	found.changing.Lock()
	defer found.changing.Unlock()
	current := s.store.newestIntent(found)
	of := s.store.chargeOf(wanted.Account, current.Charge)
	if refused, ok := refuseRefund(of, wanted); ok {
		w := &work{result: failWith(refused), fault: f}
		w.Broken = wanted.ID
		return s.commit(by, w)
	}
	made, charged := *wanted, *of
	made.Charge, made.Currency, made.Due = of.ID, of.Currency, nil
	made.Amount = cmp.Or(made.Amount, of.Amount-of.Refunded)
	if f.wrongAmount {
		made.Amount = wrongRefund(made.Amount)
	}
	made.Stuck = f.stuck
	w := &work{change: change{Refund: &made, Charge: &charged}, fault: f}
	w.result = succeedWith(made.shown)
	switch {
	case f.declined:
		made.Status, made.Why = failed, "declined"
		w.Charge = nil
		w.tell(made.Account, "refund.created", "refund.failed")
	case f.debit:
		made.Status = pending
		made.Due = s.dueLater(s.config.ActionDelay, dueRefundPaid, f, by)
		if f.returned {
			made.Due.What = dueRefundLost
		}
		charged.Refunded += made.Amount
		w.tell(made.Account, "refund.created")
	default:
		made.Status = succeeded
		if f.reversed {
			made.Due = s.dueLater(s.config.ActionDelay, dueRefundBack, f, by)
		}
		charged.Refunded += made.Amount
		w.tell(made.Account, "charge.refunded", "refund.created", "refund.updated")
	}
	if made.Status != pending {
		w.movement = movementOfRefund(by, &made)
	}
	if f.broken || f.stuck { // a repeat of a stuck refund learns nothing, and gives nothing back
		w.result = failWith(serverError())
	}
	return s.commit(by, w)
}

// wrongRefund is off by one, downwards where that is possible: more could exceed the charge.
func wrongRefund(amount int64) int64 {
	if amount > 1 {
		return amount - 1
	}
	return amount
}

// refuseRefund says why the charge cannot be refunded by the amount, if it cannot.
func refuseRefund(of *charge, wanted *refund) (apiError, bool) {
	switch {
	case of == nil || of.Status != succeeded:
		return invalid("payment_intent", "This PaymentIntent does not have a successful charge to refund."), true
	case of.Held > 0:
		return apiError{status: http.StatusBadRequest, kind: invalidRequest, code: "charge_disputed",
			message: "Charge " + of.ID + " has been charged back; cannot issue a refund."}, true
	case of.Refunded == of.Amount:
		return apiError{status: http.StatusBadRequest, kind: invalidRequest, code: "charge_already_refunded",
			message: "Charge " + of.ID + " has already been refunded."}, true
	case wanted.Amount > of.Amount-of.Refunded:
		return invalidCode("amount_too_large", "amount", fmt.Sprintf(
			"Refund amount (%d) is greater than unrefunded amount on charge (%d).", wanted.Amount,
			of.Amount-of.Refunded)), true
	}
	return apiError{}, false
}

// landRefund does what is due of a refund.
func (s *Server) landRefund(of *refund) error {
	leave, err := s.psp.Enter()
	if err != nil {
		return nil // the file has it, and the next start resumes it
	}
	defer leave()
	found := s.store.intentSlot(of.Account, of.Intent)
	f, _ := faultOf(of.Due.Fault)
	if of.Due.What == dueRefund {
		by := asked{key: of.Due.Key, hash: of.Due.Hash, from: of.Due.For, expand: of.Due.Expand}
		_, err := s.refundCharge(by, found, of, fault{token: f.token})
		return err
	}
	found.changing.Lock()
	defer found.changing.Unlock()
	newest := s.store.refundOf(of.Account, of.ID)
	if newest.Due != of.Due {
		return nil // it has come back by hand
	}
	_, err = s.endRefund(newest, of.Due.What, of.Due.Fault, of.Due.For.Key)
	return err
}

// endRefund brings a refund to its end. The caller holds the lock of the intent.
func (s *Server) endRefund(of *refund, how dueKind, token, key string) (reply, error) {
	next, charged := *of, *s.store.chargeOf(of.Account, of.Charge)
	next.Due = nil
	w := &work{change: change{Refund: &next, Charge: &charged}, fault: fault{token: token}}
	switch how {
	case dueRefundBack:
		// As Stripe's own test card 4000 0000 0000 5126 does (docs.stripe.com/refunds#failed-refunds).
		next.Status, next.Why, next.Reversed = failed, "expired_or_canceled_card", true
		charged.Refunded -= next.Amount
		w.tell(next.Account, "refund.updated", "refund.failed")
	case dueRefundLost:
		next.Status, next.Why = failed, "declined"
		charged.Refunded -= next.Amount
		w.tell(next.Account, "refund.updated", "refund.failed")
	default:
		next.Status = succeeded
		w.tell(next.Account, "charge.refunded", "refund.updated")
	}
	w.movement = movementOfRefund(asked{}, &next)
	w.movement.IdempotencyKey = cmp.Or(w.movement.IdempotencyKey, key)
	w.result = succeedWith(next.shown)
	return s.commit(asked{}, w)
}

// refund is one version of a Refund.
type refund struct {
	ID       string            `json:"id"`
	Account  string            `json:"account"`
	Intent   string            `json:"intent"`
	Charge   string            `json:"charge"`
	Amount   int64             `json:"amount"`
	Currency string            `json:"currency"`
	Status   string            `json:"status"`
	Reason   string            `json:"reason,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
	Created  int64             `json:"created"`
	Why      string            `json:"why,omitempty"`      // the refund has failed
	Reversed bool              `json:"reversed,omitempty"` // it has failed after it had succeeded
	Stuck    bool              `json:"stuck,omitempty"`
	Due      *due              `json:"due,omitempty"`
}

// shown is the refund as the API shows it.
func (r *refund) shown() object {
	v := object{
		"id": r.ID, "object": "refund", "amount": r.Amount, "balance_transaction": nil, "charge": r.Charge,
		"created": r.Created, "currency": r.Currency, "metadata": shownMetadata(r.Metadata), "payment_intent": r.Intent,
		"reason": orNull(r.Reason), "receipt_number": nil, "status": r.Status,
	}
	if r.Why != "" {
		v["failure_reason"] = r.Why
	}
	if r.Status == succeeded || r.Reversed {
		v["balance_transaction"] = transactionID(r.ID)
	}
	if r.Reversed {
		v["failure_balance_transaction"] = failureTransactionID(r.ID)
	}
	return v
}
