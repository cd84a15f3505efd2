package native

import (
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"

	"payonce/internal/gateway"
	"payonce/internal/gateway/wire"
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
func judge(want gateway.Record, a wire.Reply) gateway.Outcome {
	verdict := a.Status == http.StatusCreated || a.Status == http.StatusOK || a.Status == http.StatusPaymentRequired
	if !verdict {
		return gateway.Indeterminate{
			Reason: fmt.Sprintf("PSP answered %d", a.Status),
			// The PSP says that this key was used with another body.
			Contradiction: a.Status == http.StatusUnprocessableEntity,
			Evidence:      gateway.AnswerEvidence(a.Status, a.Body),
		}
	}
	var got terms
	if err := json.Unmarshal(a.Body, &got); err != nil || !gateway.IsID(got.ID) || got.Status == "" {
		return gateway.Indeterminate{Reason: "answer malformed"}
	}
	r := got.record(want.Object)
	if member := want.Differs(r); member != "" {
		evidence := gateway.AnswerEvidence(a.Status, a.Body)
		if !gateway.Storable(a.Body) {
			// A member that we do not read cannot be stored. Whether money has moved decides what the client may be
			// told, so what we have read must not be lost.
			evidence = gateway.AnswerEvidence(a.Status, r.Evidence())
		}
		return gateway.Indeterminate{Reason: "answer has another " + member, Contradiction: true, Evidence: evidence,
			ID: got.ID}
	}
	switch {
	case got.Status == gateway.StatusSucceeded && a.Status != http.StatusPaymentRequired:
		return gateway.Succeeded{ID: got.ID}
	case got.Status == gateway.StatusDeclined && a.Status == http.StatusPaymentRequired &&
		gateway.IsDeclineCode(got.DeclineCode):
		return gateway.Declined{ID: got.ID, Code: codeOf(got.DeclineCode)}
	}
	return gateway.Indeterminate{Reason: "answer without a verdict"}
}

// record is what the answer says of an object. It does not name the object, and has no time.
func (t terms) record(o gateway.Object) gateway.Record {
	return gateway.Record{
		Object: o, ID: t.ID, Account: t.Account, Key: t.IdempotencyKey, Reference: t.Reference, ChargeID: t.ChargeID,
		AmountMinor: t.AmountCents, Currency: t.Currency, Status: t.Status, DeclineCode: t.DeclineCode,
	}
}
