package stripe

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"payonce/internal/gateway"
	"payonce/internal/gateway/wire"
)

// Prepare makes the PaymentIntent of a charge. It moves no money, and nobody confirms an intent whose id the caller has
// not stored. So nothing was executed, whatever the answer is.
func (c *Client) Prepare(ctx context.Context, ch gateway.Charge) (objectID string, refused gateway.Outcome) {
	if u := refuses(ch); u != nil {
		return "", gateway.Declined{Code: "invalid_" + string(u.Member)}
	}
	return judgeCreate(ch, c.create(ctx, ch))
}

// captureMethod captures at once: an amount that is only authorized has not moved.
const captureMethod = "automatic"

// create makes the intent, or returns the first answer if this attempt has made it before.
func (c *Client) create(ctx context.Context, ch gateway.Charge) wire.Reply {
	amount, _ := toStripe(ch.AmountMinor, ch.Currency)
	form := url.Values{
		"amount":         {strconv.FormatInt(amount, 10)},
		"currency":       {strings.ToLower(ch.Currency)},
		"payment_method": {ch.PaymentMethod},
		"confirm":        {"false"},
		"capture_method": {captureMethod},
		// All payment methods that need no page of another site: there is no customer who could be sent there.
		// https://docs.stripe.com/api/payment_intents/create#create_payment_intent-automatic_payment_methods
		"automatic_payment_methods[enabled]":         {"true"},
		"automatic_payment_methods[allow_redirects]": {"never"},
	}
	marks(form, ch.Reference, ch.Key)
	key := stepKey(ch.Key, createStep, ch.Attempt)
	return c.Send(ctx, ch.Account, c.postOurs(ch.Account, intentsPath, key, form))
}

// judgeCreate reads the answer to a creation. There is an id or an outcome.
func judgeCreate(ch gateway.Charge, r wire.Reply) (id string, refused gateway.Outcome) {
	switch {
	case r.NoAnswer() != "":
		return "", gateway.NotExecuted{Reason: r.NoAnswer()}
	case r.Status != http.StatusOK:
		return "", judgeUnmade(r)
	}
	ch.ObjectID = "" // The new intent has another id than that of an earlier attempt.
	f := inspect(ch, r.Status, r.Body)
	switch f.state {
	case unsent:
		if f.status == "requires_confirmation" {
			return f.id, nil
		}
		return "", gateway.NotExecuted{Reason: "the PSP has not taken the payment method"}
	case ended:
		return "", gateway.NotExecuted{Reason: cancelled}
	case unclear:
		return "", gateway.NotExecuted{Reason: f.reason}
	case mismatch:
		return "", contradiction(f)
	}
	// An intent that was not confirmed has moved money, was declined, or waits.
	return "", gateway.Indeterminate{Reason: "answer has an intent with the status " + f.status, Contradiction: true,
		Evidence: f.kept(r.Status, r.Body), ID: f.id}
}

// judgeUnmade reads an answer other than 200 to a creation. A refusal of the request itself is a decline, because the
// same request would be refused again. Everything else may pass: the next attempt has another key.
func judgeUnmade(r wire.Reply) gateway.Outcome {
	p := problemIn(r.Body)
	switch {
	case r.Status == http.StatusBadRequest && p.Type == keyReused:
		// Stripe knows the key with another request. Then the key may stand for an executed payment of ours.
		return gateway.Indeterminate{Reason: answered(r.Status), Contradiction: true,
			Evidence: evidence(r.Status, r.Body)}
	case r.Status == http.StatusPaymentRequired && p.Type == cardError:
		return gateway.Declined{Code: codeOf(p.DeclineCode, p.Code)}
	}
	if refusal, refused := refusedForGood(r); refused {
		return refusal
	}
	return gateway.NotExecuted{Reason: answered(r.Status)}
}

