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
	object

	PaymentIntent string            `json:"payment_intent"`
	FailureReason string            `json:"failure_reason"`
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

// record is the refund as a record. The status of one of ours that is not final is "declined", so ask final first.
func (re refund) record(account string) (gateway.Record, error) {
	e := entry{
		object: re.object, kind: gateway.RefundObject, account: account, charge: re.PaymentIntent, marks: re.Metadata,
	}
	switch {
	case !re.final() && !marked(re.Metadata):
		e.Status = gateway.StatusPending
	case re.Status == "succeeded":
		e.Status = gateway.StatusSucceeded
	default:
		e.Status, e.code = gateway.StatusDeclined, codeOf(re.FailureReason, re.Status)
	}
	return e.record()
}

// maxMetadata is how many characters a value of metadata has at most (https://docs.stripe.com/api/metadata).
const maxMetadata = 500

// Refund sends under the first key whose result is not a saved 500. All attempts try the same keys in the same order.
// So if a send of an earlier attempt arrives late, Stripe knows its key already: a later attempt has sent under it, or
// has passed over its saved 500. Stripe then repeats the saved answer, and gives nothing back.
//
// A saved 500 is repeated for a day, without an effect. A later attempt may pass over it, because a lookup has proven
// that the earlier attempts gave nothing back, or they were not sent. The first attempt passes over nothing: the saved
// 500 may be that of this very request, which the network has sent twice.
//
// Each saved 500 costs one request. All together take at most as long as two requests, like a charge. If the time ends
// before a key without a saved 500 is reached, the last request was lost or not sent. The next attempt begins again.
func (c *Client) Refund(ctx context.Context, r gateway.Refund) gateway.Outcome {
	amount, u := toStripe(r.AmountMinor, r.Currency)
	if u != nil {
		return gateway.Declined{Code: "invalid_" + string(u.Member)}
	}
	form := refundForm(r, amount)
	sending, stop := context.WithTimeout(ctx, 2*c.Total())
	defer stop()
	var reply wire.Reply
	for n := range max(r.Attempt, 1) {
		reply = c.Send(sending, r.Account, c.postOurs(r.Account, refundsPath, refundKey(r.Key, n+1), form))
		if !savedServerError(reply) {
			break
		}
	}
	outcome := judgeRefund(r, reply)
	if _, refused := outcome.(gateway.Declined); refused && reply.Status != http.StatusOK && r.Attempt > 1 {
		return c.refusedLater(ctx, r, outcome, reply.Status)
	}
	return outcome
}

// refusedLater decides about a later attempt that was refused. The refund of an earlier attempt may have been executed
// after the lookup that released the key, when a 500 was repaired. Then it is the reason for the refusal, as in
// charge_already_refunded, and it is on the list of the charge's refunds: lists have no lag. If none of ours is there,
// no earlier attempt has moved money, and each further attempt would be refused for the same reason. Without this
// answer the key would be lost, released and refused again and again.
func (c *Client) refusedLater(
	ctx context.Context, r gateway.Refund, refusal gateway.Outcome, status int,
) gateway.Outcome {
	ctx, stop := context.WithTimeout(ctx, c.Total())
	defer stop()
	switch l := c.lookupRefund(ctx, r).(type) {
	case gateway.NotFound:
		return refusal
	case gateway.Waiting:
		return gateway.Pending{Reason: l.Reason}
	case gateway.Found:
		if len(l.Records) == 1 {
			return r.Judge(l.Records[0])
		}
	case gateway.LookupFailed:
	}
	return gateway.Indeterminate{Reason: answered(status)}
}

// refundKey is the nth key of a refund: K.refund, K.refund.2, K.refund.3.
func refundKey(key string, n int32) string {
	if n == 1 {
		return suffixed(key, "."+refundStep)
	}
	return stepKey(key, refundStep, n)
}

func refundForm(r gateway.Refund, amount int64) url.Values {
	form := url.Values{"payment_intent": {r.ChargeID}, "amount": {strconv.FormatInt(amount, 10)}}
	marks(form, r.Reference, r.Key)
	switch reason := []rune(strings.ToValidUTF8(r.Reason, "\uFFFD")); {
	case len(reason) == 0:
	// Stripe takes no other reason (https://docs.stripe.com/api/refunds/create#create_refund-reason).
	case slices.Contains([]string{"duplicate", "fraudulent", "requested_by_customer"}, r.Reason):
		form.Set("reason", r.Reason)
	default:
		form.Set("metadata["+reasonMark+"]", string(reason[:min(len(reason), maxMetadata)]))
	}
	return form
}
