package judge

import (
	"fmt"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/payment"
)

// ChangedBy reports whether a record is about what others have done to the payment.
func (s Seen) ChangedBy(e Record) bool {
	_, charge := s.Request.(gateway.Charge)
	return charge && e.Record.Object != gateway.ChargeObject && !s.fromElsewhere(e)
}

// ofAnotherProgram reports whether a record is about a charge of another program.
func (s Seen) ofAnotherProgram(r gateway.Record) bool { return !s.Known() && s.Shared && !r.Marked() }

// judgeOutside is for a record of what others have done to the payment. The key does not move. If the key is unknown,
// the dead letter says that money has moved: the key is not released, and not completed as a decline. What the record
// says next is another finding: who dismisses an inquiry has not decided about the money that it takes later.
func judgeOutside(s Seen, rep report, r gateway.Record) Step {
	step := Step{outside: &r}
	if r.Status == gateway.StatusDeclined {
		return step // The money has come back, or has never left.
	}
	reason := "the PSP has a " + string(r.Object) + " of this payment that nothing of ours asked for"
	if r.Currency != s.charge().Currency && r.AmountMinor > 0 {
		reason += "; it is in " + r.Currency + ", so it counts as the whole payment"
	}
	if !s.Known() { // a refund of ours that a restore has lost
		step.open = s.foundRecord(deadletters.UnknownMovement, rep, reason)
		return step
	}
	step.open = s.foundRecord(deadletters.MovedOutside, rep, reason)
	step.open.Finding = fmt.Sprintf("%s %d %s", r.Status, r.AmountMinor, step.open.Finding)
	return step
}

// counting adds to a step what our books do not count: a second refund under the marks of one of ours, or a refund that
// is declined or failed here. A refund that is processing has reserved its own share.
func (s Seen) counting(step Step, r gateway.Record) Step {
	asked, refund := s.Request.(gateway.Refund)
	if step.open != nil && refund && r.Executed() && asked.ChargeID == r.ChargeID &&
		s.Row.Status != payment.Processing {
		step.outside = &r
	}
	return step
}

// declined is the step of a refund that the PSP has declined because the money is gone or held already. Our books bound
// each refund, so others have moved more than we know.
func (s Seen) declined(step Step, source Source) Step {
	if step.verdict.Code == gateway.AlreadyMoved {
		step.open = s.byKey(deadletters.MovedOutside,
			"the PSP refuses the refund: money of the payment is returned or held already, and we do not know by what",
			evidenceOf(source, ownerRecord(step.verdict)))
	}
	return step
}
