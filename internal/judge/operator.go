package judge

import (
	"slices"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
)

// OperatorDecision is what an operator decides about a dead letter.
type OperatorDecision struct {
	Action  deadletters.Action
	Version int32 // the version of the dead letter that the operator has seen
	// PSPID is the PSP's id of the movement, if the operator says executed and knows the id; otherwise "".
	PSPID string
	// PSPConfirms makes executed need a record of the PSP that says so, of exactly what was asked. It is set for a
	// decision about several dead letters, because nobody has looked at each.
	PSPConfirms bool
	// Preview: the operator only looks at what the decision would do.
	Preview bool
	// Answer is the PSP's answer to a lookup of the key for this decision. It is nil if the PSP was not asked.
	Answer gateway.Lookup
	// Others are the PSP's records under the key that are about an earlier payment. Answer does not have them. Unbooked
	// are those of them by which money has moved, and our books do not say so.
	Others, Unbooked []gateway.Record
}

// MayEnd says what the PSP may end when it is asked for the decision. An operator who says "not executed" wants it
// ended. Any other decision only reads, and so does one that will be refused because of another dead letter: what the
// PSP has ended cannot be taken back.
func (d OperatorDecision) MayEnd(s Seen) gateway.End {
	if d.Action == deadletters.NotExecuted && !d.Preview && s.OtherHeld == "" {
		return gateway.EndDecided
	}
	return gateway.EndNothing
}

// A decision that the PSP contradicts is refused.
func (d OperatorDecision) judge(s Seen) Step {
	switch l := s.DeadLetter; {
	case l == nil:
		return refuse(NotApplicable, "There is no dead letter to decide about.")
	case l.Resolution != nil:
		return refuse(Conflict, "%s has resolved this dead letter before, as %s.", l.Resolution.Actor,
			l.Resolution.Action)
	case l.Version != d.Version:
		return refuse(Conflict, "The dead letter has version %d, not %d.", l.Version, d.Version)
	}
	switch d.Action {
	case deadletters.Retry:
		return judgeRetry(s)
	case deadletters.Dismiss:
		return judgeDismissal(s)
	case deadletters.Executed, deadletters.NotExecuted:
		return judgeAboutMoney(s, d)
	}
	return refuse(NotApplicable, "There is no such action.")
}

// judgeAboutMoney is for the two decisions that say whether money has moved. They are possible only while the key is
// unknown. In every other status, the outcome is known already or the request is still being executed.
func judgeAboutMoney(s Seen, d OperatorDecision) Step {
	switch {
	case s.DeadLetter.About == nil:
		return refuse(NotApplicable,
			"This dead letter is about no key of ours. Only retry or dismiss is possible.")
	case !s.stands():
		return refuse(NotApplicable, "The dead letter's key is gone, or stands for something else by now.")
	case s.Status != idempotency.UnknownStatus:
		return refuse(NotApplicable, "The dead letter's key is %s. Only an unknown one can be decided about.", s.Status)
	case d.Answer == nil:
		return Step{ask: true}
	case d.Action == deadletters.Executed:
		return judgeExecuted(s, d)
	}
	return judgeNotExecuted(s, d)
}

