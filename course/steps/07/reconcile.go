package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// What happens without the client: unknown keys are looked up until their outcome is known.

// reconcile works until ctx ends. Several processes may do so at once.
func (s *service) reconcile(ctx context.Context) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		if err := s.reconcileOnce(ctx); err != nil {
			slog.Error("reconciliation failed", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

func (s *service) reconcileOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.pspTimeout+2*storeTimeout)
	defer cancel()
	if err := s.store.endLeases(ctx); err != nil {
		return err
	}
	if err := s.store.expire(ctx, s.retention); err != nil {
		return err
	}
	due, err := s.store.claimDue(ctx, s.lease+s.lateLimit)
	var lookups sync.WaitGroup
	for _, r := range due {
		lookups.Go(func() { s.resolve(ctx, r) })
	}
	lookups.Wait()
	return err
}

// resolve asks the PSP what has become of a key. Whatever happens in between, the fence holds: if somebody else has
// stored an outcome or begun another attempt, nothing is written.
func (s *service) resolve(ctx context.Context, r row) {
	asking, cancel := context.WithTimeout(ctx, s.pspTimeout)
	defer cancel()
	c, found, err := s.psp.lookup(asking, r.payment)
	switch {
	case err != nil: // claimDue has set when to ask again
	case found:
		_, err = s.store.complete(ctx, r.payment, c, finalAnswer(r.payment, c))
	case r.proof:
		err = s.store.release(ctx, r.payment)
	}
	if err != nil {
		slog.Warn("lookup failed", "payment", r.ID, "error", err)
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
	if err := json.Unmarshal(body, &event); err == nil {
		err = s.store.makeDue(r.Context(), event.Data.Account, lifePattern.ReplaceAllString(event.Data.IdempotencyKey, ""))
		if err != nil {
			problem(http.StatusServiceUnavailable, "store_unavailable", "Send it again.").write(w)
			return
		}
	}
	w.WriteHeader(http.StatusNoContent)
}

// signed verifies the signature as Standard Webhooks says, over the bytes as they came.
func (s *service) signed(h http.Header, body []byte) bool {
	at, err := strconv.ParseInt(h.Get("Webhook-Timestamp"), 10, 64)
	if err != nil || time.Since(time.Unix(at, 0)).Abs() > 5*time.Minute {
		return false
	}
	mac := hmac.New(sha256.New, s.webhookKey)
	fmt.Fprintf(mac, "%s.%d.%s", h.Get("Webhook-Id"), at, body)
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	valid := false
	for signature := range strings.FieldsSeq(h.Get("Webhook-Signature")) {
		valid = hmac.Equal([]byte(signature), []byte(want)) || valid // takes the same time for every wrong one
	}
	return valid
}
