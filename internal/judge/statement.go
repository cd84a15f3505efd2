package judge

import (
	"cmp"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/payment"
)

// Break is a difference between the PSP's statement of a day and our books.
type Break struct {
	Kind    BreakKind      `json:"kind"`
	Account string         `json:"account"`
	Day     time.Time      `json:"-"` // the day in whose run it was found, at 00:00 UTC
	Object  gateway.Object `json:"object"`
	PSPID   string         `json:"pspId"` // from the statement; for BreakMissingThere from our books
	// Subject is our payment or refund, if there is one. For BreakMissingHere it is the payment that the line changes.
	Subject *uuid.UUID `json:"-"`
	// ChargeID is the PSP's id of the charge that the line changes, for BreakMissingHere with a Subject.
	ChargeID string `json:"-"`
	// Reference is our id as the statement gives it. For BreakMissingThere it is our id as we write it.
	Reference string `json:"reference"`
	// OtherTenant is true if the reference belongs to a payment or refund of another tenant.
	OtherTenant bool      `json:"otherTenant"`
	Theirs      *Side     `json:"theirs"` // the statement's side; nil for BreakMissingThere
	Ours        *Side     `json:"ours"`   // our side; nil if Subject is nil. BreakStatus has both sides.
	Moved       time.Time `json:"movedAt"`
	// Listed: a statement has the movement after all. It is set for BreakMissingThere only.
	Listed bool `json:"-"`
}

// Side is what the statement, or our books, say about a movement.
type Side struct {
	AmountMinor int64  `json:"amountMinor"`
	Currency    string `json:"currency"`
	Status      string `json:"status,omitzero"` // theirs is "" if the program that wrote the break did not keep it
	PSPID       string `json:"pspId,omitzero"`  // set on our side only; "" if the row has none
}

// BreakKind names the difference between a statement and our books.
type BreakKind string

// The kinds of breaks.
const (
	// BreakMissingHere: the PSP has moved money for which this tenant has no payment or refund. Or others have changed
	// a payment of this tenant.
	BreakMissingHere BreakKind = "missing_here"
	// BreakMissingThere: a payment or refund of ours has succeeded, and none of the statements that could have it has
	// it.
	BreakMissingThere BreakKind = "missing_there"
	// BreakAmount and BreakCurrency: the statement and our books differ in it.
	BreakAmount   BreakKind = "amount"
	BreakCurrency BreakKind = "currency"
	// BreakStatus: the PSP has moved money for a movement that is declined, failed or still processing here. Or it
	// lists a movement as declined that has succeeded here.
	BreakStatus BreakKind = "status"
	// BreakDuplicate: another movement for a payment or refund of ours, or an id that the statement has more than once.
	BreakDuplicate BreakKind = "duplicate"
	// BreakPSPID: our movement has succeeded under another id of the PSP, or the id is listed with another reference.
	BreakPSPID BreakKind = "psp_id"
)

// BreakKinds are the kinds of breaks.
func BreakKinds() []BreakKind {
	return []BreakKind{BreakMissingHere, BreakMissingThere, BreakAmount, BreakCurrency, BreakStatus, BreakDuplicate,
		BreakPSPID}
}

// A difference in amount or currency is not judged here: such evidence comes from the ledger scan.
func (b Break) judge(s Seen) Step {
	rep := report{source: SourceStatement, account: b.Account, object: b.Object, id: b.PSPID,
		moved: b.Kind != BreakMissingThere, whole: b.kept(s)}
	object := string(b.Object)
	switch b.Kind {
	case BreakStatus:
		return judgeStatusBreak(s, b, rep)
	case BreakMissingHere:
		if s.Known() {
			return judgeChange(s, b, rep)
		}
		if b.OtherTenant {
			return Step{open: s.foundRecord(deadletters.OtherAccount, rep,
				"the PSP's statement names one tenant's "+object+" under another's account")}
		}
		return Step{open: s.foundRecord(deadletters.UnknownMovement, rep,
			"the PSP's statement has a "+object+" that nothing of ours asked for")}
	case BreakDuplicate:
		// It is not counted: the line may have our reference by mistake, and change another charge. The scan tells.
		return Step{open: s.foundRecord(deadletters.DuplicateMovement, rep,
			"the PSP's statement has a further "+object+" for one of ours")}
	case BreakPSPID:
		// This may be the only movement, under another id. So the dead letter must not suggest to give it back.
		return Step{open: s.foundRecord(deadletters.ContradictsCompleted, rep,
			"the PSP's statement has a "+object+" of ours under another id or reference than we know")}
	case BreakMissingThere:
		c := s.foundRecord(deadletters.MissingAtPSP, rep, "our "+object+
			" succeeded, and the PSP's statement does not have it")
		c.Finding = "missing " + b.Account + " " + b.Reference
		if b.Listed {
			c.Source = SourceStatement
			c.Reason = "The PSP's statement has the movement, so there is nothing left to decide."
			return Step{answer: c}
		}
		return Step{open: c}
	case BreakAmount, BreakCurrency:
	}
	return Step{}
}

