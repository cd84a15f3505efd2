package judge

import (
	"github.com/go-json-experiment/json"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
)

// Reply is the reply to the request's own call of the PSP. It may be late.
type Reply struct {
	Attempt int32
	Outcome gateway.Outcome
}

// The lease may be over. That does not matter as long as nobody has acted on its end: a reply is better than no reply.
// If somebody has, the reply is late.
func (e Reply) judge(s Seen) Step {
	if !s.InHand(e) {
		return e.judgeLate(s)
	}
	switch o := e.Outcome.(type) {
	case gateway.Succeeded:
		if s.IDTaken {
			return s.lose(unwritable(o, namedTwice))
		}
		return Step{to: idempotency.CompletedStatus, byOwner: true,
			verdict: payment.Verdict{Status: payment.Succeeded, PSPID: o.ID}}
	case gateway.Declined:
		switch {
		case s.IDTaken:
			return s.lose(unwritable(o, namedTwice))
		case s.Charged:
			return s.lose(unwritable(o, declinedAlthoughMoved))
		}
		return Step{to: idempotency.CompletedStatus, byOwner: true,
			verdict: payment.Verdict{Status: payment.Declined, PSPID: o.ID, Code: o.Code}}
	case gateway.NotExecuted:
		if s.Held {
			return s.lose(gateway.Indeterminate{Reason: o.Reason + "; an operator has the case"})
		}
		return Step{
			to: idempotency.FailedRetryableStatus, byOwner: true, verdict: payment.Verdict{Status: payment.Failed},
			note: idempotency.Note{Actor: string(SourceOwner), Reason: o.Reason},
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
		to: idempotency.UnknownStatus, byOwner: true,
		note: idempotency.Note{Actor: string(SourceOwner), Reason: o.Reason, Evidence: forTimeline(o)},
	}
	if o.Contradiction {
		step.open = s.contradiction(o.ID, o.Reason, o.Evidence)
	}
	return step
}

// judgeLate is for a reply that arrives after somebody else has moved the key. A contradiction is judged like a
// record. A success is judged like a record, too, unless a later attempt has begun. Any other late reply is ignored,
// because a lookup will find the outcome.
func (e Reply) judgeLate(s Seen) Step {
	switch o := e.Outcome.(type) {
	case gateway.Succeeded:
		if s.unfinished() && s.Status != idempotency.FailedRetryableStatus && s.Key.Attempt != e.Attempt &&
			!s.charge().TwoSteps {
			return Step{leftAlone: true} // A later attempt has begun, and gets the same result from the PSP.
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

// ownerRecord is the owner's verdict as evidence, with the member names of the PSP's records.
func ownerRecord(v payment.Verdict) []byte {
	raw, err := json.Marshal(struct {
		ID     string         `json:"id"`
		Status payment.Status `json:"status"`
	}{v.PSPID, v.Status})
	if err != nil {
		return nil // This cannot happen: package gateway has checked the id.
	}
	return raw
}

// Why a verdict contradicts what is known. In the first case, its PSP id already belongs to another payment or refund
// of ours.
const (
	namedTwice            = "answer names what the PSP did for another request"
	declinedAlthoughMoved = "the PSP says declined, and an open dead letter of the key says that money moved"
)

// unwritable is the outcome of a verdict that is not written, because it contradicts what is known.
func unwritable(o gateway.Outcome, reason string) gateway.Indeterminate {
	v, _ := payment.VerdictOf(o)
	return gateway.Indeterminate{Reason: reason, Contradiction: true, ID: v.PSPID,
		Evidence: evidenceOf(SourceOwner, ownerRecord(v))}
}

// forTimeline is the part of the evidence that the tenant may read. Evidence that contradicts the request may be about
// another tenant, so only the dead letter keeps it.
func forTimeline(o gateway.Indeterminate) []byte {
	if o.Contradiction {
		return nil
	}
	// Only the status is kept. The text of a PSP's error is not meant for our tenants.
	var kept struct {
		Status int `json:"status"`
	}
	if err := json.Unmarshal(o.Evidence, &kept); err != nil || kept.Status == 0 {
		return nil
	}
	raw, _ := json.Marshal(kept) // a number cannot fail
	return raw
}