// judgeExecuted completes the key as a success. If the PSP contradicts the operator, the decision is refused: also by
// an answer that would release the key. If the PSP does not know, the operator's decision counts.
func judgeExecuted(s Seen, d OperatorDecision) Step {
	if d.PSPConfirms && !s.confirmed(d) {
		if _, silent := d.Answer.(gateway.LookupFailed); silent {
			return refuse(NoFreshProof, "The PSP does not say that it has executed it. Ask again later.")
		}
		return refuse(ContradictsPSP,
			"The PSP has no record that it has executed exactly what was asked. Look at this dead letter alone.")
	}
	switch a := d.Answer.(type) {
	case gateway.NotFound:
		switch ch := s.charge(); {
		case ch.TwoSteps && ch.ObjectID == "" && !a.Final: // The PSP has nothing that it could be asked about.
			return refuse(ContradictsPSP,
				"No id of the PSP's is stored for it: as far as we know, the PSP was never asked. Use not_executed.")
		case a.Final || ch.TwoSteps:
			return refuse(ContradictsPSP, "The PSP says that it has not executed it. Use not_executed.")
		}
	case gateway.Waiting:
		return refuse(ContradictsPSP, "The PSP has it, and has not executed it yet: %s. Wait for its outcome.",
			a.Reason)
	case gateway.Found, gateway.LookupFailed:
	}
	if s.nothingExecuted(d) && s.GraceLeft <= 0 && !s.MemoryOver && !s.Charged {
		return refuse(ContradictsPSP,
			"The PSP has no record of it after the grace period: it was not executed. Use not_executed.")
	}
	id, refusal := executedAs(s, d)
	if refusal != nil {
		return Step{refuse: refusal}
	}
	if s.IDTaken {
		// Another row of ours has this id already, so this row cannot have it. But the key must be completed. A record
		// without a reference proves nothing for this movement: it may be about the row that has the id.
		saysSo := slices.ContainsFunc(s.ownRecords(d),
			func(r gateway.Record) bool { return r.ID == id && r.Executed() && r.Reference != "" })
		if !saysSo {
			return refuse(ContradictsPSP,
				"That id of the PSP's belongs to another payment or refund. Name the right one as pspId.")
		}
		id = payment.OperatorPSPID + s.DeadLetter.ID.String()
	}
	return Step{
		to: idempotency.CompletedStatus, verdict: payment.Verdict{Status: payment.Succeeded, PSPID: id},
		note: idempotency.Note{Actor: string(SourceOperator), Reason: "an operator says: executed"},
	}
}

// judgeNotExecuted releases the key, so that the client may execute it again. It needs an answer that the PSP gives
// now, after the grace period; with two steps, the PSP must have ended the request. Without such an answer, the
// client's next retry could charge a second time. It is refused while the PSP lists money that moved under the key,
// whatever for. If the PSP has declined something else than was asked, the key is completed as declined: the PSP would
// give the same record to every retry (ADR 0018).
func judgeNotExecuted(s Seen, d OperatorDecision) Step {
	note := idempotency.Note{Actor: string(SourceOperator), Reason: "an operator and the PSP say: not executed"}
	if r, is := s.declinedOtherwise(d); is {
		v := payment.Verdict{Status: payment.Declined, PSPID: r.ID, Code: r.DeclineCode}
		if s.IDTaken {
			v.PSPID = "" // Another row has this id. A decline does not need it.
		}
		return Step{to: idempotency.CompletedStatus, verdict: v, note: note}
	}
	if r, known := s.pspKnows(d); known {
		return refuse(ContradictsPSP, "The PSP knows it, as %s (%s). Use retry, or executed.", r.ID, r.Status)
	}
	if r, moved := s.executedElsewhere(d); moved {
		return refuse(ContradictsPSP,
			"The PSP lists %s under this key, for %s: money has moved under the key. Find out for what.", r.ID,
			r.Reference)
	}
	if id := s.DeadLetter.Executed; id != "" {
		return refuse(ContradictsPSP,
			"In the dead letter's evidence, the PSP has executed it, as %s. Use executed, or retry if that was wrong.",
			id)
	}
	return s.release(d, note)
}