// refusedForGood reads a 400 about the charge itself: each further attempt would be refused, too.
func refusedForGood(r wire.Reply) (refusal gateway.Declined, refused bool) {
	p := problemIn(r.Body)
	if r.Status != http.StatusBadRequest || p.Type != invalidRequest || !p.aboutTheCharge() {
		return gateway.Declined{}, false
	}
	return gateway.Declined{Code: codeOf(p.Code, "invalid_"+p.Param)}, true
}

// aboutTheCharge reports whether a refusal is about the charge itself, and not about our account or our program
// (https://docs.stripe.com/error-codes).
func (p problem) aboutTheCharge() bool {
	return slices.Contains([]string{"amount", "currency", "payment_method"}, p.Param) ||
		slices.Contains([]string{
			"amount_too_large", "amount_too_small", "invalid_charge_amount", "payment_method_currency_mismatch",
			"payment_intent_incompatible_payment_method", "payment_method_not_available",
			"payment_method_unexpected_state", "payment_method_unsupported_type", "token_already_used",
		}, p.Code)
}

// Charge confirms the intent, once. If the answer is no verdict, the intent itself is read, and cancelled if it is not
// executed.
func (c *Client) Charge(ctx context.Context, ch gateway.Charge) gateway.Outcome {
	if ch.ObjectID == "" {
		return gateway.NotExecuted{Reason: "there is no intent to confirm"}
	}
	key := stepKey(ch.Key, confirmStep, ch.Attempt)
	// The intent has all parameters already. One is repeated, because a request needs a body (wire.Client.Send).
	form := url.Values{"capture_method": {captureMethod}}
	reply := c.Send(ctx, ch.Account, c.post(ch.Account, intentPath(ch.ObjectID, "confirm"), key, form))
	outcome, why := judgeConfirm(ch, reply)
	if outcome != nil {
		return outcome
	}
	outcome = c.resolve(ctx, ch, why)
	// The confirmation has executed nothing, and never will. Each further attempt would be refused for the same reason.
	if refusal, refused := refusedForGood(reply); refused && outcome == (gateway.NotExecuted{Reason: cancelled}) {
		return refusal
	}
	return outcome
}

// judgeConfirm reads the answer to a confirmation. If it is no verdict, outcome is nil, and why says what is not known.
func judgeConfirm(ch gateway.Charge, r wire.Reply) (outcome gateway.Outcome, why string) {
	switch {
	case r.NotSent != "":
		return gateway.NotExecuted{Reason: r.NotSent}, ""
	case r.Lost != "":
		return nil, r.Lost
	case r.Status == http.StatusOK:
		f := inspect(ch, r.Status, r.Body)
		return f.outcome(), f.reason
	case r.Status == http.StatusPaymentRequired:
		return judgeDecline(ch, r), answered(r.Status)
	case limited(r):
		return gateway.NotExecuted{Reason: answered(r.Status)}, ""
	}
	return nil, answered(r.Status)
}

// judgeDecline reads a 402. It is a decline if it is about this intent. Otherwise the outcome is nil.
func judgeDecline(ch gateway.Charge, r wire.Reply) gateway.Outcome {
	p := problemIn(r.Body)
	if p.Type != cardError {
		return nil
	}
	f := inspect(ch, r.Status, p.PaymentIntent)
	switch f.state {
	case declined:
		return gateway.Declined{ID: f.id, Code: codeOf(p.DeclineCode, p.Code)}
	case mismatch:
		return contradiction(f)
	}
	return nil
}

// limited reports whether the rate limiter has stopped a request. It runs before the idempotency layer and before any
// effect (https://docs.stripe.com/error-low-level#content-errors). Only its own code is proof of that. With another
// code, the execution may have begun: with lock_timeout, it has met another request
// (https://docs.stripe.com/rate-limits#object-lock-timeouts).
func limited(r wire.Reply) bool {
	return r.Status == http.StatusTooManyRequests && problemIn(r.Body).Code == "rate_limit"
}

func answered(status int) string { return fmt.Sprintf("PSP answered %d", status) }
