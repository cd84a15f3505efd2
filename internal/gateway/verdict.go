package gateway

import (
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"
)

// The PSP's own statuses of a movement.
const (
	pspSucceeded = "succeeded"
	pspDeclined  = "declined"
)

// terms are the members that answers about charges and refunds have in common. Unknown members are ignored, because
// PSPs often add members.
type terms struct {
	ID             string `json:"id"`
	Account        string `json:"account"`
	IdempotencyKey string `json:"idempotencyKey"`
	Reference      string `json:"reference"`
	ChargeID       string `json:"chargeId"`
	AmountCents    int64  `json:"amountCents"`
	Currency       string `json:"currency"`
	Status         string `json:"status"`
	DeclineCode    string `json:"declineCode"`
}

// judge reads an answer below 500 as a verdict on what was wanted. If it is no verdict, the outcome is Indeterminate.
func (want terms) judge(a answer) Outcome {
	verdict := a.status == http.StatusCreated || a.status == http.StatusOK || a.status == http.StatusPaymentRequired
	if !verdict {
		return Indeterminate{
			Reason: fmt.Sprintf("PSP answered %d", a.status),
			// The PSP says that this key was used with another body.
			Contradiction: a.status == http.StatusUnprocessableEntity, Evidence: evidence(a),
		}
	}
	var got terms
	if err := json.Unmarshal(a.body, &got); err != nil || !isID(got.ID) || got.Status == "" {
		return Indeterminate{Reason: "answer malformed"}
	}
	if member := want.differs(got); member != "" {
		return Indeterminate{Reason: "answer has another " + member, Contradiction: true, Evidence: evidence(a),
			ID: got.ID}
	}
	switch {
	case got.Status == pspSucceeded && a.status != http.StatusPaymentRequired:
		return Succeeded{ID: got.ID}
	case got.Status == pspDeclined && a.status == http.StatusPaymentRequired &&
		declineCodeForm.MatchString(got.DeclineCode):
		return Declined{ID: got.ID, Code: got.DeclineCode}
	}
	return Indeterminate{Reason: "answer without a verdict"}
}

// differs names the first member in which an answer does not match the request, or is "".
func (want terms) differs(got terms) string {
	switch {
	case got.Account != want.Account:
		return "account"
	case got.IdempotencyKey != want.IdempotencyKey:
		return "key"
	case got.Reference != want.Reference:
		return "reference"
	case got.ChargeID != want.ChargeID:
		return "charge"
	case got.AmountCents != want.AmountCents:
		return "amount"
	case got.Currency != want.Currency:
		return "currency"
	}
	return ""
}

// Judge reads a record as the verdict on the charge: Succeeded, Declined, or Indeterminate. A record that does not
// match the charge is a contradiction. Its reason names the first member that differs.
func (ch Charge) Judge(r Record) Outcome { return ch.wanted().judgeRecord(ChargeObject, r) }

// Judge reads a record as the verdict on the refund, as [Charge.Judge] does.
func (r Refund) Judge(rec Record) Outcome { return r.wanted().judgeRecord(RefundObject, rec) }

func (want terms) judgeRecord(o Object, r Record) Outcome {
	member := want.differs(r.terms())
	if r.Object != o {
		member = "object"
	}
	switch {
	case member != "":
		return Indeterminate{Reason: "record has another " + member, Contradiction: true, Evidence: r.Evidence(),
			ID: r.ID}
	case !isID(r.ID):
		return Indeterminate{Reason: "record malformed"}
	case r.Status == pspSucceeded:
		return Succeeded{ID: r.ID}
	case r.Status == pspDeclined && declineCodeForm.MatchString(r.DeclineCode):
		return Declined{ID: r.ID, Code: r.DeclineCode}
	}
	return Indeterminate{Reason: "record without a verdict"}
}

func (r Record) terms() terms {
	return terms{
		ID: r.ID, Account: r.Account, IdempotencyKey: r.Key, Reference: r.Reference, ChargeID: r.ChargeID,
		AmountCents: r.AmountMinor, Currency: r.Currency, Status: r.Status, DeclineCode: r.DeclineCode,
	}
}
