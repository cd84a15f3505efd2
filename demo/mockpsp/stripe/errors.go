package stripe

import (
	"net/http"
	"strings"
)

// The types of errors that Stripe has.
const (
	invalidRequest   = "invalid_request_error"
	idempotencyError = "idempotency_error"
	cardFailure      = "card_error"
	apiFailure       = "api_error"
)

// apiError is an error that the caller may read.
type apiError struct {
	status        int
	kind          string // the type of the error
	code, decline string
	message       string
	param         string
	charge        string
	intent        *intent
	method        string
}

func (e apiError) Error() string { return e.kind + ": " + e.message }

// shown is the error as the API shows it.
func (e apiError) shown() object {
	v := object{"type": e.kind, "message": e.message}
	for name, value := range map[string]string{
		"code": e.code, "decline_code": e.decline, "param": e.param, "charge": e.charge,
	} {
		if value != "" {
			v[name] = value
		}
	}
	if e.code != "" {
		v["doc_url"] = "https://stripe.com/docs/error-codes/" + strings.ReplaceAll(e.code, "_", "-")
	}
	if e.intent != nil {
		v["payment_intent"] = e.intent.shown()
	}
	if e.method != "" {
		v["payment_method"] = shownMethod(e.method)
	}
	return object{"error": v}
}

// shownMethod is a payment method as the API shows it. The mock knows no more of it than its id.
func shownMethod(id string) object {
	return object{"id": id, "object": "payment_method", "customer": nil, "livemode": false, "metadata": object{},
		"type": methodType(id)}
}

func invalid(param, message string) apiError { return invalidCode("", param, message) }

func invalidCode(code, param, message string) apiError {
	return apiError{status: http.StatusBadRequest, kind: invalidRequest, code: code, param: param, message: message}
}

func missing(param string) apiError {
	return invalidCode("parameter_missing", param, "Missing required param: "+param+".")
}

func noSuch(what, param, id string) apiError {
	return apiError{status: http.StatusNotFound, kind: invalidRequest, code: "resource_missing", param: param,
		message: "No such " + what + ": '" + id + "'"}
}

func serverError() apiError {
	return apiError{status: http.StatusInternalServerError, kind: apiFailure,
		message: "An unknown error occurred."}
}

func rateLimited() apiError {
	return apiError{status: http.StatusTooManyRequests, kind: invalidRequest, code: "rate_limit",
		message: "Request rate limit exceeded. Retry with exponential backoff."}
}

// lockTimeout refuses a request whose execution has met another one. It has the status of the rate limiter, which
// refuses before any execution (docs.stripe.com/rate-limits#object-lock-timeouts). Only the code tells them apart. A
// 409 is the refusal of a key that is in use.
func lockTimeout() apiError {
	return apiError{status: http.StatusTooManyRequests, kind: invalidRequest, code: "lock_timeout",
		message: "This object cannot be accessed right now because another API request or process is accessing it."}
}

// unexpectedState refuses to confirm or cancel an intent that is beyond it.
func unexpectedState(verb string, current *intent) apiError {
	return apiError{status: http.StatusBadRequest, kind: invalidRequest, code: "payment_intent_unexpected_state",
		message: "You cannot " + verb + " this PaymentIntent because it has a status of " + current.Status + ".",
		intent:  current}
}
