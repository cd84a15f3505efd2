package stripe

import (
	"net/http"
	"slices"

	"payonce/internal/gateway"
	"payonce/internal/gateway/wire"
)

// savedServerError reports whether an answer is the saved 5xx of an earlier request under the same key. Then this
// request had no effect.
func savedServerError(r wire.Reply) bool {
	return r.Status >= http.StatusInternalServerError && r.Replayed()
}

// judgeRefund reads the answer to a refund.
func judgeRefund(r gateway.Refund, reply wire.Reply) gateway.Outcome {
	switch {
	case reply.NotSent != "":
		return gateway.NotExecuted{Reason: reply.NotSent}
	case reply.Lost != "":
		return gateway.Indeterminate{Reason: reply.Lost}
	case reply.Status == http.StatusOK:
		return judgeRefunded(r, reply)
	case limited(reply):
		return gateway.NotExecuted{Reason: answered(reply.Status)}
	}
	p := problemIn(reply.Body)
	switch {
	case reply.Status == http.StatusBadRequest && p.Type == keyReused:
		// Another request was sent under our key.
		return gateway.Indeterminate{Reason: answered(reply.Status), Contradiction: true,
			Evidence: evidence(reply.Status, reply.Body)}
	case p.refusesTheRefund(reply.Status):
		return gateway.Declined{Code: p.refundCode()}
	}
	return gateway.Indeterminate{Reason: answered(reply.Status)}
}

// refundCode is why the refund is refused. We never ask for more than our books say is left. So if the amount is too
// large for Stripe, somebody else has refunded a part. Stripe may give no code for that, but names the parameter.
func (p problem) refundCode() string {
	switch p.Code {
	case "charge_already_refunded", "charge_disputed", "refund_disputed_payment", "amount_too_large":
		return gateway.AlreadyMoved
	case "":
		if p.Param == "amount" {
			return gateway.AlreadyMoved
		}
	}
	return codeOf(p.DeclineCode, p.Code)
}

// refusesTheRefund reports whether a refusal is about the refund itself, and not about our account or our program. Then
// the same refund would be refused again. The codes are from https://docs.stripe.com/error-codes.
//
// The code resource_missing is not here. Stripe has made this charge, so the secret is that of another account or mode.
func (p problem) refusesTheRefund(status int) bool {
	if status == http.StatusPaymentRequired {
		return p.Type == cardError
	}
	return status == http.StatusBadRequest && p.Type == invalidRequest && (p.Param == "amount" ||
		slices.Contains([]string{
			"amount_too_large", "amount_too_small", "balance_insufficient", "charge_already_refunded",
			"charge_disputed", "charge_not_refundable", "refund_disputed_payment",
		}, p.Code))
}

// judgeRefunded reads a 200.
func judgeRefunded(r gateway.Refund, reply wire.Reply) gateway.Outcome {
	re, _ := parseRefund(reply.Body) // What is no refund is no record either.
	record, err := re.record(r.Account)
	if err != nil {
		return gateway.Indeterminate{Reason: "answer malformed"}
	}
	if member := r.Wanted().Differs(record); member != "" {
		o := gateway.Indeterminate{Reason: "answer has another " + member, Contradiction: true, ID: re.ID,
			Evidence: evidence(reply.Status, reply.Body)}
		if re.final() {
			o.Evidence = gateway.AnswerEvidence(reply.Status, record.Evidence())
		}
		return o
	}
	switch re.Status {
	case "succeeded":
		return gateway.Succeeded{ID: re.ID}
	case "failed", "canceled":
		return gateway.Declined{ID: re.ID, Code: record.DeclineCode}
	case "pending", "requires_action":
		return gateway.Pending{Reason: re.Status}
	}
	return gateway.Indeterminate{Reason: "answer without a verdict"}
}
