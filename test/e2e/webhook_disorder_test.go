package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"payonce/demo/mockpsp"
	"payonce/internal/config"
)

// What webhooks do to keys when they come twice, late, early, in any order, from anybody and about anything.

// reconciledByWebhook is a world in which nothing but webhooks resolves a key.
func reconciledByWebhook(t *testing.T, with ...func(*options)) *world {
	t.Helper()
	w := setupOpen(t, append(with, shared(noLookups))...)
	w.reconcile()
	return w
}

// lost is a payment that was charged, and whose answer and webhook never came.
func (w *world) lost() (key, charge string) {
	w.t.Helper()
	w.disorder(`"drop":1`)
	key = freshKey()
	w.pay(key, "pm_reset_charged").expect(w.t, http.StatusAccepted, "")
	w.disorder("")
	return key, w.ledger("acme", key).Charges[0].ID
}

// signed posts a webhook of our own making, under the PSP's secret.
func (w *world) signed(id, body string) {
	w.t.Helper()
	w.deliver(id, body).expect(w.t, http.StatusNoContent, "")
}

// deliver sends a genuine webhook.
func (w *world) deliver(id, body string) reply {
	w.t.Helper()
	secret, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(mockpsp.DemoWebhookSecret, "whsec_"))
	if err != nil {
		w.t.Fatal(err)
	}
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "%s.%s.%s", id, stamp, body)
	return w.do(call{method: "POST", path: "/webhooks/psp", as: "-", body: body, header: http.Header{
		"Webhook-Id": {id}, "Webhook-Timestamp": {stamp},
		"Webhook-Signature": {"v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))},
	}})
}

// chargeEvent is the body of a webhook about a charge of acme's.
func chargeEvent(status, charge, key, reference string) string {
	decline := ""
	if status == "declined" {
		decline = `,"declineCode":"insufficient_funds"`
	}
	return fmt.Sprintf(`{"type":"charge.%[1]s","timestamp":"2026-01-02T03:04:05.000000Z","data":{"id":%[2]q,"object":"charge","account":"acme",`+
		`"idempotencyKey":%[3]q,"reference":%[4]q,"amountCents":12000,"currency":"USD","status":%[1]q%[5]s,"createdAt":"2026-01-02T03:04:05.000000Z"}}`,
		status, charge, key, reference, decline)
}

func TestWebhooksInAnyOrderCompleteEachKeyOnce(t *testing.T) {
	t.Parallel()
	w := reconciledByWebhook(t, func(o *options) {
		o.psp = func(c *mockpsp.Config) { c.WebhookExtraDelay = 300 * time.Millisecond }
	})
	w.disorder(`"duplicate":1,"reorder":1,"delay":1,"forge":1`)
	keys := make([]string, 8)
	for i := range keys {
		keys[i] = freshKey()
		w.pay(keys[i], "pm_reset_charged").expect(t, http.StatusAccepted, "")
	}
	for _, key := range keys {
		w.becomes(key, "completed")
	}
	eventually(t, "the arrival of every copy and every forgery", func() bool {
		return w.metric(`payonce_webhooks_total{result="duplicate"}`) == len(keys) &&
			w.metric(`payonce_webhooks_total{result="bad_signature"}`) == len(keys)
	})
	w.processed(len(keys))
	for _, key := range keys {
		w.wantMoves(key, "owner: in_progress > unknown", "webhook: unknown > completed")
		w.replaysSuccess(key, func() reply { return w.pay(key, "pm_reset_charged") })
	}
	if n := w.count("SELECT count(*) FROM river_job WHERE kind = 'webhook'"); n != len(keys) {
		t.Fatalf("%d jobs for %d events", n, len(keys))
	}
	if n := w.count("SELECT count(*) FROM dead_letters"); n != 0 {
		t.Fatalf("%d dead letters", n)
	}
}

