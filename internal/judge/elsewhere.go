package judge

import (
	"time"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/payment"
)

// What others have done to a payment at the PSP: a refund in its dashboard, a dispute. The key of the payment does not
// move, and no operator is needed: the books follow the PSP's own records.

// Stored is what our books have of an object of the PSP's that changes a payment, and that is, or seemed to be, no
// movement of ours. It is zero if they have nothing.
type Stored struct {
	Status        string // a payment.Status of a refund, or a gateway.DisputeStatus
	AmountMinor   int64
	Currency      string
	Reason        string    // of a dispute
	EvidenceDueBy time.Time // of a dispute
	OfAnother     bool      // the PSP has told before that it changes another payment
	Fresh         bool      // it has changed since a scan may have read its page
}

// ChangedBy reports whether a record is about what others have done to the payment.
func (s Seen) ChangedBy(e Record) bool {
	_, charge := s.Request.(gateway.Charge)
	return charge && e.Record.Object != gateway.ChargeObject && !s.fromElsewhere(e)
}

// ofAnotherProgram reports whether a record is about a charge of another program.
func (s Seen) ofAnotherProgram(r gateway.Record) bool { return !s.Known() && s.Shared && !r.Marked() }

// judgeElsewhere is for what others have done to the payment: a dispute, or a refund.
func judgeElsewhere(s Seen, rep report, r gateway.Record) Step {
	if r.Object == gateway.DisputeObject {
		return judgeDispute(s, rep, r)
	}
	return judgeRefundElsewhere(s, rep, r)
}

// judgeRefundElsewhere is for a refund of the payment that others have made. The record of a refund that came back may
// arrive before the one by which it succeeded.
func judgeRefundElsewhere(s Seen, rep report, r gateway.Record) Step {
	step := Step{elsewhere: &r}
	known, status := payment.Status(s.Stored.Status), RefundStatus(r)
	switch {
	case r.AmountMinor == 0:
		return Step{} // no money
	case known == "": // new
	case s.Stored.AmountMinor != r.AmountMinor || s.Stored.Currency != r.Currency || s.Stored.OfAnother:
		return s.disagree(rep, "the PSP has told another amount of this refund before, or another payment")
	case known == payment.Reversed && status == payment.Succeeded && rep.source == SourceScan && !s.Stored.Fresh:
		return s.disagree(rep, "the PSP has told that this refund came back, and its ledger says that it did not")
	case known == status:
		step = Step{}
	case known == payment.Reversed, status == payment.Processing:
		return Step{} // older than what we know
	}
	return s.movedOutside(step, rep, r, r.Status != gateway.StatusDeclined)
}

// RefundStatus is the status of a refund that others have made, by its record.
func RefundStatus(r gateway.Record) payment.Status {
	switch r.Status {
	case gateway.StatusPending:
		return payment.Processing
	case gateway.StatusSucceeded:
		return payment.Succeeded
	}
	return payment.Reversed // Its money has come back, or has never left.
}

const foundOut = "The payment has succeeded, so there is nothing left to decide."

// movedOutside adds the case of money that has moved out of a payment which has not succeeded here, or in another
// currency than the payment's. Money can move out of a payment only after the charge was executed. So while its key is
// unknown, the dead letter holds the key: it is not released, and not completed as a decline. When the payment has
// succeeded, the record closes the case.
func (s Seen) movedOutside(step Step, rep report, r gateway.Record, moved bool) Step {
	reason := "the PSP has a " + string(r.Object) + " of this payment that nothing of ours asked for"
	switch {
	case !moved:
		return step
	case !s.Known(): // a refund of ours that a restore has lost
		step.open = s.foundRecord(deadletters.UnknownMovement, rep, reason)
	case r.Currency != s.charge().Currency:
		step.open = s.foundRecord(deadletters.MovedOutside, rep,
			reason+"; it is in "+r.Currency+", so it counts as the whole payment")
	case s.Row.Status != payment.Succeeded:
		step.open = s.foundRecord(deadletters.MovedOutside, rep,
			reason+", and we do not know that the payment has succeeded")
	case s.Held:
		step.answer = s.foundRecord(deadletters.MovedOutside, rep, foundOut)
		step.answer.Source = rep.source
	case step.elsewhere != nil && r.Object == gateway.RefundObject:
		// Before the charge's id was known here, the refund was one of nobody.
		step.answer = Seen{Account: s.Account}.foundRecord(deadletters.UnknownMovement, rep, foundOut)
		step.answer.Source = rep.source
	}
	return step
}

// disagree is the case of a record that contradicts an earlier one of the PSP's. Nothing is stored: an operator finds
// out which of the two is true.
func (s Seen) disagree(rep report, reason string) Step {
	c := s.foundRecord(deadletters.MovedOutside, rep, reason)
	c.Finding = "disagrees " + c.Finding
	return Step{open: c}
}

// counting adds to a step what our books do not count: a second refund under the marks of one of ours, or a refund that
// is declined or failed here. A refund that is processing has reserved its own share, one that came back has had it,
// and one for which an operator has vouched counts already. What was added ends when its money comes back.
func (s Seen) counting(step Step, r gateway.Record) Step {
	asked, refund := s.Request.(gateway.Refund)
	was, reversed := s.Stored, string(payment.Reversed)
	known := s.Row.Status == payment.Processing || s.Row.Status == payment.Reversed && s.Row.PSPID == r.ID ||
		s.Row.PSPID == payment.OperatorPSPID+r.ID || was.Status == reversed
	begins := step.open != nil && r.Executed() && asked.ChargeID == r.ChargeID && !known
	ends := step.to == "" && step.reversal == nil && r.Status == gateway.StatusDeclined && !was.OfAnother &&
		was.AmountMinor == r.AmountMinor && was.Currency == r.Currency && was.Status != reversed
	if refund && (begins || ends) {
		step.elsewhere = &r
	}
	return step
}
