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
	"payonce/internal/postgres"
	"payonce/test/heldport"
	"payonce/test/pgproxy"
	"payonce/test/pgtest"
)

// What was not answered 204 comes again, and what was is not lost.

// persistent is a PSP that tries its webhooks again quickly.
func persistent(c *mockpsp.Config) {
	c.WebhookSchedule = slices.Repeat([]time.Duration{100 * time.Millisecond}, 100)
}

// failedTries counts the tries of webhooks that were not taken.
func (w *world) failedTries() (n int) {
	w.t.Helper()
	var seen struct {
		Tries []struct {
			Status int `json:"status"`
		} `json:"tries"`
	}
	w.askPSP("/_webhooks", &seen)
	for _, try := range seen.Tries {
		if try.Status != http.StatusNoContent {
			n++
		}
	}
	return n
}

func TestDroppedWebhookIsMadeUpForByALookup(t *testing.T) {
	if testing.Short() {
		t.Skip("long: it waits for lookups")
	}
	t.Parallel()
	w := setupOpen(t, shared(func(c *config.Shared) { c.FirstLookup = 100 * time.Millisecond }))
	w.reconcile()
	w.disorder(`"drop":1`)
	key := freshKey()
	w.pay(key, "pm_timeout_charged").expect(t, http.StatusAccepted, "")
	resolvedBy("lookup")(w, key, func() reply { return w.pay(key, "pm_timeout_charged") })
	if n := w.count("SELECT count(*) FROM webhook_events"); n != 0 {
		t.Fatal("the webhook was not dropped")
	}
}

func TestWebhookThatMetNoReceiverComesAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("long: it waits for a webhook to come again")
	}
	t.Parallel()
	address := heldport.Address(t)
	w := reconciledByWebhook(t, func(o *options) {
		o.psp = func(c *mockpsp.Config) {
			persistent(c)
			c.WebhookURL = "http://" + address + "/webhooks/psp"
		}
	})
	receiving := func(c *config.API) { c.HTTPAddr, c.WebhookSecrets = address, w.own.WebhookSecrets }
	receiver := w.run(receiving)
	first := freshKey()
	w.pay(first, "pm_reset_charged").expect(t, http.StatusAccepted, "")
	w.becomes(first, "completed")
	receiver.interrupt()
	if err := receiver.end(); err != nil {
		t.Fatal(err)
	}

	key := freshKey()
	w.pay(key, "pm_reset_charged").expect(t, http.StatusAccepted, "")
	eventually(t, "a try that finds nobody", func() bool { return w.failedTries() > 0 })
	w.wantMoves(key, "owner: in_progress > unknown")
	w.run(receiving)
	resolvedBy("webhook")(w, key, func() reply { return w.pay(key, "pm_reset_charged") })
}

func TestWebhookThatMetNoDatabaseComesAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("long: it waits for a webhook to come again")
	}
	t.Parallel()
	var proxy *pgproxy.Proxy
	w := setupOpen(t, shared(noLookups), func(o *options) {
		o.psp = persistent
		o.database = func(url string) string {
			proxy = pgproxy.Start(t, url)
			return proxy.URL()
		}
	})
	straight := func(c *config.Reconciler) {
		c.DatabaseURL = pgtest.As(t, w.db.Config().ConnString(), postgres.Reconciler)
	}
	w.reconcile(straight)
	key, charge := w.lost()
	proxy.Down()
	if got := w.sendWebhook(charge, ""); !slices.Equal(got, []int{http.StatusServiceUnavailable}) {
		t.Fatalf("without a database the receiver answers %v", got)
	}
	proxy.Up(t)

	// Stored, and the receiver does not hear of it: what comes again is a duplicate, and no second job.
	lost := proxy.On("StoreEvents", pgproxy.DropAcknowledgement)
	if got := w.sendWebhook(charge, ""); !slices.Equal(got, []int{http.StatusNoContent}) &&
		!slices.Equal(got, []int{http.StatusServiceUnavailable}) {
		t.Fatalf("answered %v", got)
	}
	lost.Await(t)
	if got := w.sendWebhook(charge, ""); !slices.Equal(got, []int{http.StatusNoContent}) {
		t.Fatalf("answered %v", got)
	}
	resolvedBy("webhook")(w, key, func() reply { return w.pay(key, "pm_reset_charged") })
	if n := w.count("SELECT count(*) FROM river_job WHERE kind = 'webhook'"); n != 1 {
		t.Fatalf("%d jobs for one event", n)
	}
	// The PSP's own tries, while the database is away.
	proxy.Down()
	entry := w.chargeByHand("acme", "somebody-elses-key", "invoice-7")
	eventually(t, "a try that finds no database", func() bool { return w.failedTries() > 1 })
	proxy.Up(t)
	eventually(t, "a dead letter", func() bool {
		return w.count("SELECT count(*) FROM dead_letters WHERE evidence::text LIKE '%' || $1 || '%'", entry) == 1
	})
}

// What is genuine and does not fit becomes an operator's case. It moves nothing.

func TestMovementsThatNobodyAskedForAreDeadLetters(t *testing.T) {
	t.Parallel()
	w := reconciledByWebhook(t)
	ours := w.pay(freshKey(), "pm_ok")
	key, lost := ours.header.Get("Idempotency-Key"), freshKey()
	for name, c := range map[string]struct {
		kind, key string // the key that the dead letter holds
		make      func() (entry string)
	}{
		"a charge of our account under no key of ours": {"unknown_movement", "somebody-elses-key", func() string {
			return w.chargeByHand("acme", "somebody-elses-key", "invoice-7")
		}},
		"a charge that names a payment that is not there": {"unknown_movement", lost, func() string {
			return w.chargeByHand("acme", lost, "pay_01m7x7anyhem5aw4az5p0n4qjw")
		}},
		"a charge of another tenant's account for our payment": {"other_account", "", func() string {
			return w.chargeByHand("globex", freshKey(), ours.text(t, "paymentId"))
		}},
	} {
		entry := c.make()
		eventually(t, "a dead letter of "+name, func() bool {
			return w.count("SELECT count(*) FROM dead_letters WHERE kind = $1 AND coalesce(key, '') = $2"+
				" AND evidence::text LIKE '%' || $3 || '%'", c.kind, c.key, entry) == 1
		})
	}
	if n := w.count("SELECT count(*) FROM dead_letters"); n != 3 {
		t.Fatalf("%d dead letters, want 3", n)
	}
	// Nothing of it may reach the tenants: not the payment, not its timeline, not a payment that nobody made.
	w.wantNeverLost(key)
	if inspected := w.inspect(key, ""); strings.Contains(string(inspected.body), "globex") {
		t.Fatalf("another tenant's account is told: %s", inspected.body)
	}
	if acme, globex := w.list(acmeKey, ""), w.list(globexKey, ""); len(acme.Data) != 1 || len(globex.Data) != 0 {
		t.Fatalf("payments are %+v and %+v", acme.Data, globex.Data)
	}
}

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