// judgeChange is for a line about what others have done to a payment. If an operator has vouched for the payment, our
// books may not have the charge's id: the statement alone says that it is this payment's charge. No other source could
// tell what becomes of the change later. So nothing is stored, and an operator has a case for each status. It keeps no
// record, because a retry could not find the payment either.
func judgeChange(s Seen, b Break, rep report) Step {
	r := b.line()
	vouched := s.Row.VouchedFor() && b.ChargeID != s.charge().ObjectID
	switch {
	case !vouched:
		rep.record, rep.whole = r.Evidence(), nil
		return judgeElsewhere(s, rep, r)
	case r.Status == gateway.StatusDeclined:
		return Step{} // no money
	}
	c := s.foundRecord(deadletters.MovedOutside, rep, "the PSP's statement has a "+string(r.Object)+" ("+r.Status+
		") of a charge that may be this payment's, and we do not know the PSP's id of the charge")
	c.Finding += " " + r.Status
	return Step{open: c}
}

// judgeStatusBreak is for money that has moved at the PSP for a movement that has not succeeded here, or the reverse. A
// line about a movement of ours is judged like any other record of it.
func judgeStatusBreak(s Seen, b Break, rep report) Step {
	switch {
	case b.Ours.Status == string(payment.Processing) && s.atWork():
		return Step{leftAlone: true} // The movement is open, so its day is judged again when it is final.
	case s.Known():
		return judgeLine(s, b, rep)
	case b.Ours.Status != string(payment.Succeeded) && b.Ours.Status != string(payment.Processing):
		return Step{open: s.foundRecord(deadletters.ContradictsCompleted, rep,
			"the PSP's statement has moved money for a "+string(b.Object)+" that is "+b.Ours.Status+" here")}
	}
	return Step{}
}

// judgeLine judges a line of the statement as a record. The statement gives no decline code, so a declined line is not
// compared with the request.
func judgeLine(s Seen, b Break, rep report) Step {
	rep.record = b.line().Evidence()
	if b.declined() {
		rep.moved, rep.outcome = false, gateway.Declined{ID: b.PSPID}
	} else {
		rep.outcome = s.Request.Judge(b.assumed(s))
	}
	return s.counting(judgeOutcome(s, rep), b.assumed(s))
}

// declined reports whether the statement lists as declined what has succeeded here.
func (b Break) declined() bool {
	return b.Kind == BreakStatus && b.Ours != nil && b.Ours.Status == string(payment.Succeeded)
}

// line is the line of a break as a record of the PSP's ledger. It does not tell the key. Of a refund of ours, it does
// not tell the charge.
func (b Break) line() gateway.Record {
	r := gateway.Record{
		Object: b.Object, ID: b.PSPID, Account: b.Account, Reference: b.Reference, ChargeID: b.ChargeID,
		AmountMinor: b.Theirs.AmountMinor, Currency: b.Theirs.Currency, Status: gateway.StatusSucceeded,
		Created: b.Moved,
	}
	if b.Kind == BreakMissingHere {
		r.Status = cmp.Or(b.Theirs.Status, r.Status)
		if r.Object == gateway.DisputeObject {
			r.Dispute.Status = disputeOf(r.Status)
		}
	} else if b.declined() {
		r.Status = gateway.StatusDeclined
	}
	return r
}

// disputeOf is the status of a dispute by the status of its line. A line says only what becomes of the money.
func disputeOf(status string) gateway.DisputeStatus {
	switch status {
	case gateway.StatusSucceeded:
		return gateway.Lost
	case gateway.StatusDeclined:
		return gateway.Won
	}
	return gateway.NeedsResponse
}

// assumed is the line with the key and the charge that we have sent.
func (b Break) assumed(s Seen) gateway.Record {
	r := b.line()
	r.Key = s.Own.PassThroughKey()
	if refund, ok := s.Request.(gateway.Refund); ok {
		r.ChargeID = refund.ChargeID
	}
	return r
}

// kept is a break as a dead letter keeps it. For a status break of a movement of ours, it holds a record, so that a
// retry can judge the record again. The member assumed names what we have filled in: the PSP has not said that.
func (b Break) kept(s Seen) []byte {
	side := cmp.Or(b.Theirs, b.Ours, &Side{})
	kept := struct {
		Source      Source         `json:"source"`
		Account     string         `json:"account"`
		Day         string         `json:"day"`
		ID          string         `json:"id"`
		Object      gateway.Object `json:"object"`
		Reference   string         `json:"reference"`
		AmountCents int64          `json:"amountCents,omitzero"`
		Currency    string         `json:"currency,omitzero"`
		ChargeID    string         `json:"chargeId,omitzero"`
		OurPSPID    string         `json:"ourPspId,omitzero"`
		Record      jsontext.Value `json:"record,omitzero"`
		Assumed     []string       `json:"assumed,omitzero"`
	}{
		Source: SourceStatement, Account: b.Account, Day: b.Day.Format(time.DateOnly), ID: b.PSPID, Object: b.Object,
		Reference: b.Reference, AmountCents: side.AmountMinor, Currency: side.Currency, ChargeID: b.ChargeID,
	}
	if b.Ours != nil {
		kept.OurPSPID = b.Ours.PSPID
	}
	if s.Known() && b.Kind == BreakStatus {
		kept.Record, kept.Assumed = b.assumed(s).Evidence(), []string{"idempotencyKey", "chargeId"}
	}
	raw, err := json.Marshal(kept)
	if err != nil {
		return []byte(`{}`)
	}
	return raw
}
