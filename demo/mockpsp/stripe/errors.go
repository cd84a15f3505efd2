package stripe

import (
	"net/http"

	"payonce/demo/mockpsp"
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
}

func (e apiError) Error() string { return e.kind + ": " + e.message }

// body renders the error as Stripe does.
func (e apiError) body() []byte {
	type detail struct {
		Type        string `json:"type"`
		Code        string `json:"code,omitempty"`
		DeclineCode string `json:"decline_code,omitempty"`
		DocURL      string `json:"doc_url,omitempty"`
		Message     string `json:"message"`
		Param       string `json:"param,omitempty"`
		Charge      string `json:"charge,omitempty"`
		Intent      object `json:"payment_intent,omitempty"`
	}
	d := detail{
		Type: e.kind, Code: e.code, DeclineCode: e.decline, Message: e.message, Param: e.param, Charge: e.charge,
	}
	if e.code != "" {
		d.DocURL = "https://stripe.com/docs/error-codes/" + e.code
	}
	if e.intent != nil {
		d.Intent = e.intent.shown()
	}
	return mockpsp.Render(map[string]detail{"error": d})
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
