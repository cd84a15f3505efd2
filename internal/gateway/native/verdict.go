package native

import (
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"

	"payonce/internal/gateway"
)

// terms are the members that answers about charges and refunds have in common. Unknown members are ignored, because
// PSPs often add members.
type terms struct {
	ID             string `json:"id"`
	Account        string `json:"account"`
	IdempotencyKey string `json:"idempotencyKey"`
	Reference      string `json:"reference"`
	ChargeID       string `json:"chargeId,omitzero"`
	AmountCents    int64  `json:"amountCents"`
	Currency       string `json:"currency"`
	Status         string `json:"status"`
	DeclineCode    string `json:"declineCode,omitzero"`
}

// judge reads an answer below 500 as a verdict on what was wanted. If it is no verdict, the outcome is Indeterminate.
func judge(want gateway.Record, a answer) gateway.Outcome {
	verdict := a.status == http.StatusCreated || a.status == http.StatusOK || a.status == http.StatusPaymentRequired
	if !verdict {
		return gateway.Indeterminate{
			Reason: fmt.Sprintf("PSP answered %d", a.status),
			// The PSP says that this key was used with another body.
			Contradiction: a.status == http.StatusUnprocessableEntity, Evidence: a.evidence(),
		}
	}
	var got terms
	if err := json.Unmarshal(a.body, &got); err != nil || !gateway.IsID(got.ID) || got.Status == "" {
		return gateway.Indeterminate{Reason: "answer malformed"}
	}
	if member := want.Differs(got.record(want.Object)); member != "" {
		return gateway.Indeterminate{Reason: "answer has another " + member, Contradiction: true,
			Evidence: got.evidence(a), ID: got.ID}
	}
	switch {
	case got.Status == gateway.StatusSucceeded && a.status != http.StatusPaymentRequired:
		return gateway.Succeeded{ID: got.ID}
	case got.Status == gateway.StatusDeclined && a.status == http.StatusPaymentRequired &&
		gateway.IsDeclineCode(got.DeclineCode):
		return gateway.Declined{ID: got.ID, Code: codeOf(got.DeclineCode)}
	}
	return gateway.Indeterminate{Reason: "answer without a verdict"}
}

func (a answer) evidence() []byte { return gateway.AnswerEvidence(a.status, a.body) }

// evidence is the answer. If the database cannot store the answer, because of a member that we do not read, it has only
// what we have read. Whether money has moved decides what the client may be told, so it must not be lost.
func (t terms) evidence(a answer) []byte {
	if gateway.Storable(a.body) {
		return a.evidence()
	}
	for _, text := range []*string{&t.Account, &t.IdempotencyKey, &t.Reference, &t.ChargeID, &t.Currency, &t.Status,
		&t.DeclineCode} {
		*text = gateway.Beginning([]byte(*text))
	}
	raw, err := json.Marshal(t)
	if err != nil {
		return a.evidence()
	}
	return gateway.AnswerEvidence(a.status, raw)
}

// record is the answer's part that is compared with the request. An answer does not name its object.
func (t terms) record(o gateway.Object) gateway.Record {
	return gateway.Record{
		Object: o, ID: t.ID, Account: t.Account, Key: t.IdempotencyKey, Reference: t.Reference, ChargeID: t.ChargeID,
		AmountMinor: t.AmountCents, Currency: t.Currency,
	}
}
