package stripe

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"payonce/internal/gateway"
	"payonce/internal/gateway/wire"
)

// refund is the part of a Refund that we read (https://docs.stripe.com/api/refunds/object).
type refund struct {
	ID            string            `json:"id"`
	Object        string            `json:"object"`
	Amount        *int64            `json:"amount"`
	Currency      string            `json:"currency"`
	Status        string            `json:"status"`
	PaymentIntent string            `json:"payment_intent"`
	FailureReason string            `json:"failure_reason"`
	Created       int64             `json:"created"`
	Metadata      map[string]string `json:"metadata"`
}

// parseRefund reads a refund.
func parseRefund(raw []byte) (re refund, ok bool) {
	if json.Unmarshal(raw, &re) != nil || re.Object != "refund" || re.Status == "" {
		return refund{}, false
	}
	return re, true
}

// final reports whether the refund waits for nobody. Any status that we do not know waits.
func (re refund) final() bool {
	return re.Status == "succeeded" || re.Status == "failed" || re.Status == "canceled"
}

// record is the refund as a record. The status of one that is not final is "declined", so ask final first.
func (re refund) record(account string) (gateway.Record, error) {
	e := entry{
		object: gateway.RefundObject, id: re.ID, account: account, charge: re.PaymentIntent, amount: re.Amount,
		currency: re.Currency, status: gateway.StatusSucceeded, created: re.Created, marks: re.Metadata,
	}
	if re.Status != "succeeded" {
		e.status, e.code = gateway.StatusDeclined, codeOf(re.FailureReason, re.Status)
	}
	return e.record()
}

// maxMetadata is how many characters a value of metadata has at most (https://docs.stripe.com/api/metadata).
const maxMetadata = 500

// reasons are those that Stripe takes (https://docs.stripe.com/api/refunds/create#create_refund-reason).
func reasons() []string { return []string{"duplicate", "fraudulent", "requested_by_customer"} }

// Refund sends a refund.
func (c *Client) Refund(ctx context.Context, r gateway.Refund) gateway.Outcome {
	return c.observed(ctx, func(ctx context.Context) gateway.Outcome { return c.refund(ctx, r) })
}

// refund sends each attempt under the same key. So a send of an earlier attempt that arrives late gives nothing back a
// second time.
//
// If the first attempt's result was a 500, Stripe answers the later attempts with it, without an effect. A later
// attempt exists only because nothing of the earlier ones was executed: a lookup has proven it, or they were not sent.
// So it sends once more, under a key of its own.
func (c *Client) refund(ctx context.Context, r gateway.Refund) gateway.Outcome {
	amount, u := toStripe(r.AmountMinor, r.Currency)
	if u != nil {
		return gateway.Declined{Code: "invalid_" + string(u.Member)}
	}
	form := refundForm(r, amount)
	reply := c.Send(ctx, r.Account, c.post(r.Account, refundsPath, suffixed(r.Key, "."+refundStep), form))
	if r.Attempt > 1 && savedServerError(reply) {
		key := stepKey(r.Key, refundStep, r.Attempt)
		reply = c.Send(ctx, r.Account, c.post(r.Account, refundsPath, key, form))
	}
	return judgeRefund(r, reply)
}

func refundForm(r gateway.Refund, amount int64) url.Values {
	form := url.Values{"payment_intent": {r.ChargeID}, "amount": {strconv.FormatInt(amount, 10)}}
	marks(form, r.Reference, r.Key)
	switch reason := []rune(strings.ToValidUTF8(r.Reason, "\uFFFD")); {
	case len(reason) == 0:
	case slices.Contains(reasons(), r.Reason):
		form.Set("reason", r.Reason)
	default:
		form.Set("metadata["+reasonMark+"]", string(reason[:min(len(reason), maxMetadata)]))
	}
	return form
}

// savedServerError reports whether an answer is the saved 5xx of an earlier request under the same key. Then this
// request had no effect.
func savedServerError(r wire.Reply) bool {
	return r.Status >= http.StatusInternalServerError && r.Header.Get("Idempotent-Replayed") == "true"
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
	p, _ := problemIn(reply.Body)
	switch {
	case reply.Status == http.StatusBadRequest && p.Type == invalidRequest,
		reply.Status == http.StatusPaymentRequired && p.Type == cardError:
		return gateway.Declined{Code: codeOf(p.DeclineCode, p.Code)}
	case reply.Status == http.StatusBadRequest && p.Type == keyReused:
		// Another request was sent under our key.
		return gateway.Indeterminate{Reason: answered(reply.Status), Contradiction: true,
			Evidence: evidence(reply.Status, reply.Body)}
	}
	return gateway.Indeterminate{Reason: answered(reply.Status)}
}

// judgeRefunded reads a 200.
func judgeRefunded(r gateway.Refund, reply wire.Reply) gateway.Outcome {
	re, ok := parseRefund(reply.Body)
	if !ok {
		return gateway.Indeterminate{Reason: "answer malformed"}
	}
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
