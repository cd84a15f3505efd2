package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"strings"
	"sync"
	"time"
)

// What happens without the client: unknown keys are looked up until their outcome is known.

// reconcile works until ctx ends. Several processes may do so at once.
func (s *service) reconcile(ctx context.Context) {
	for tick := time.Tick(200 * time.Millisecond); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
		if err := s.reconcileOnce(ctx); err != nil {
			log.Printf("reconciliation failed: %v", err)
		}
	}
}

func (s *service) reconcileOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.pspTimeout+2*storeTimeout)
	defer cancel()
	due, err := s.store.claimDue(ctx, s.lease+s.lateLimit)
	var lookups sync.WaitGroup
	for _, r := range due {
		lookups.Go(func() { s.resolve(ctx, r) })
	}
	lookups.Wait()
	return err
}

// resolve asks the PSP what has become of a key. If another process has stored an outcome since, apply writes nothing.
func (s *service) resolve(ctx context.Context, r row) {
	asking, cancel := context.WithTimeout(ctx, s.pspTimeout)
	defer cancel()
	c, found, err := s.psp.lookup(asking, r.payment)
	switch {
	case err != nil: // claimDue has set when to ask again
	case found:
		_, err = s.apply(ctx, r.payment, c, nil)
	case r.proof:
		_, err = s.apply(ctx, r.payment, c, errNotExecuted)
	}
	if err != nil {
		log.Printf("look up %s: %v", r.ID, err)
	}
}

// postWebhook takes a webhook as a reason to ask the PSP now, and believes nothing else that it says. So a webhook that
// is old, repeated or out of order does no harm.
func (s *service) postWebhook(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10))
	if err != nil || !s.signed(r.Header, body) {
		problem(http.StatusUnauthorized, "webhook_signature_invalid", "The signature is wrong or too old.").write(w)
		return
	}
	var event struct{ Data charge }
	_ = json.Unmarshal(body, &event) // an event of another form is about no key
	if err := s.store.doubt(r.Context(), event.Data.Account, event.Data.IdempotencyKey); err != nil {
		problem(http.StatusServiceUnavailable, "store_unavailable", "Send the webhook again.").write(w)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// signed verifies the signature over the bytes as they came (standardwebhooks.com).
func (s *service) signed(h http.Header, body []byte) (valid bool) {
	id, timestamp := h.Get("Webhook-Id"), h.Get("Webhook-Timestamp")
	seconds, _ := time.ParseDuration(timestamp + "s")
	age := time.Since(time.Unix(0, 0).Add(seconds)).Abs()
	mac := hmac.New(sha256.New, s.webhookKey)
	fmt.Fprintf(mac, "%s.%s.%s", id, timestamp, body)
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	for given := range strings.FieldsSeq(h.Get("Webhook-Signature")) {
		valid = valid || hmac.Equal([]byte(given), []byte(want)) // in constant time
	}
	return valid && age <= 5*time.Minute
}
