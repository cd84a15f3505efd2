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

// movement is what a charge and a refund have in common in the PSP's answers. Members that we do not know are none of our
// business: PSPs add some all the time.
type movement struct {
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

// judge reads an answer below 500 as a verdict on what was wanted, if it is one.
func (want movement) judge(a answer) Outcome {
	verdict := a.status == http.StatusCreated || a.status == http.StatusOK || a.status == http.StatusPaymentRequired
	if !verdict {
		return Indeterminate{
			Reason: fmt.Sprintf("PSP answered %d", a.status),
			// The PSP knows this key with another body: somebody sent something else under it.
			Contradiction: a.status == http.StatusUnprocessableEntity, Evidence: evidence(a),
		}
	}
	var got movement
	if err := json.Unmarshal(a.body, &got); err != nil || !isID(got.ID) || got.Status == "" {
		return Indeterminate{Reason: "answer malformed"}
	}
	if member := want.differs(got); member != "" {
		return Indeterminate{Reason: "answer has another " + member, Contradiction: true, Evidence: evidence(a), ID: got.ID}
	}
	switch {
	case got.Status == pspSucceeded && a.status != http.StatusPaymentRequired:
		return Succeeded{ID: got.ID}
	case got.Status == pspDeclined && a.status == http.StatusPaymentRequired && declineCodeForm.MatchString(got.DeclineCode):
		return Declined{ID: got.ID, Code: got.DeclineCode}
	}
	return Indeterminate{Reason: "answer without a verdict"}
}

// differs names the first member in which an answer is about something else than what was asked.
func (want movement) differs(got movement) string {
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

// Judge reads a record as the verdict on the charge: Succeeded, Declined, or Indeterminate. A record about something else
// is a contradiction, of which the reason names the first member.
func (ch Charge) Judge(r Record) Outcome { return ch.wanted().judgeRecord(ChargeObject, r) }

// Judge reads a record as the verdict on the refund, as [Charge.Judge] does.
func (r Refund) Judge(rec Record) Outcome { return r.wanted().judgeRecord(RefundObject, rec) }

func (want movement) judgeRecord(o Object, r Record) Outcome {
	member := want.differs(r.movement())
	if r.Object != o {
		member = "object"
	}
	switch {
	case member != "":
		return Indeterminate{Reason: "record has another " + member, Contradiction: true, Evidence: r.Evidence(), ID: r.ID}
	case !isID(r.ID):
		return Indeterminate{Reason: "record malformed"}
	case r.Status == pspSucceeded:
		return Succeeded{ID: r.ID}
	case r.Status == pspDeclined && declineCodeForm.MatchString(r.DeclineCode):
		return Declined{ID: r.ID, Code: r.DeclineCode}
	}
	return Indeterminate{Reason: "record without a verdict"}
}

func (r Record) movement() movement {
	return movement{
		ID: r.ID, Account: r.Account, IdempotencyKey: r.Key, Reference: r.Reference, ChargeID: r.ChargeID,
		AmountCents: r.AmountMinor, Currency: r.Currency, Status: r.Status, DeclineCode: r.DeclineCode,
	}
}
