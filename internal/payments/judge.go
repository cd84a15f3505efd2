package payments

import (
	"time"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
)

// judge says what evidence does to a key. It is the only place that does, and pure: no clock, no database, no random number. The table of its rows is
// docs/reconciliation.md.
func judge(p Patience, s Seen, e Evidence) Step {
	switch e := e.(type) {
	case Reply:
		return judgeReply(s, e)
	case Record:
		return judgeRecord(p, s, e)
	case Nothing:
		return judgeNothing(p, s, e)
	case NoAnswer:
		return judgeNoAnswer(p, s, e)
	case Decision:
		return judgeDecision(s, e)
	case Break:
		return judgeBreak(s, e)
	}
	return Step{}
}

// judgeReply is for the request's own reply, while the key still waits for this very attempt. The lease may be over: a reply in hand is better than
// none, as long as nobody has acted on the lease's end.
func judgeReply(s Seen, e Reply) Step {
	if !s.inHand(e) {
		return judgeLateReply(s, e)
	}
	switch o := e.Outcome.(type) {
	case gateway.Succeeded:
		if s.IDTaken {
			return s.lose(namedTwice(o))
		}
		return Step{To: idempotency.CompletedStatus, ByOwner: true, Verdict: verdict{status: Success, pspID: o.ID}}
	case gateway.Declined:
		switch {
		case s.IDTaken:
			return s.lose(namedTwice(o))
		case s.Charged:
			return s.lose(declinedThoughCharged(o))
		}
		return Step{To: idempotency.CompletedStatus, ByOwner: true, Verdict: verdict{status: Refused, pspID: o.ID, code: o.Code}}
	case gateway.NotExecuted:
		if s.Held {
			return s.lose(gateway.Indeterminate{Reason: o.Reason + "; an operator has the case"})
		}
		return Step{
			To: idempotency.FailedRetryableStatus, ByOwner: true, Verdict: verdict{status: Failed},
			Note: &idempotency.Note{Actor: string(SourceOwner), Reason: o.Reason},
		}
	case gateway.Indeterminate:
		return s.lose(o)
	}
	return Step{}
}

// lose is the step of an owner who does not know, or may not say, what came of the send.
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

// judgeLateReply is for a reply that comes when others have acted on the key. A success is evidence like a record. Everything else but a contradiction
// is left to those who have taken over.
func judgeLateReply(s Seen, e Reply) Step {
	switch o := e.Outcome.(type) {
	case gateway.Succeeded:
		if s.open() && s.Status != idempotency.FailedRetryableStatus && s.Key.Attempt != e.Attempt {
			return Step{LeftAlone: true} // a later attempt is under way, and the PSP tells it the same
		}
		return judgeOutcome(s, report{
			source: SourceOwner, outcome: o, id: o.ID, moved: true, record: inHand(verdict{status: Success, pspID: o.ID}),
		})
	case gateway.Indeterminate:
		if o.Contradiction {
			return judgeOutcome(s, report{source: SourceOwner, outcome: o, id: o.ID, moved: !tells(o.Evidence, "declined"), whole: o.Evidence})
		}
	case gateway.Declined, gateway.NotExecuted:
	}
	return Step{}
}

// judgeRecord is for a record of the PSP's ledger.
func judgeRecord(p Patience, s Seen, e Record) Step {
	r := e.Record
	t := report{source: e.Source, id: r.ID, moved: r.Executed(), record: r.Evidence()}
	switch {
	case !s.known() && !t.moved, s.known() && r.Account != s.Account && !t.moved:
		return Step{} // a refusal under nobody's name: no money has moved
	case !s.known():
		return Step{Open: s.foundRecord(deadletters.UnknownMovement, r.Account, t,
			"the PSP has a "+string(r.Object)+" that nothing of ours asked for", false)}
	case r.Account != s.Account:
		// Nothing of it goes into the tenant's timeline: it is somebody else's.
		return Step{Open: s.foundRecord(deadletters.OtherAccount, r.Account, t,
			"the PSP names one tenant's "+string(r.Object)+" under another's account", false)}
	case e.Source == SourceScan && s.atWork():
		return Step{LeftAlone: true} // the scan is for what the owner and the lookups have missed
	}
	t.outcome = s.Asked.Judge(r)
	step := judgeOutcome(s, t)
	if e.Source == SourceLookup && step.Open != nil && s.ours() && s.Status == idempotency.UnknownStatus && !s.Woken {
		step.AskAgain = &Wait{After: p.Recheck}
		step.Note = lookupNote("the PSP's record contradicts the request; an operator has the case")
	}
	return step
}

