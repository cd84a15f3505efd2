package payments

import (
	"time"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
)

// judge decides what evidence means for a key. It is pure: it has no clock, no database and no random number.
// docs/reconciliation.md shows its decisions as a table. Package gateway says what a reply or a record means for our
// request (an Outcome); judge says what follows for the key (a Step). evidence.go has Evidence and Step, seen.go has
// Seen, what was read. Of its methods, ours says that the key's row still belongs to this movement; open, that it has
// no final response besides; inHand, that it is in progress under this very attempt. The rules for operators are in
// decide.go, those for settlement files in breaks.go.
func judge(p LookupPolicy, s Seen, e Evidence) Step {
	switch e := e.(type) {
	case Reply:
		return judgeReply(s, e)
	case Record:
		return judgeRecord(p, s, e)
	case Nothing:
		return judgeNothing(p, s, e)
	case Waiting:
		return judgeWaiting(p, s, e)
	case NoAnswer:
		return judgeNoAnswer(p, s, e)
	case OperatorDecision:
		return judgeOperatorDecision(s, e)
	case Break:
		return judgeBreak(s, e)
	}
	return Step{}
}

// judgeReply is for the reply to the request's own call. The lease may be over. That does not matter as long as nobody
// has acted on its end: a reply is better than no reply. If somebody has, the reply is late.
func judgeReply(s Seen, e Reply) Step {
	if !s.inHand(e) {
		return judgeLateReply(s, e)
	}
	switch o := e.Outcome.(type) {
	case gateway.Succeeded:
		if s.IDTaken {
			return s.lose(namedTwice(o))
		}
		return Step{To: idempotency.CompletedStatus, ByOwner: true,
			Verdict: payment.Verdict{Status: payment.Succeeded, PSPID: o.ID}}
	case gateway.Declined:
		switch {
		case s.IDTaken:
			return s.lose(namedTwice(o))
		case s.Charged:
			return s.lose(declinedThoughCharged(o))
		}
		return s.refused(Step{To: idempotency.CompletedStatus, ByOwner: true,
			Verdict: payment.Verdict{Status: payment.Declined, PSPID: o.ID, Code: o.Code}}, SourceOwner)
	case gateway.NotExecuted:
		if s.Held {
			return s.lose(gateway.Indeterminate{Reason: o.Reason + "; an operator has the case"})
		}
		return Step{
			To: idempotency.FailedRetryableStatus, ByOwner: true, Verdict: payment.Verdict{Status: payment.Failed},
			Note: &idempotency.Note{Actor: string(SourceOwner), Reason: o.Reason},
		}
	case gateway.Pending:
		return s.lose(gateway.Indeterminate{Reason: "the PSP waits: " + o.Reason})
	case gateway.Indeterminate:
		return s.lose(o)
	}
	return Step{}
}

// lose is the step of an owner who does not know whether the request was executed. It is also the step of an owner
// whose reply contradicts something, or who may not release the key because a dead letter holds it. The key becomes
// unknown.
func (s Seen) lose(o gateway.Indeterminate) Step {
	step := Step{
		To: idempotency.UnknownStatus, ByOwner: true,
		Note: &idempotency.Note{Actor: string(SourceOwner), Reason: o.Reason, Evidence: forTimeline(o)},
	}
	if o.Contradiction {
		step.Open = s.contradiction(o.ID, o.Reason, o.Evidence)
	}
	return step
}

// judgeLateReply is for a reply that arrives after somebody else has moved the key. A contradiction is judged like a
// record. A success is judged like a record, too, unless a later attempt has begun. Any other late reply is ignored,
// because a lookup will find the outcome.
func judgeLateReply(s Seen, e Reply) Step {
	switch o := e.Outcome.(type) {
	case gateway.Succeeded:
		if s.open() && s.Status != idempotency.FailedRetryableStatus && s.Key.Attempt != e.Attempt && !s.twoSteps() {
			return Step{LeftAlone: true} // A later attempt has begun, and gets the same result from the PSP.
		}
		return judgeOutcome(s, report{
			source: SourceOwner, outcome: o, id: o.ID, moved: true,
			record: ownerRecord(payment.Verdict{Status: payment.Succeeded, PSPID: o.ID}),
		})
	case gateway.Indeterminate:
		if o.Contradiction {
			return judgeOutcome(s, report{source: SourceOwner, outcome: o, id: o.ID,
				moved: !hasStatus(o.Evidence, "declined"), whole: o.Evidence})
		}
	case gateway.Declined, gateway.NotExecuted, gateway.Pending:
	}
	return Step{}
}

// judgeRecord is for a record of the PSP's ledger.
func judgeRecord(p LookupPolicy, s Seen, e Record) Step {
	r := e.Record
	t := report{source: e.Source, object: r.Object, id: r.ID, moved: r.Executed(), record: r.Evidence()}
	switch {
	case s.ofAnotherProgram(r), s.changedBy(e):
		return judgeOutside(s, t, r)
	case !t.moved && (!s.known() || s.elsewhere(e)):
		return Step{} // A decline that is not about this account of ours: no money has moved.
	case !s.known():
		return Step{Open: s.foundRecord(deadletters.UnknownMovement, r.Account, t,
			"the PSP has a "+string(r.Object)+" that nothing of ours asked for", s.named())}
	case s.elsewhere(e):
		// The record belongs to another tenant, so nothing of it may appear in this tenant's timeline.
		return Step{Open: s.foundRecord(deadletters.OtherAccount, r.Account, t,
			"the PSP names one tenant's "+string(r.Object)+" under another's account", false)}
	case e.Source == SourceScan && s.atWork() && s.lookedUp(r):
		return Step{LeftAlone: true} // The owner or a lookup is at work. The scan is for what both have missed.
	}
	if s.ofAnotherAttempt(r) && e.Source != SourceLookup { // A lookup finds declines of this attempt alone.
		return Step{} // The attempt that the PSP has declined was given up, and its object cancelled.
	}
	t.outcome = s.Request.Judge(r)
	step := s.counting(judgeOutcome(s, t), r)
	if e.Source == SourceLookup && step.Open != nil && s.ours() && s.Status == idempotency.UnknownStatus && !s.Woken {
		step.AskAgain = &Wait{After: p.Recheck}
		step.Note = lookupNote("the PSP's record contradicts the request; an operator has the case")
	}
	return step
}

