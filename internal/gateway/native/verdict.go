package native

import (
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payonce/internal/gateway"
	"payonce/internal/gateway/wire"
)

// judge reads a reply as a verdict on what was wanted. If it is no verdict, the outcome is Indeterminate. Without an
// answer, only a request that was not sent was certainly not executed.
func judge(want gateway.Record, a wire.Reply) gateway.Outcome {
	switch {
	case a.NotSent != "":
		return gateway.NotExecuted{Reason: a.NotSent}
	case a.Lost != "":
		return gateway.Indeterminate{Reason: a.Lost}
	case a.Status >= http.StatusInternalServerError:
		return gateway.Indeterminate{Reason: fmt.Sprintf("PSP answered %d", a.Status)}
	case a.Status != http.StatusCreated && a.Status != http.StatusOK && a.Status != http.StatusPaymentRequired:
		return gateway.Indeterminate{
			Reason: fmt.Sprintf("PSP answered %d", a.Status),
			// The PSP says that this key was used with another body.
			Contradiction: a.Status == http.StatusUnprocessableEntity,
			Evidence:      gateway.AnswerEvidence(a.Status, a.Body),
		}
	}
	// An answer has the members of a record, but for these two. Unknown members are ignored, because PSPs often add
	// members. So these two may be anything.
	var got struct {
		gateway.Record

		Object  jsontext.Value `json:"object"`
		Created jsontext.Value `json:"createdAt"`
	}
	if err := json.Unmarshal(a.Body, &got); err != nil || !gateway.IsID(got.ID) || got.Status == "" {
		return gateway.Indeterminate{Reason: "answer malformed"}
	}
	got.Record.Object = want.Object
	if member := want.Differs(got.Record); member != "" {
		evidence := gateway.AnswerEvidence(a.Status, a.Body)
		if !gateway.Storable(a.Body) {
			// A member that we do not read cannot be stored. Whether money has moved decides what the client may be
			// told, so what we have read must not be lost.
			evidence = gateway.AnswerEvidence(a.Status, got.Evidence())
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

// unknownPaymentMethod is the only error of the PSP that is documented to come before any effect. It says that there is
// no charge, no record, and no earlier request under this key. See docs/adr/0025-when-a-4xx-is-proof.md.
const unknownPaymentMethod = "unknown_payment_method"

// judgeCharge reads a reply as a verdict on the charge, as judge does.
func judgeCharge(ch gateway.Charge, a wire.Reply) gateway.Outcome {
	if refusedBy(ch, a) {
		return gateway.Declined{Code: unknownPaymentMethod}
	}
	return judge(ch.Wanted(), a)
}

// refusedBy reports whether an answer is that error, about this very charge. The answer must have the documented status
// and the documented members, each once and no others. An error with more members may mean something else. If a charge
// that was executed were taken for refused, the customer would pay twice.
func refusedBy(ch gateway.Charge, a wire.Reply) bool {
	var said struct {
		Error struct {
			Code           string `json:"code"`
			Message        string `json:"message"`
			Account        string `json:"account"`
			IdempotencyKey string `json:"idempotencyKey"`
			Reference      string `json:"reference"`
		} `json:"error"`
	}
	if a.Status != http.StatusBadRequest || json.Unmarshal(a.Body, &said, json.RejectUnknownMembers(true)) != nil {
		return false
	}
	e := said.Error
	return e.Code == unknownPaymentMethod && e.Message != "" &&
		e.Account == ch.Account && e.IdempotencyKey == ch.Key && e.Reference == ch.Reference && ch.Reference != ""
}
