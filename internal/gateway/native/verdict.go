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