// judgeOutcome compares an outcome with the state of the key. It does not matter who brings the outcome.
func judgeOutcome(s Seen, t report) Step {
	v, isVerdict := payment.VerdictOf(t.outcome)
	if isVerdict && s.IDTaken {
		if d, declined := t.outcome.(gateway.Declined); declined {
			v.PSPID, t.outcome = "", gateway.Declined{Code: d.Code}
		} else {
			t.outcome, isVerdict = namedTwice(t.outcome), false
		}
	}
	switch {
	case s.open() && !isVerdict:
		return Step{Open: s.contradiction(t.id, "the PSP's record contradicts the request: "+reasonOf(t.outcome),
			t.kept())}
	case s.open() && s.ShareGone:
		return Step{Open: s.foundRecord(deadletters.RefundExceeds, s.Account, t,
			"the PSP has a refund whose share of the payment another refund has reserved", true)}
	case s.open() && v.Status == payment.Declined && s.Charged:
		return Step{Open: s.contradiction(t.id,
			"the PSP says declined, and an open dead letter of the key says that money moved", t.kept())}
	case s.open():
		return s.refused(Step{To: idempotency.CompletedStatus, Verdict: v, Note: &idempotency.Note{
			Actor: string(t.source), Reason: "the PSP says " + t.outcome.Label(), Evidence: t.record,
		}}, t.source)
	}
	return judgeFinished(s, t, v, isVerdict)
}

// judgeFinished is for a key that is final, or belongs to another payment by now. The evidence is compared with the row
// of the payment or refund.
func judgeFinished(s Seen, t report, v payment.Verdict, isVerdict bool) Step {
	known := s.Row
	switch {
	case isVerdict && known.ConfirmedBy(v):
		return s.confirm(t, v)
	case !t.moved && known.Status != payment.Succeeded:
		return Step{} // Nobody says that money has moved.
	case known.Status == payment.Succeeded && v.Status == payment.Succeeded && isVerdict:
		return Step{Open: s.foundRecord(deadletters.DuplicateMovement, s.Account, t,
			"the PSP has executed it twice, the second time as "+v.PSPID, true)}
	case known.Status == payment.Succeeded || known.Status == payment.Declined:
		return Step{Open: s.foundRecord(deadletters.ContradictsCompleted, s.Account, t,
			"the PSP's record contradicts the result that was answered: "+reasonOf(t.outcome), true)}
	}
	return Step{Open: s.foundRecord(deadletters.LateAfterExpiry, s.Account, t,
		"the movement was found after its key had expired without an execution", true)}
}

// confirm is the step for evidence that says what is known already. A webhook leaves a line in the timeline. A scan
// does not: it would leave one for every payment. If an operator has vouched for the payment without knowing the PSP's
// id, the row gets that id now. The stored response does not change.
func (s Seen) confirm(t report, v payment.Verdict) (step Step) {
	if s.Row.PSPID != v.PSPID {
		step.Named = v.PSPID
	}
	if t.source == SourceWebhook && s.ours() {
		step.Note = &idempotency.Note{Actor: string(t.source), Reason: "the PSP confirms: " + t.outcome.Label(),
			Evidence: t.record}
	}
	return step
}

// judgeNothing is for a lookup that has found nothing. That is proof of non-execution if the PSP has ended the request,
// or, if it executes in one step, was asked after the grace period and still remembered the key. A key is released only
// so often, though.
func judgeNothing(p LookupPolicy, s Seen, e Nothing) Step {
	switch {
	case !s.ours() || s.Status != idempotency.UnknownStatus:
		return Step{}
	case s.Held:
		return Step{AskAgain: &Wait{After: p.Recheck},
			Note: lookupNote("the PSP has nothing; an operator has the case")}
	case s.GraceLeft > 0 && !e.Final:
		wait := max(min(s.GraceLeft, shortened(p.Cap, e.Chance)), time.Millisecond)
		return Step{AskAgain: &Wait{After: wait}, Note: lookupNote("the PSP has nothing, and could still execute it")}
	case s.MemoryOver && !e.Final:
		return Step{AskAgain: &Wait{After: p.Recheck},
			Note: lookupNote("the PSP may have forgotten the key; an operator has the case"),
			Open: s.byKey(deadletters.PSPMemoryOver, "the PSP finds nothing, but the key is older than its memory", nil)}
	case s.twoSteps() && !e.Final: // A confirmation may still be on its way.
		return judgeNoAnswer(p, s, NoAnswer{Reason: "the PSP has not ended it", Chance: e.Chance})
	case s.Key.Attempt >= mostAttempts:
		return lostTooOften(p, s)
	case e.Final:
		return Step{
			To: idempotency.FailedRetryableStatus, Final: true, Verdict: payment.Verdict{Status: payment.Failed},
			Note: lookupNote("the PSP has cancelled it: not executed"),
		}
	}
	return Step{
		To: idempotency.FailedRetryableStatus, Verdict: payment.Verdict{Status: payment.Failed},
		Note: lookupNote("the PSP has nothing after the grace period: not executed"),
	}
}
