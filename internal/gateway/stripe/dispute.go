package stripe

import (
	"time"

	"github.com/go-json-experiment/json"

	"payonce/internal/gateway"
)

// dispute is the part of a Dispute that we read (https://docs.stripe.com/api/disputes/object).
type dispute struct {
	object

	PaymentIntent   string `json:"payment_intent"`
	Reason          string `json:"reason"`
	EvidenceDetails struct {
		DueBy int64 `json:"due_by"`
	} `json:"evidence_details"`
}

// readDispute reads a Dispute. One without an intent is of a charge that was made in another way, by another program.
func (in reader) readDispute(raw []byte) (r gateway.Record, err error) {
	var d dispute
	if json.Unmarshal(raw, &d) != nil {
		return r, errNoRecord
	}
	switch {
	case d.Object != "dispute":
		return r, errOtherObject
	case d.PaymentIntent == "":
		return r, foreign
	}
	e := entry{object: d.object, kind: gateway.DisputeObject, account: in.account, charge: d.PaymentIntent,
		dispute: gateway.Dispute{Status: d.status(), Reason: d.Reason}}
	if due := d.EvidenceDetails.DueBy; due > 0 {
		e.dispute.EvidenceDueBy = time.Unix(due, 0)
	}
	e.Status = e.dispute.Status.Record()
	return e.record()
}

// status reads the dispute's status (https://docs.stripe.com/api/disputes/object#dispute_object-status). The money of
// an inquiry is not withdrawn (https://docs.stripe.com/disputes/how-disputes-work#inquiries). A status that we do not
// know holds the money.
func (d dispute) status() gateway.DisputeStatus {
	switch d.Status {
	case "warning_needs_response", "warning_under_review":
		return gateway.Inquiry
	case "warning_closed", "prevented":
		return gateway.Closed
	case "under_review":
		return gateway.UnderReview
	case "won":
		return gateway.Won
	case "lost":
		return gateway.Lost
	}
	return gateway.NeedsResponse
}
