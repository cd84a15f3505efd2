package payments

import (
	"fmt"
	"slices"

	"github.com/google/uuid"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
)

// OperatorPSPID begins the id of a movement for which an operator vouches and the PSP gives no name.
const OperatorPSPID = "operator:"

// Decision is what an operator decides about a dead letter.
type Decision struct {
	Action  deadletters.Action
	Version int32 // of the dead letter, as the operator has seen it
	// PSPID is the PSP's id of a movement that the operator calls executed, where the operator knows it; else "".
	PSPID string
	// Answer is what the PSP has said of the key, when it was asked about this decision; nil before.
	Answer gateway.Lookup
	// Others are records under the key that refer to an earlier payment of the same key. They are not in Answer.
	Others []gateway.Record
}

// LetterSeen is the dead letter that a decision is about, and what its evidence names.
type LetterSeen struct {
	ID         uuid.UUID
	Kind       deadletters.Kind
	Version    int32
	Resolution *deadletters.Resolution // nil while it is open
	AboutKey   bool

	JobID   int64  // of a job that was given up; 0 if it names none
	EventID string // of a stored webhook; "" if it names none
	Record  []byte // a record of the PSP's ledger, as JSON that gateway.ParseRecord takes; nil if it holds none
	PSPID   string // the id of a movement that is this one's, as far as one can tell, and no refusal; "" if it names none
}

// Again is what a retry has done once more, if it is not the lookup of the key: one of the three.
type Again struct {
	EventID string
	JobID   int64
	Record  []byte
}

// Refusal is why a decision is not carried out. Nothing has moved then.
type Refusal struct {
	Ground Ground
	Detail string // for the operator's eyes
}

// Ground is why a decision was refused.
type Ground string

// The grounds of refusals.
const (
	// Conflict: the dead letter, or its key, is not what the operator has seen any more.
	Conflict Ground = "conflict"
	// ContradictsPSP: the PSP says the opposite.
	ContradictsPSP Ground = "contradicts_psp"
	// NoFreshProof: the PSP does not answer, and the decision needs its word.
	NoFreshProof Ground = "no_fresh_proof"
	// WindowOpen: the PSP finds nothing yet, and what was sent may still arrive there.
	WindowOpen Ground = "settle_window_open"
	// NeedsDecision: the key is open, so that doing nothing is no answer.
	NeedsDecision Ground = "needs_decision"
	// NotApplicable: the action makes no sense for this dead letter.
	NotApplicable Ground = "not_applicable"
)

func refuse(g Ground, format string, args ...any) Step {
	return Step{Refuse: &Refusal{Ground: g, Detail: fmt.Sprintf(format, args...)}}
}

