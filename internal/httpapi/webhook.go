package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"payonce/internal/gateway"
	"payonce/internal/postgres"
	"payonce/internal/problem"
	"payonce/internal/webhooks"
)

// Limits of the body of a webhook, in bytes. It is larger than other bodies, because PSPs send whole objects. Nobody
// has verified a body that is being read, and every connection may send one. So only maxLarge bodies are read at once
// beyond usualWebhook, and others wait, for as long as one may take.
const (
	maxWebhook   = 1 << 20
	usualWebhook = 64 << 10
	maxLarge     = 32
	largeLimit   = 10 * time.Second
)

// afterUnconfigured is the Retry-After, in seconds, of a webhook that cannot be verified because no secret is
// configured. An administrator has to set the secret first. It is for PSPs: callers come back sooner.
const afterUnconfigured = "60"

// takeWebhook stores a genuine message of the PSP. A job acts on it later. It answers 204 only if the message, and its
// job if it needs one, are durable. After any other answer, the PSP sends the message again.
func (a *API) takeWebhook(w http.ResponseWriter, r *http.Request, receiver *webhooks.Receiver) {
	if receiver == nil {
		// Not a 404: after a 404, the PSP might give up, and the message would be lost before the secret is set.
		w.Header().Set("Retry-After", afterUnconfigured)
		a.refuse(w, r, problem.WebhooksNotConfigured, "This server has no webhook secret for this path, so it takes no webhooks here.")
		return
	}
	large := &largeBody{ReadCloser: r.Body, w: w, now: a.config.Now, places: a.large, left: usualWebhook + 1}
	r.Body = large
	body, bad := readJSON(w, r, maxWebhook, "The body of a webhook must not exceed 1 MiB.")
	large.leave()
	if large.crowded {
		a.refuseWebhook(w, r, &postgres.UnavailableError{Op: "read a large webhook", Err: errCrowded})
		return
	}
	if bad != nil {
		result := "malformed"
		if bad.code == problem.BodyTooLarge {
			result = "too_large"
		}
		a.config.Metrics.WebhookReceived(result)
		a.fail(w, r, bad)
		return
	}
	// A sender that hangs up now sends again. Cancelling the transaction would close a connection of the pool each
	// time.
	receipt, err := receiver.Receive(context.WithoutCancel(r.Context()), r.Header, body)
	if err != nil {
		a.refuseWebhook(w, r, err)
		return
	}
	a.config.Metrics.WebhookReceived(string(receipt))
	if receipt == webhooks.Ignored {
		a.config.Metrics.Foreign("event", 1)
	}
	noContent(w)
}

// refuseWebhook answers why a message was refused. It does not say which secret was tried.
func (a *API) refuseWebhook(w http.ResponseWriter, r *http.Request, err error) {
	if refused, ok := errors.AsType[*gateway.VerifyError](err); ok {
		a.config.Metrics.WebhookReceived(ungenuine(err))
		// RFC 9110, section 15.5.2, asks for a challenge. There is no registered scheme for signed messages.
		w.Header().Set("WWW-Authenticate", refused.Challenge)
		a.refuse(w, r, problem.WebhookSignatureInvalid, refused.Detail)
		return
	}
	a.config.Metrics.WebhookReceived("store_error")
	a.failUntil(w, r, err, "Send the webhook again.")
}

// ungenuine is the name in the metrics of a message that is not genuine.
func ungenuine(err error) string {
	switch {
	case errors.Is(err, gateway.ErrSignature):
		return "bad_signature"
	case errors.Is(err, gateway.ErrStale):
		return "stale"
	}
	return "malformed"
}

// largeBody is a body that takes a place before it is read beyond what is usual.
type largeBody struct {
	io.ReadCloser
	w      http.ResponseWriter
	now    func() time.Time
	places chan struct{}
	left   int64 // of what is usual
	taken  bool
	// crowded: there was no place in time.
	crowded bool
}

var errCrowded = errors.New("too many large bodies are read at once")

func (b *largeBody) Read(p []byte) (int, error) {
	if b.left <= 0 && !b.taken {
		if err := b.take(); err != nil {
			return 0, err
		}
	}
	if !b.taken {
		p = p[:min(int64(len(p)), b.left)]
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	return n, err
}

// take waits for a place. The time to read begins again then, so that who has waited can be read.
func (b *largeBody) take() error {
	select {
	case b.places <- struct{}{}:
		b.taken = true
		_ = http.NewResponseController(b.w).SetReadDeadline(b.now().Add(largeLimit)) // Without it, it ends sooner.
		return nil
	case <-time.After(largeLimit):
		b.crowded = true
		return errCrowded
	}
}

func (b *largeBody) leave() {
	if b.taken {
		<-b.places
	}
}