// judgeOutcome holds what was said against the key as it was seen: the same for everybody who brings it.
func judgeOutcome(s Seen, t report) Step {
	v, isVerdict := verdictOf(t.outcome)
	if isVerdict && s.IDTaken {
		if d, declined := t.outcome.(gateway.Declined); declined {
			v.pspID, t.outcome = "", gateway.Declined{Code: d.Code}
		} else {
			t.outcome, isVerdict = namedTwice(t.outcome), false
		}
	}
	switch {
	case s.open() && !isVerdict:
		return Step{Open: s.contradiction(t.id, "the PSP's record contradicts the request: "+reasonOf(t.outcome), t.kept())}
	case s.open() && s.ShareGone:
		return Step{Open: s.foundRecord(deadletters.RefundExceeds, s.Account, t,
			"a refund came to light whose share of the payment another one has claimed", true)}
	case s.open() && v.status == Refused && s.Charged:
		return Step{Open: s.contradiction(t.id, "the PSP says declined, and an open dead letter of the key says that money moved", t.kept())}
	case s.open():
		return Step{To: idempotency.CompletedStatus, Verdict: v, Note: &idempotency.Note{
			Actor: string(t.source), Reason: "the PSP says " + t.outcome.Label(), Evidence: t.record,
		}}
	}
	return judgeFinished(s, t, v, isVerdict)
}

// judgeFinished is for a key that is final, or stands for something else by now: the movement's row alone says what came of it.
func judgeFinished(s Seen, t report, v verdict, isVerdict bool) Step {
	known := s.Row
	switch {
	case isVerdict && known.confirmedBy(v):
		return s.confirm(t, v)
	case !t.moved && known.status != Success:
		return Step{} // nobody has moved any money
	case known.status == Success && v.status == Success && isVerdict:
		return Step{Open: s.foundRecord(deadletters.DuplicateMovement, s.Account, t,
			"the PSP has executed it twice, the second time as "+v.pspID, true)}
	case known.status == Success || known.status == Refused:
		return Step{Open: s.foundRecord(deadletters.ContradictsCompleted, s.Account, t,
			"the PSP's record contradicts the result that was answered: "+reasonOf(t.outcome), true)}
	}
	return Step{Open: s.foundRecord(deadletters.LateAfterExpiry, s.Account, t, "it came to light when its key had expired unexecuted", true)}
}

// confirm leaves a trace of a webhook in the key's timeline. A scan would leave one for every movement there is. A row for which an operator has vouched
// gets the id that the PSP knows it by; the stored response stays as it is.
func (s Seen) confirm(t report, v verdict) (step Step) {
	if s.Row.pspID != v.pspID {
		step.Named = v.pspID
	}
	if t.source == SourceWebhook && s.ours() {
		step.Note = &idempotency.Note{Actor: string(t.source), Reason: "the PSP confirms: " + t.outcome.Label(), Evidence: t.record}
	}
	return step
}

// judgeNothing is for a lookup that has found nothing. It is proof if the question was asked after the grace period, within the PSP's memory.
func judgeNothing(p Patience, s Seen, e Nothing) Step {
	switch {
	case !s.ours() || s.Status != idempotency.UnknownStatus:
		return Step{}
	case s.Held:
		return Step{AskAgain: &Wait{After: p.Recheck}, Note: lookupNote("the PSP has nothing; an operator has the case")}
	case s.GraceLeft > 0:
		wait := max(min(s.GraceLeft, shortened(p.Cap, e.Chance)), time.Millisecond)
		return Step{AskAgain: &Wait{After: wait}, Note: lookupNote("the PSP has nothing, and could still execute it")}
	case s.MemoryOver:
		return Step{
			AskAgain: &Wait{After: p.Recheck}, Note: lookupNote("the PSP may have forgotten the key; an operator has the case"),
			Open: s.byKey(deadletters.PSPMemoryOver, "the PSP finds nothing, but the key is older than its memory", nil),
		}
	}
	return Step{
		To: idempotency.FailedRetryableStatus, Verdict: verdict{status: Failed},
		Note: lookupNote("the PSP has nothing after the settle window: not executed"),
	}
}

// judgeNoAnswer waits longer each time, and calls an operator when the budget is spent. The budget is the PSP's: a question for which we had no place
// ourselves takes nothing of it.
func judgeNoAnswer(p Patience, s Seen, e NoAnswer) Step {
	if !s.ours() || s.Status != idempotency.UnknownStatus {
		return Step{}
	}
	reason, failures := "the PSP did not answer: "+e.Reason, s.Failures+1
	if e.NotAsked {
		reason, failures = "the PSP was not asked: "+e.Reason, s.Failures
	}
	switch {
	case s.Held:
		return Step{AskAgain: &Wait{After: p.Recheck, Failures: failures}, Note: lookupNote(reason)}
	case e.NotAsked:
		return Step{AskAgain: &Wait{After: shortened(p.Base, e.Chance), Failures: failures}, Note: lookupNote(reason)}
	case failures < p.Budget:
		return Step{AskAgain: &Wait{After: shortened(p.backoff(s.Failures), e.Chance), Failures: failures}, Note: lookupNote(reason)}
	}
	return Step{
		AskAgain: &Wait{After: p.Recheck, Failures: failures}, Note: lookupNote(reason + "; an operator has the case"),
		Open: s.byKey(deadletters.LookupsExhausted, exhausted(failures, e.Reason), nil),
	}
}

// backoff doubles with each failure, up to the cap.
func (p Patience) backoff(failures int32) time.Duration {
	wait := p.Base
	for ; failures > 0 && wait < p.Cap; failures-- {
		wait *= 2
	}
	return min(wait, p.Cap)
}

// shortened takes off up to a half, by a number from [0, 1).
func shortened(wait time.Duration, chance float64) time.Duration {
	return wait - time.Duration(chance*float64(wait)/2)
}
