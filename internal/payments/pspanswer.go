package payments

import (
	"slices"

	"payonce/internal/gateway"
)

// How judge reads the PSP's answer to the lookup that an operator's decision makes.

// ownRecords are the PSP's records under the key that refer to this movement, or have no reference. A record of
// something else is ignored, because the operator must be able to close this case.
func (s Seen) ownRecords(d OperatorDecision) []gateway.Record {
	found, _ := d.Answer.(gateway.Found)
	return slices.DeleteFunc(slices.Clone(found.Records), s.foreign)
}

// confirmed reports whether all that is known says that the movement was executed once, as it was asked: the PSP has
// one record of it, nothing else was executed under its key, and the dead letter's evidence names no other id.
func (s Seen) confirmed(d OperatorDecision) bool {
	own := s.ownRecords(d)
	if len(own) != 1 || s.executedElsewhere(d) || s.DeadLetter.PSPID != "" && s.DeadLetter.PSPID != own[0].ID {
		return false
	}
	_, asAsked := s.Request.Judge(own[0]).(gateway.Succeeded)
	return asAsked
}

// pspKnows returns a record that shows that the PSP knows this movement. A declined record does not count if the PSP
// also lists, under the same key, an executed record of something else. Then the PSP contradicts itself, and the
// operator decides.
func (s Seen) pspKnows(d OperatorDecision) (r gateway.Record, known bool) {
	own := s.ownRecords(d)
	if i := slices.IndexFunc(own, gateway.Record.Executed); i >= 0 {
		return own[i], true
	}
	if len(own) == 0 || s.executedElsewhere(d) {
		return gateway.Record{}, false
	}
	return own[0], true
}

// declinedOtherwise returns the PSP's record if all that the PSP has of this movement are declines, and none of them is
// of what was asked. For example, the PSP has tried a refund on another charge, and declined it there. A retry would
// find the same contradiction again.
func (s Seen) declinedOtherwise(d OperatorDecision) (r gateway.Record, is bool) {
	own := s.ownRecords(d)
	if len(own) == 0 || s.Charged || s.executedElsewhere(d) {
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

// executedElsewhere reports whether the PSP lists, under this key, money that moved for something else.
func (s Seen) executedElsewhere(d OperatorDecision) bool {
	found, _ := d.Answer.(gateway.Found)
	return slices.ContainsFunc(found.Records, func(r gateway.Record) bool { return r.Executed() && s.foreign(r) })
}

// refersElsewhere returns the reference of the PSP's record with that id, if it is about something other than this
// movement.
func (s Seen) refersElsewhere(d OperatorDecision, id string) (reference string, elsewhere bool) {
	found, _ := d.Answer.(gateway.Found)
	for _, r := range slices.Concat(found.Records, d.Others) {
		if r.ID == id && s.foreign(r) {
			return r.Reference, true
		}
	}
	return "", false
}

// foreign reports whether a record has a reference, and the reference is not this movement's id.
func (s Seen) foreign(r gateway.Record) bool {
	id, ok := subjectOf(r)
	return r.Reference != "" && (!ok || id != s.Own.Subject)
}