func TestForgedAndStaleWebhooksMoveNothing(t *testing.T) {
	t.Parallel()
	w := reconciledByWebhook(t)
	key, charge := w.lost()
	for _, disorder := range []string{"forge", "stale"} {
		if got := w.sendWebhook(charge, disorder); !slices.Equal(got, []int{http.StatusUnauthorized}) {
			t.Fatalf("%s: answered %v", disorder, got)
		}
	}
	if n := w.count("SELECT count(*) FROM webhook_events") +
		w.count("SELECT count(*) FROM river_job WHERE kind = 'webhook'"); n != 0 {
		t.Fatal("something of them was kept")
	}
	w.wantMoves(key, "owner: in_progress > unknown")
	// What makes them different is the signature alone.
	if got := w.sendWebhook(charge, "duplicate"); !slices.Equal(got,
		[]int{http.StatusNoContent, http.StatusNoContent}) {
		t.Fatalf("answered %v", got)
	}
	w.becomes(key, "completed")
	w.processed(1)
	w.wantMoves(key, "owner: in_progress > unknown", "webhook: unknown > completed")
}

// answerGate holds the answers of charges back that the PSP has made.
type answerGate struct{ *gate }

func (g answerGate) wrap(psp http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			psp.ServeHTTP(rw, r)
			return
		}
		answer := httptest.NewRecorder()
		psp.ServeHTTP(answer, r)
		g.arrived <- struct{}{}
		select {
		case <-g.opened:
		case <-r.Context().Done():
		}
		rw.Header().Set("Content-Type", answer.Header().Get("Content-Type"))
		rw.WriteHeader(answer.Code)
		_, _ = rw.Write(answer.Body.Bytes())
	})
}

// unhurried gives the owner time: it is the test that ends its wait.
func unhurried(o *options) {
	shared(func(s *config.Shared) { s.PSPTotal, s.Lease = 10*time.Second, 30*time.Second })(o)
}

func TestWebhookThatOutrunsTheAnswerIsTheAnswer(t *testing.T) {
	t.Parallel()
	held := answerGate{newGate()}
	w := reconciledByWebhook(t, unhurried, func(o *options) { o.between = held.wrap })
	key := freshKey()
	owner := w.inBackground(paymentOf(key, "pm_ok"))
	held.awaitArrival(t)
	if got := w.sendWebhook(w.ledger("acme", key).Charges[0].ID, ""); !slices.Equal(got, []int{http.StatusNoContent}) {
		t.Fatalf("answered %v", got)
	}
	w.becomes(key, "completed")
	w.wantMoves(key, "webhook: in_progress > completed")
	retry := w.pay(key, "pm_ok")
	retry.expect(t, http.StatusCreated, "")
	held.open()
	r := <-owner
	r.same(t, retry)
	if r.header.Get("Idempotent-Replayed") != "false" || retry.header.Get("Idempotent-Replayed") != "true" {
		t.Fatalf("the owner's answer calls itself a replay: %v", r.header)
	}
	w.replaysSuccess(key, func() reply { return w.pay(key, "pm_ok") })
	w.wantMoves(key, "webhook: in_progress > completed")
}

// The key is free, and the client has not come back: the evidence completes it, and nobody executes it again.
func TestWebhookAfterTheReleaseCompletesTheKey(t *testing.T) {
	t.Parallel()
	var way way
	w := setupOpen(t, func(o *options) { o.between = way.wrap })
	w.reconcile()
	key := freshKey()
	way.loseRequests(key)
	lost := w.pay(key, "pm_ok")
	lost.expect(t, http.StatusAccepted, "")
	w.becomes(key, "failed_retryable")
	w.chargeByHand("acme", key, lost.text(t, "paymentId"))
	w.becomes(key, "completed")
	w.wantMoves(key, "owner: in_progress > unknown", "lookup: unknown > failed_retryable",
		"webhook: failed_retryable > completed")
	w.replaysSuccess(key, func() reply { return w.pay(key, "pm_ok") })
}