// judgeDecision carries out what an operator decides, unless the PSP knows better.
func judgeDecision(s Seen, d Decision) Step {
	switch l := s.Letter; {
	case l == nil:
		return refuse(NotApplicable, "There is no letter to decide about.")
	case l.Resolution != nil:
		return refuse(Conflict, "%s has resolved this letter before, as %s.", l.Resolution.Actor, l.Resolution.Action)
	case l.Version != d.Version:
		return refuse(Conflict, "The letter has version %d, not %d.", l.Version, d.Version)
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

// judgeAboutMoney is for the two decisions that say whether money has moved. They are about an unknown key only: everything else is decided already, or
// not yet anybody's to decide.
func judgeAboutMoney(s Seen, d Decision) Step {
	switch {
	case !s.Letter.AboutKey:
		return refuse(NotApplicable, "This letter is about no key of ours, so that there is nothing to decide about one.")
	case !s.stands():
		return refuse(NotApplicable, "The letter's key is gone, or stands for something else by now.")
	case s.Status != idempotency.UnknownStatus:
		return refuse(NotApplicable, "The letter's key is %s. Only an unknown one can be decided about.", s.Status)
	case d.Answer == nil:
		return Step{Ask: true}
	case d.Action == deadletters.Executed:
		return judgeExecuted(s, d)
	}
	return judgeNotExecuted(s, d)
}

// stands reports whether the key's row, in whatever status, is of the movement.
func (s Seen) stands() bool {
	return s.Status != "" && s.Key.Generation == s.Own.Generation && s.Key.Subject == s.Own.Subject
}

// judgeExecuted completes the key as a success. The PSP overrules the operator where it knows better; where it is silent, the operator's word counts.
func judgeExecuted(s Seen, d Decision) Step {
	id, refusal := executedAs(s, d)
	if refusal != nil {
		return Step{Refuse: refusal}
	}
	if s.IDTaken {
		// The PSP has answered another payment with this one's id. The row cannot have the id, but its key must have an end. A record that refers
		// to nothing may be about the row that has its id.
		saysSo := slices.ContainsFunc(s.ownRecords(d), func(r gateway.Record) bool { return r.ID == id && r.Executed() && r.Reference != "" })
		if !saysSo {
			return refuse(ContradictsPSP, "That id of the PSP's belongs to another payment or refund. Name the right one as pspId.")
		}
		id = OperatorPSPID + s.Letter.ID.String()
	}
	return Step{
		To: idempotency.CompletedStatus, Verdict: verdict{status: Success, pspID: id},
		Note: &idempotency.Note{Actor: string(SourceOperator), Reason: "an operator says: executed"},
	}
}

// executedAs is the PSP's id under which a movement goes down as executed: that of the PSP's own record of it; else the one that the operator names,
// unless the PSP says that it is for something else; else one in the dead letter's evidence; else the dead letter's, which says that a human vouches.
func executedAs(s Seen, d Decision) (string, *Refusal) {
	own := s.ownRecords(d)
	executed := slices.DeleteFunc(slices.Clone(own), func(r gateway.Record) bool { return !r.Executed() })
	for _, r := range executed {
		if d.PSPID == "" || r.ID == d.PSPID {
			return r.ID, nil
		}
	}
	if len(executed) > 0 {
		return "", refuse(ContradictsPSP, "The PSP knows it as %s, not as %s.", executed[0].ID, d.PSPID).Refuse
	}
	declined := slices.ContainsFunc(own, func(r gateway.Record) bool {
		_, declined := s.Asked.Judge(r).(gateway.Declined)
		return declined
	})
	if declined && !s.executedElsewhere(d) {
		return "", refuse(ContradictsPSP, "The PSP says that it has declined it. Use retry, which settles it as declined.").Refuse
	}
	if reference, foreign := s.refersElsewhere(d, d.PSPID); foreign {
		return "", refuse(ContradictsPSP, "The PSP says that %s is for %s, not for this payment or refund.", d.PSPID, reference).Refuse
	}
	switch {
	case d.PSPID != "":
		return d.PSPID, nil
	case s.Letter.PSPID != "":
		return s.Letter.PSPID, nil
	}
	return OperatorPSPID + s.Letter.ID.String(), nil
}

// judgeNotExecuted releases the key, so that the client may execute it again. Only the PSP's own word, given just now and after the grace period,
// allows that: otherwise the next retry could charge twice.
func judgeNotExecuted(s Seen, d Decision) Step {
	if r, known := s.pspKnows(d); known {
		return refuse(ContradictsPSP, "The PSP knows it, as %s (%s). Use retry, or executed.", r.ID, r.Status)
	}
	if _, silent := d.Answer.(gateway.LookupFailed); silent {
		return refuse(NoFreshProof, "The PSP does not say that it knows nothing of it: no fresh proof. Ask again later.")
	}
	switch {
	case s.GraceLeft > 0:
		return refuse(WindowOpen, "The PSP knows nothing of it yet, but what was sent may still arrive there. Ask again after the settle window.")
	case s.OtherHeld != "":
		return refuse(NotApplicable, "Another letter about the same key is open: %s. Resolve that one by retry first.", s.OtherHeld)
	}
	return Step{
		To: idempotency.FailedRetryableStatus, ByOperator: true, Verdict: verdict{status: Failed},
		Note: &idempotency.Note{Actor: string(SourceOperator), Reason: "an operator says, and the PSP with him: not executed"},
	}
}

// judgeRetry has it found out once more: what the dead letter was about is done again, whatever that is. If it comes to the same end, that is a new
// dead letter.
func judgeRetry(s Seen) Step {
	l, unknown := s.Letter, s.stands() && s.Status == idempotency.UnknownStatus
	discarded := l.Kind == deadletters.JobDiscarded
	switch {
	case discarded && unknown: // a job is made for the key when it is due; the discarded one could meet it in the queue
	case l.EventID != "" && (discarded || l.Kind == deadletters.WebhookUnmatched):
		return Step{Again: &Again{EventID: l.EventID}}
	case l.JobID != 0 && discarded:
		return Step{Again: &Again{JobID: l.JobID}}
	}
	switch {
	case unknown:
		return Step{
			AskAgain: &Wait{}, Note: &idempotency.Note{Actor: string(SourceOperator), Reason: "an operator has it looked up again"},
		}
	case s.stands() && s.Status == idempotency.InProgressStatus:
		return refuse(NotApplicable, "The letter's key is being executed at this moment. Wait until that is over.")
	case l.Record != nil:
		return Step{Again: &Again{Record: l.Record}}
	case s.stands():
		return refuse(NotApplicable, "The letter's key is %s: there is nothing left to find out. Dismiss the letter when you have seen to it.", s.Status)
	}
	return refuse(NotApplicable, "There is nothing in this letter that could be tried again. Dismiss it when you have seen to it.")
}

// judgeDismissal moves nothing. It would leave an open key to nobody, unless another dead letter holds it. A webhook whose job was given up is not
// waited for any more.
func judgeDismissal(s Seen) Step {
	unknown, running := s.Status == idempotency.UnknownStatus, s.Status == idempotency.InProgressStatus
	if s.stands() && (running || unknown && s.OtherHeld == "") {
		return refuse(NeedsDecision, "The letter's key is %s, so that something must be decided: retry, executed or not_executed.", s.Status)
	}
	if s.Letter.Kind == deadletters.JobDiscarded {
		return Step{Forget: s.Letter.EventID}
	}
	return Step{}
}

// ownRecords are the PSP's records under the key that refer to this movement, or to nothing. A record that refers to something else says nothing of it
// to an operator, who has to be able to close the case.
func (s Seen) ownRecords(d Decision) []gateway.Record {
	found, _ := d.Answer.(gateway.Found)
	return slices.DeleteFunc(slices.Clone(found.Records), s.foreign)
}

// pspKnows gives the record by which the PSP says that it knows this movement. What it has declined does not count where it also lists under this key
// something executed that refers to something else: then it contradicts itself, and an operator has to decide.
func (s Seen) pspKnows(d Decision) (r gateway.Record, known bool) {
	own := s.ownRecords(d)
	if i := slices.IndexFunc(own, gateway.Record.Executed); i >= 0 {
		return own[i], true
	}
	if len(own) == 0 || s.executedElsewhere(d) {
		return gateway.Record{}, false
	}
	return own[0], true
}

// executedElsewhere reports whether the PSP lists, under this key, money that moved for something else.
func (s Seen) executedElsewhere(d Decision) bool {
	found, _ := d.Answer.(gateway.Found)
	return slices.ContainsFunc(found.Records, func(r gateway.Record) bool { return r.Executed() && s.foreign(r) })
}

// refersElsewhere tells what the PSP's record of that id refers to, if that is something else than this movement.
func (s Seen) refersElsewhere(d Decision, id string) (reference string, elsewhere bool) {
	found, _ := d.Answer.(gateway.Found)
	for _, r := range slices.Concat(found.Records, d.Others) {
		if r.ID == id && s.foreign(r) {
			return r.Reference, true
		}
	}
	return "", false
}

func (s Seen) foreign(r gateway.Record) bool {
	id, ok := subjectOf(r)
	return r.Reference != "" && (!ok || id != s.Own.Subject)
}
