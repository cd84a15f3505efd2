package payments

import (
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
)

// Break is a difference between the PSP's statement of a day and our books.
type Break struct {
	Kind    BreakKind
	Account string
	Day     time.Time
	Object  gateway.Object
	PSPID   string // by the statement; of what is missing there, by us
	// Subject is our payment or refund, if there is one.
	Subject *uuid.UUID
	// Reference is our id as the statement writes it; of what is missing there, as we write it.
	Reference string
	// OtherTenant: the reference is that of a payment or refund of another tenant.
	OtherTenant bool
	Theirs      *Side // nil for what is missing there
	Ours        *Side // nil for what is missing here
	Moved       time.Time
}

// Side is what one of the two says of a movement.
type Side struct {
	AmountMinor int64
	Currency    string
	Status      string // of ours
	PSPID       string // of ours; "" if it has none
}

// BreakKind says in what a statement and our books differ, in the words of package statement.
type BreakKind string

// The kinds of breaks that judge knows.
const (
	BreakMissingHere  BreakKind = "missing_here"
	BreakMissingThere BreakKind = "missing_there"
	BreakStatus       BreakKind = "status"
	BreakDuplicate    BreakKind = "duplicate"
	BreakPSPID        BreakKind = "psp_id"
)

// judgeBreak is for a difference that a statement shows. Differences in amount or currency come as evidence by the scan.
func judgeBreak(s Seen, b Break) Step {
	t := report{source: SourceStatement, id: b.PSPID, moved: b.Kind != BreakMissingThere, whole: b.kept(s)}
	object := string(b.Object)
	switch b.Kind {
	case BreakStatus:
		return judgeStatusBreak(s, b, t)
	case BreakMissingHere:
		if b.OtherTenant {
			return Step{Open: s.foundRecord(deadletters.OtherAccount, b.Account, t,
				"the PSP's statement names one tenant's "+object+" under another's account", false)}
		}
		return Step{Open: s.foundRecord(deadletters.UnknownMovement, b.Account, t,
			"the PSP's statement has a "+object+" that nothing of ours asked for", false)}
	case BreakDuplicate:
		return Step{Open: s.foundRecord(deadletters.DuplicateMovement, b.Account, t,
			"the PSP's statement has a further "+object+" for one of ours", s.known())}
	case BreakPSPID:
		// It need not be a further one: to give it back may be to give back the only one.
		return Step{Open: s.foundRecord(deadletters.ContradictsCompleted, b.Account, t,
			"the PSP's statement has a "+object+" of ours under another id or reference than we know", s.known())}
	case BreakMissingThere:
		c := s.foundRecord(deadletters.MissingAtPSP, b.Account, t, "our "+object+" succeeded, and the PSP's statement does not have it", s.known())
		c.Finding = "missing " + b.Account + " " + b.Reference
		return Step{Open: c}
	}
	return Step{}
}

// judgeStatusBreak is for money that moved for what has not succeeded here, or the other way round. A line about a movement of ours counts as any record of it.
func judgeStatusBreak(s Seen, b Break, t report) Step {
	switch {
	case b.Ours != nil && b.Ours.Status == string(Processing):
		return Step{LeftAlone: true} // the key is being resolved
	case s.known():
		return judgeLine(s, b, t)
	case b.Ours != nil && b.Ours.Status != string(Success):
		return Step{Open: s.foundRecord(deadletters.ContradictsCompleted, b.Account, t,
			"the PSP's statement has moved money for a "+string(b.Object)+" that is "+b.Ours.Status+" here", false)}
	}
	return Step{}
}

// judgeLine judges a line as a record. The file gives a decline no code, so that nothing is compared of one.
func judgeLine(s Seen, b Break, t report) Step {
	t.record = b.record(s, false).Evidence()
	if b.declined() {
		t.moved, t.outcome = false, gateway.Declined{ID: b.PSPID}
	} else {
		t.outcome = s.Asked.Judge(b.record(s, true))
	}
	return judgeOutcome(s, t)
}

// declined: the file lists a decline of what has succeeded here.
func (b Break) declined() bool { return b.Ours != nil && b.Ours.Status == string(Success) }

// record is the line as a record of the PSP's ledger. Package statement has compared neither the key nor the refunded charge, and has not kept them: where they are
// assumed, they are those that we have named.
func (b Break) record(s Seen, assumed bool) gateway.Record {
	r := gateway.Record{
		Object: b.Object, ID: b.PSPID, Account: b.Account, Reference: b.Reference, Status: "succeeded", Created: b.Moved,
	}
	if b.declined() {
		r.Status = "declined"
	}
	if b.Theirs != nil {
		r.AmountMinor, r.Currency = b.Theirs.AmountMinor, b.Theirs.Currency
	}
	if !assumed {
		return r
	}
	r.Key = s.Own.PassThroughKey()
	if refund, ok := s.Asked.(gateway.Refund); ok {
		r.ChargeID = refund.ChargeID
	}
	return r
}

// kept is a break as a dead letter keeps it. A status of a movement of ours comes with a record, so that a retry can judge it again: its assumed members are not the
// PSP's word.
func (b Break) kept(s Seen) []byte {
	side := b.Theirs
	if side == nil {
		side = b.Ours
	}
	kept := struct {
		Source      Source         `json:"source"`
		Account     string         `json:"account"`
		Day         string         `json:"day"`
		ID          string         `json:"id"`
		Object      gateway.Object `json:"object"`
		Reference   string         `json:"reference"`
		AmountCents int64          `json:"amountCents,omitzero"`
		Currency    string         `json:"currency,omitzero"`
		OurPSPID    string         `json:"ourPspId,omitzero"`
		Record      jsontext.Value `json:"record,omitzero"`
		Assumed     []string       `json:"assumed,omitzero"`
	}{
		Source: SourceStatement, Account: b.Account, Day: b.Day.Format(time.DateOnly), ID: b.PSPID, Object: b.Object, Reference: b.Reference,
	}
	if side != nil {
		kept.AmountCents, kept.Currency = side.AmountMinor, side.Currency
	}
	if b.Ours != nil {
		kept.OurPSPID = b.Ours.PSPID
	}
	if s.known() && b.Kind == BreakStatus {
		kept.Record, kept.Assumed = b.record(s, true).Evidence(), []string{"idempotencyKey", "chargeId"}
	}
	raw, err := json.Marshal(kept)
	if err != nil {
		return []byte(`{}`)
	}
	return raw
}
