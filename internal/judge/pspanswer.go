package judge

import (
	"cmp"
	"slices"

	"payonce/internal/gateway"
	"payonce/internal/payment"
)

// How judge reads the PSP's answer to the lookup that an operator's decision makes.

// ownRecords are the PSP's records under the key that refer to this movement, or have no reference. A record of
// something else is ignored, because the operator must be able to close this case.
func (s Seen) ownRecords(d OperatorDecision) []gateway.Record {
	found, _ := d.Answer.(gateway.Found)
	return slices.DeleteFunc(slices.Clone(found.Records), s.ofAnother)
}

// confirmed reports whether all that is known says that the movement was executed once, as it was asked: the PSP has
// one record of it, nothing else was executed under its key, and the dead letter's evidence names no other id.
func (s Seen) confirmed(d OperatorDecision) bool {
	own := s.ownRecords(d)
	_, elsewhere := s.executedElsewhere(d)
	if len(own) != 1 || elsewhere || s.DeadLetter.PSPID != "" && s.DeadLetter.PSPID != own[0].ID {
		return false
	}
	_, asAsked := s.Request.Judge(own[0]).(gateway.Succeeded)
	return asAsked
}

// pspKnows returns a record that shows that the PSP knows this movement, an executed one if there is one.
func (s Seen) pspKnows(d OperatorDecision) (r gateway.Record, known bool) {
	own := s.ownRecords(d)
	if i := slices.IndexFunc(own, gateway.Record.Executed); i >= 0 {
		return own[i], true
	}
	if len(own) == 0 {
		return gateway.Record{}, false
	}
	return own[0], true
}

// nothingExecuted reports whether the PSP has answered, and has no record of this movement, and none of money that
// moved for something else under its key.
func (s Seen) nothingExecuted(d OperatorDecision) bool {
	if _, elsewhere := s.executedElsewhere(d); elsewhere {
		return false
	}
	switch d.Answer.(type) {
	case gateway.NotFound:
		return true
	case gateway.Found:
		return len(s.ownRecords(d)) == 0
	case gateway.Waiting, gateway.LookupFailed:
	}
	return false
}

// declinedOtherwise returns the PSP's record if all that the PSP has of this movement are declines, and none of them is
// of what was asked. For example, the PSP has tried a refund on another charge, and declined it there. A retry would
// find the same contradiction again.
func (s Seen) declinedOtherwise(d OperatorDecision) (r gateway.Record, is bool) {
	own := s.ownRecords(d)
	if _, elsewhere := s.executedElsewhere(d); len(own) == 0 || s.Charged || elsewhere {
		return gateway.Record{}, false
	}
	for _, r := range own {
		_, asAsked := s.Request.Judge(r).(gateway.Declined)
		if r.Executed() || asAsked {
			return gateway.Record{}, false
		}
	}
	return own[0], true
}

// executedElsewhere returns a record by which the PSP says that money has moved under this key for something else. If
// it is for an earlier payment of ours that had the key, it counts only while our books do not say the same.
func (s Seen) executedElsewhere(d OperatorDecision) (r gateway.Record, is bool) {
	found, _ := d.Answer.(gateway.Found)
	for _, r := range slices.Concat(found.Records, d.Unbooked) {
		if r.Executed() && s.ofAnother(r) {
			return r, true
		}
	}
	return gateway.Record{}, false
}

// refersElsewhere returns the reference of the PSP's record with that id, if it is about something other than this
// movement.
func (s Seen) refersElsewhere(d OperatorDecision, id string) (reference string, elsewhere bool) {
	found, _ := d.Answer.(gateway.Found)
	for _, r := range slices.Concat(found.Records, d.Others) {
		if r.ID == id && s.ofAnother(r) {
			return r.Reference, true
		}
	}
	return "", false
}

// ofAnother reports whether a record has a reference, and the reference is not this movement's id.
func (s Seen) ofAnother(r gateway.Record) bool {
	id, ok := payment.SubjectOf(r.Object, r.Reference)
	return r.Reference != "" && (!ok || id != s.Own.Subject)
}

// executedAs is the id that is written for a movement that an operator calls executed. It is the first of these:
//   - the id of the PSP's own record of the movement
//   - the id of the object that the PSP has made for the movement, if it executes in two steps
//   - an id that the PSP names together with the movement's key or reference, in the evidence of the dead letter
//   - an id of our own, with the id that the operator names, the id in the evidence, or the dead letter's id
//
// An id of our own is replaced by the first record of the PSP that confirms the movement. No money is returned before.
func executedAs(s Seen, d OperatorDecision) (string, *Refusal) {
	own := s.ownRecords(d)
	executed := slices.DeleteFunc(slices.Clone(own), func(r gateway.Record) bool { return !r.Executed() })
	for _, r := range executed {
		if d.PSPID == "" || r.ID == d.PSPID {
			return r.ID, nil
		}
	}
	if len(executed) > 0 {
		return "", refuse(ContradictsPSP, "The PSP knows it as %s, not as %s.", executed[0].ID, d.PSPID).refuse
	}
	declined := slices.ContainsFunc(own, func(r gateway.Record) bool {
		_, declined := s.Request.Judge(r).(gateway.Declined)
		return declined
	})
	if _, elsewhere := s.executedElsewhere(d); declined && !elsewhere {
		return "", refuse(ContradictsPSP,
			"The PSP says that it has declined it. Use retry, which resolves it as declined.").refuse
	}
	if reference, foreign := s.refersElsewhere(d, d.PSPID); foreign {
		return "", refuse(ContradictsPSP, "The PSP says that %s is for %s, not for this payment or refund.", d.PSPID,
			reference).refuse
	}
	l, object := s.DeadLetter, s.charge().ObjectID
	_, foreign := s.refersElsewhere(d, object)
	switch {
	case object != "" && d.PSPID != "" && d.PSPID != object:
		return "", refuse(ContradictsPSP,
			"The PSP has made %s for this payment, and executes nothing else for it. Name that id as pspId, or none.",
			object).refuse
	case object != "" && !foreign:
		return object, nil
	case l.ByMark && (d.PSPID == "" || d.PSPID == l.PSPID):
		return l.PSPID, nil
	}
	return payment.OperatorPSPID + cmp.Or(d.PSPID, l.PSPID, l.ID.String()), nil
}
