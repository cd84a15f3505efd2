package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"payonce/internal/postgres"
	"payonce/internal/problem"
	"payonce/internal/webhooks"
)

// maxWebhook bounds the body of a webhook, in bytes. It is larger than other bodies, because PSPs send whole objects.
const maxWebhook = 64 << 10

// afterUnconfigured is the Retry-After of a webhook that cannot be verified because no secret is configured. An
// administrator has to set the secret first.
const afterUnconfigured = time.Minute

// takeWebhook stores a genuine message of the PSP. It does not read what the message says; a job does that later. It
// answers 204 only if the message and its job are durable. After any other answer, the PSP sends the message again.
func (a *API) takeWebhook(w http.ResponseWriter, r *http.Request) {
	if a.webhooks == nil {
		// Not a 404: after a 404, the PSP might give up, and the message would be lost before the secret is set.
		retryAfter(w, afterUnconfigured)
		a.refuse(w, r, problem.WebhooksNotConfigured, "This server has no webhook secret, so it takes no webhooks.")
		return
	}
	body, bad := readJSON(w, r, maxWebhook, "The body of a webhook must not exceed 64 KiB.")
	if bad != nil {
		a.metrics.WebhookReceived(unreadable(bad.code))
		a.refuse(w, r, bad.code, bad.detail, bad.errors...)
		return
	}
	// A sender that hangs up now sends again. Cancelling the transaction would close a connection of the pool each
	// time.
	receipt, err := a.webhooks.Receive(context.WithoutCancel(r.Context()), webhooks.Delivery{
		ID: header(r, "Webhook-Id"), Timestamp: header(r, "Webhook-Timestamp"),
		Signature: header(r, "Webhook-Signature"), Body: body,
	})
	if err != nil {
		a.refuseWebhook(w, r, err)
		return
	}
	switch receipt.(type) {
	case webhooks.Received:
		a.metrics.WebhookReceived("stored")
	case webhooks.Duplicate:
		a.metrics.WebhookReceived("duplicate")
	}
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusNoContent)
}

// refuseWebhook answers why a message was refused. It does not say which secret was tried.
func (a *API) refuseWebhook(w http.ResponseWriter, r *http.Request, err error) {
	for _, row := range []struct {
		is             error
		result, detail string
	}{
		{webhooks.ErrHeaderMissing, "malformed",
			"Send the headers webhook-id, webhook-timestamp and webhook-signature."},
		{webhooks.ErrMalformed, "malformed",
			"webhook-id must be 1 to 255 printable ASCII characters without spaces and full stops, webhook-timestamp whole seconds since 1970; each once."},
		{webhooks.ErrSignature, "bad_signature", "No signature in webhook-signature is one of this webhook."},
		{webhooks.ErrStale, "stale",
			"webhook-timestamp is too far from now. Sign each attempt again, with the time of the attempt."},
	} {
		if errors.Is(err, row.is) {
			a.metrics.WebhookReceived(row.result)
			// RFC 9110, section 15.5.2, asks for a challenge. There is no registered scheme for signed messages.
			w.Header().Set("WWW-Authenticate", "StandardWebhooks")
			a.refuse(w, r, problem.WebhookSignatureInvalid, row.detail)
			return
		}
	}
	a.metrics.WebhookReceived("store_error")
	retryAfter(w, afterStoreFailure)
	if postgres.Unavailable(err) {
		a.log.WarnContext(r.Context(), "webhook refused for now", slog.String("request_id", requestIDOf(r)),
			slog.Any("error", err))
		a.refuse(w, r, problem.IdempotencyStoreUnavailable, "The store is not available. Send the webhook again.")
		return
	}
	a.log.ErrorContext(r.Context(), "webhook failed", slog.String("request_id", requestIDOf(r)), slog.Any("error", err))
	a.refuse(w, r, problem.InternalError, "Something went wrong on our side. Send the webhook again.")
}

// unreadable is the name in the metrics of a message that could not be read.
func unreadable(code problem.Code) string {
	if code == problem.BodyTooLarge {
		return "too_large"
	}
	return "malformed"
}

// header is the value of a header. If the header is repeated, the values are joined by spaces. That is a list of
// signatures, and not valid for any other header.
func header(r *http.Request, name string) string { return strings.Join(r.Header.Values(name), " ") }
