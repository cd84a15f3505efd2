package problem

// Code names one kind of failure. It is the machine-readable member of every problem document, the last segment of its
// type URL and the path of the page that explains it. Codes are part of the public contract: none is renamed.
type Code string

// The catalogue's codes, grouped by who can do something about them.
const (
	// The request cannot be understood or is not allowed.
	IdempotencyKeyMissing Code = "idempotency_key_missing"
	IdempotencyKeyInvalid Code = "idempotency_key_invalid"
	InvalidRequest        Code = "invalid_request"
	Unauthenticated       Code = "unauthenticated"
	Forbidden             Code = "forbidden"
	NotFound              Code = "not_found"
	MethodNotAllowed      Code = "method_not_allowed"
	BodyTooLarge          Code = "body_too_large"
	UnsupportedMediaType  Code = "unsupported_media_type"
	RateLimited           Code = "rate_limited"

	// A webhook cannot be taken for genuine.
	WebhookSignatureInvalid Code = "webhook_signature_invalid"

	// The payment provider refused.
	PaymentDeclined Code = "payment_declined"
	RefundDeclined  Code = "refund_declined"

	// The state of a key or of a payment stands in the way.
	IdempotencyKeyInProgress                 Code = "idempotency_key_in_progress"
	IdempotencyKeyHeld                       Code = "idempotency_key_held"
	IdempotencyKeyReusedWithDifferentPayload Code = "idempotency_key_reused_with_different_payload"
	IdempotencyKeyExpired                    Code = "idempotency_key_expired"
	RefundExceedsPayment                     Code = "refund_exceeds_payment"
	PaymentNotRefundable                     Code = "payment_not_refundable"

	// What a merchant wants to hear of events stands in the way.
	TooManyEndpoints Code = "too_many_endpoints"
	EventsOff        Code = "events_off"
	EventGone        Code = "event_gone"

	// A dead letter, or what is known of its key, stands in an operator's way.
	ActionNotApplicable     Code = "action_not_applicable"
	DeadLetterConflict      Code = "dead_letter_conflict"
	DeadLetterNeedsDecision Code = "dead_letter_needs_decision"
	OperatorContradictsPSP  Code = "operator_contradicts_psp"
	GracePeriodOpen         Code = "grace_period_open"

	// The service or something behind it is not able to answer.
	InternalError               Code = "internal_error"
	IdempotencyStoreUnavailable Code = "idempotency_store_unavailable"
	PSPUnavailable              Code = "psp_unavailable"
	ShuttingDown                Code = "shutting_down"
	WebhooksNotConfigured       Code = "webhooks_not_configured"
)