// release is the step of judgeNotExecuted if no record speaks against it.
func (s Seen) release(d OperatorDecision, note idempotency.Note) Step {
	if _, silent := d.Answer.(gateway.LookupFailed); silent {
		return refuse(NoFreshProof,
			"The PSP does not say that it knows nothing of it: no fresh proof. Ask again later.")
	}
	waiting, waits := d.Answer.(gateway.Waiting)
	ended, _ := d.Answer.(gateway.NotFound)
	// A preview only reads. The decision itself has a PSP with two steps cancel the request.
	cancels := d.Preview && s.charge().TwoSteps && !ended.Final && !waiting.Kept
	switch {
	case waits && !cancels:
		return refuse(ContradictsPSP, "The PSP has it, and may still execute it: %s. Wait for its outcome.",
			waiting.Reason)
	case s.GraceLeft > 0 && !ended.Final && !cancels:
		return refuse(GraceOpen,
			"The PSP knows nothing of it yet, but what was sent may still arrive there. Ask again after the grace period.")
	case s.OtherHeld != "":
		return refuse(NotApplicable,
			"Another dead letter about the same key is open: %s. Decide about that one first. A retry may open it again.",
			s.OtherHeld)
	case s.charge().TwoSteps && !ended.Final && !cancels:
		return refuse(Conflict,
			"The PSP was not asked to cancel it, because another dead letter was open then. Decide once more.")
	}
	return Step{
		to: idempotency.FailedRetryableStatus, proof: idempotency.Proof{ByOperator: true, Final: ended.Final},
		cancels: cancels, verdict: payment.Verdict{Status: payment.Failed}, note: note,
	}
}

// judgeRetry repeats the work that the dead letter is about: a webhook, a job, a lookup or a record. If that fails
// again, a new dead letter is opened.
func judgeRetry(s Seen) Step {
	l, unknown := s.DeadLetter, s.stands() && s.Status == idempotency.UnknownStatus
	discarded := l.Kind == deadletters.JobDiscarded
	switch {
	case discarded && unknown: // The lookup below makes a job; the old one would be a second.
	case l.EventID != "" && (discarded || l.Kind == deadletters.WebhookUnmatched):
		return Step{again: &Again{EventID: l.EventID}}
	case l.JobID != 0 && discarded:
		return Step{again: &Again{JobID: l.JobID}}
	}
	switch {
	case unknown:
		return Step{
			askAgain: &Wait{}, note: idempotency.Note{Actor: string(SourceOperator),
				Reason: "an operator has it looked up again"},
		}
	case s.stands() && s.Status == idempotency.InProgressStatus:
		return refuse(NotApplicable, "The dead letter's key is being executed at this moment. Wait until that is over.")
	case l.Kind == deadletters.OtherAccount:
		return refuse(NotApplicable,
			"The record came from another account or PSP than the tenant's. Judging it again would change nothing.")
	case l.Record != nil:
		return Step{again: &Again{Record: l.Record}}
	case s.stands():
		return refuse(NotApplicable,
			"The dead letter's key is %s: there is nothing left to find out. Dismiss the dead letter when you have seen to it.", s.Status)
	}
	return refuse(NotApplicable,
		"There is nothing in this dead letter that could be tried again. Dismiss it when you have seen to it.")
}

// judgeDismissal closes the dead letter and changes nothing else. It refuses if the key is not final and no other dead
// letter holds it, because then nobody would take care of the key. The webhook of a discarded job is given up.
func judgeDismissal(s Seen) Step {
	unknown, running := s.Status == idempotency.UnknownStatus, s.Status == idempotency.InProgressStatus
	if s.stands() && (running || unknown && s.OtherHeld == "") {
		return refuse(NeedsDecision,
			"The dead letter's key is %s, so that something must be decided: retry, executed or not_executed.",
			s.Status)
	}
	if s.DeadLetter.Kind == deadletters.JobDiscarded {
		return Step{forget: s.DeadLetter.EventID}
	}
	return Step{}
}

// FreedByRetry reports whether the step of a retry ends a hold of a key that may be executed.
func (s Seen) FreedByRetry(step Step) bool {
	return step.again != nil && step.again.Record != nil && s.DeadLetter.About != nil &&
		(!s.stands() || s.Status != idempotency.CompletedStatus)
}

// Refuse is why an operator's decision is refused, or nil. A decision that is not refused closes its dead letter.
func (s Step) Refuse() *Refusal { return s.refuse }

// Ask reports whether the PSP must be asked before an operator's decision is judged.
func (s Step) Ask() bool { return s.ask }

// Again is what an operator's decision must do once more.
func (s Step) Again() *Again { return s.again }

// Forget is the id of a stored webhook that nobody needs any more after an operator's decision.
func (s Step) Forget() string { return s.forget }
