package judge

import (
	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
)

// Record is a record of the PSP's ledger, and who brings it.
type Record struct {
	Source Source
	PSP    string // the PSP that says so; "" if an operator retries a stored record
	Record gateway.Record
	// Policy is set by the reconciler's lookup, for a record about an unknown key.
	Policy LookupPolicy
}

func (e Record) judge(s Seen) Step {
	r := e.Record
	rep := report{source: e.Source, account: r.Account, object: r.Object, id: r.ID, moved: r.Executed(),
		record: r.Evidence()}
	switch {
	case s.ChangedBy(e):
		return judgeElsewhere(s, rep, r)
	case s.ofAnotherProgram(r):
		return Step{foreign: true}
	case !rep.moved && (!s.Known() || s.fromElsewhere(e)):
		return Step{} // A decline that is not about this account of ours: no money has moved.
	case !s.Known():
		return Step{open: s.foundRecord(deadletters.UnknownMovement, rep,
			"the PSP has a "+string(r.Object)+" that nothing of ours asked for")}
	case s.fromElsewhere(e):
		// The record belongs to another tenant, so nothing of it may appear in this tenant's timeline.
		return Step{open: s.foundRecord(deadletters.OtherAccount, rep,
			"the PSP names one tenant's "+string(r.Object)+" under another's account")}
	case e.Source == SourceScan && s.atWork() && s.lookedUp(r):
		return Step{leftAlone: true} // The owner or a lookup is at work. The scan is for what both have missed.
	}
	if s.charge().OfAnotherAttempt(r) && e.Source != SourceLookup { // A lookup finds declines of this attempt alone.
		return Step{} // The attempt that the PSP has declined was given up, and its object cancelled.
	}
	rep.outcome = s.Request.Judge(r)
	step := s.counting(judgeOutcome(s, rep), r)
	if e.Source == SourceLookup && step.open != nil && s.ours() && s.Status == idempotency.UnknownStatus && !s.Woken {
		step.askAgain = &Wait{After: e.Policy.Recheck}
		step.note = lookupNote("the PSP's record contradicts the request; an operator has the case")
	}
	return step
}

// judgeOutcome compares an outcome with the state of the key. What it decides about the key does not depend on who
// brings the outcome.
func judgeOutcome(s Seen, rep report) Step {
	v, isVerdict := payment.VerdictOf(rep.outcome)
	if isVerdict && s.IDTaken {
		if d, declined := rep.outcome.(gateway.Declined); declined {
			v.PSPID, rep.outcome = "", gateway.Declined{Code: d.Code}
		} else {
			rep.outcome, isVerdict = unwritable(rep.outcome, namedTwice), false
		}
	}
	switch {
	case s.unfinished() && !isVerdict:
		return Step{open: s.contradiction(rep.id, "the PSP's record contradicts the request: "+reasonOf(rep.outcome),
			rep.kept())}
	case s.unfinished() && s.ShareGone:
		return Step{open: s.foundRecord(deadletters.RefundExceeds, rep,
			"the PSP has a refund whose share of the payment another refund has reserved")}
	case s.unfinished() && v.Status == payment.Declined && s.Charged:
		return Step{open: s.contradiction(rep.id, declinedAlthoughMoved, rep.kept())}
	case s.unfinished():
		return Step{to: idempotency.CompletedStatus, verdict: v, note: idempotency.Note{
			Actor: string(rep.source), Reason: "the PSP says " + rep.outcome.Label(), Evidence: rep.record,
		}}
	}
	return judgeFinished(s, rep, v, isVerdict)
}

// judgeFinished is for a key that is final, or belongs to another payment by now. The evidence is compared with the row
// of the payment or refund.
func judgeFinished(s Seen, rep report, v payment.Verdict, isVerdict bool) Step {
	known := s.Row
	if step, is := judgeReversed(s, rep, v); is {
		return step
	}
	switch {
	case s.cameBack(v):
		return s.reverse(rep, v)
	case isVerdict && known.ConfirmedBy(v):
		return s.confirm(rep, v)
	case !rep.moved && known.Status != payment.Succeeded:
		return Step{} // Nobody says that money has moved.
	case (known.Status == payment.Succeeded || known.Status == payment.Reversed) && v.Status == payment.Succeeded &&
		isVerdict:
		return Step{open: s.foundRecord(deadletters.DuplicateMovement, rep,
			"the PSP has executed it twice, the second time as "+v.PSPID)}
	case known.Status == payment.Succeeded || known.Status == payment.Declined:
		return Step{open: s.foundRecord(deadletters.ContradictsCompleted, rep,
			"the PSP's record contradicts the result that was answered: "+reasonOf(rep.outcome))}
	}
	return Step{open: s.foundRecord(deadletters.LateAfterExpiry, rep,
		"the movement was found after its key had expired without an execution")}
}

// confirm is the step for evidence that says what is known already. A webhook leaves a line in the timeline. A scan
// does not: it would leave one for every payment. If an operator has vouched for the payment without knowing the PSP's
// id, the row gets that id now. The stored response does not change.
func (s Seen) confirm(rep report, v payment.Verdict) (step Step) {
	if s.Row.PSPID != v.PSPID {
		step.named = v.PSPID
	}
	if rep.source == SourceWebhook && s.ours() {
		step.note = idempotency.Note{Actor: string(rep.source), Reason: "the PSP confirms: " + rep.outcome.Label(),
			Evidence: rep.record}
	}
	return step
}
