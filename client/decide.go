package client

import (
	"net/http"
	"slices"
)

// Meaning is what an answer to POST /payments means for the key that was sent.
type Meaning string

// The meanings. Only Paid and Declined end an intent.
const (
	// Paid: the customer was charged, once.
	Paid Meaning = "paid"
	// Declined: the PSP refused the charge. Nothing was charged under this key, and nothing will be while the server
	// keeps the key. If the customer tries again, that is a new intent with a new key.
	Declined Meaning = "declined"
	// Again: nothing is decided. Wait, and send the same key with the same bytes again.
	Again Meaning = "send the same key again"
	// Ask: the server has accepted the request, and does not know the outcome yet. Wait, and send the same key again,
	// which is the way to ask.
	Ask Meaning = "ask with the same key"
	// Refused: this request was refused and has not used the key. The same request will be refused again. Correct it,
	// and use the same key.
	Refused Meaning = "correct the request, keep the key"
	// Stuck: the key exists at the server and cannot be executed for this request. A program must not use another key.
	// A person finds out what became of the payment first.
	Stuck Meaning = "never a new key: ask a person"
	// Foreign: POST /payments does not have this answer. It says nothing about the key, as if no answer had come.
	Foreign Meaning = "no answer to a payment: send the same key again"
)

// Row is one line of the table: an answer and its meaning.
type Row struct {
	Status  int
	Code    string // the problem's member code; empty for an answer that is no problem
	Meaning Meaning
	// Untouched says that the request did not touch the key. If all answers so far are untouched, nothing can have been
	// executed under the key.
	Untouched bool
}

// table has a line for each answer of the API. A contract test compares it with the problem catalogue and with
// openapi.yaml.
var table = []Row{
	{http.StatusCreated, "", Paid, false},
	{http.StatusAccepted, "", Ask, false},

	{http.StatusBadRequest, "idempotency_key_invalid", Refused, true},
	{http.StatusBadRequest, "idempotency_key_missing", Refused, true},
	{http.StatusBadRequest, "invalid_request", Refused, true},
	{http.StatusUnauthorized, "unauthenticated", Refused, true},
	{http.StatusPaymentRequired, "payment_declined", Declined, false},
	{http.StatusForbidden, "forbidden", Refused, true},
	{http.StatusNotFound, "not_found", Refused, true},
	{http.StatusMethodNotAllowed, "method_not_allowed", Refused, true},
	{http.StatusConflict, "idempotency_key_in_progress", Again, false},
	{http.StatusConflict, "idempotency_key_held", Again, false},
	{http.StatusGone, "idempotency_key_expired", Stuck, false},
	{http.StatusRequestEntityTooLarge, "body_too_large", Refused, true},
	{http.StatusUnsupportedMediaType, "unsupported_media_type", Refused, true},
	{http.StatusUnprocessableEntity, "idempotency_key_reused_with_different_payload", Stuck, false},
	{http.StatusTooManyRequests, "rate_limited", Again, true},
	{http.StatusInternalServerError, "internal_error", Again, false},
	{http.StatusServiceUnavailable, "idempotency_store_unavailable", Again, false},
	{http.StatusServiceUnavailable, "psp_unavailable", Again, false},
	{http.StatusServiceUnavailable, "shutting_down", Again, true},

	// Answers of other operations.
	{http.StatusUnauthorized, "webhook_signature_invalid", Foreign, false},
	{http.StatusPaymentRequired, "refund_declined", Foreign, false},
	{http.StatusConflict, "action_not_applicable", Foreign, false},
	{http.StatusConflict, "dead_letter_conflict", Foreign, false},
	{http.StatusConflict, "dead_letter_needs_decision", Foreign, false},
	{http.StatusConflict, "events_off", Foreign, false},
	{http.StatusConflict, "grace_period_open", Foreign, false},
	{http.StatusConflict, "operator_contradicts_psp", Foreign, false},
	{http.StatusConflict, "payment_not_refundable", Foreign, false},
	{http.StatusConflict, "refund_exceeds_payment", Foreign, false},
	{http.StatusConflict, "too_many_endpoints", Foreign, false},
	{http.StatusGone, "event_gone", Foreign, false},
	{http.StatusServiceUnavailable, "webhooks_not_configured", Foreign, false},
}

// Table returns the table of answers. The caller owns the slice.
func Table() []Row { return slices.Clone(table) }

// decide looks an answer up. The zero status is no answer: a timeout, a reset, a body that was cut. An answer that the
// table does not have, such as the 400 or 502 of a gateway in between, says no more than that.
func decide(status int, code string) Row {
	for _, row := range table {
		if row.Status == status && row.Code == code {
			return row
		}
	}
	return Row{Status: status, Code: code, Meaning: Foreign}
}
