package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"payonce/demo/mockpsp"
	"payonce/internal/config"
	"payonce/internal/postgres"
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
	address := freeAddress(t)
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
	lost := proxy.On("commit", pgproxy.DropAcknowledgement)
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

func TestWebhookThatContradictsAnAnsweredResultChangesNothing(t *testing.T) {
	t.Parallel()
	w := reconciledByWebhook(t)
	for kind, event := range map[string]func(charge, key, payment string) string{
		"contradicts_completed": func(charge, key,
			payment string) string {
			return chargeEvent("declined", charge, key, payment)
		},
		"duplicate_movement": func(_, key, payment string) string {
			return chargeEvent("succeeded", "ch_another",
				key, payment)
		},
	} {
		key := freshKey()
		answered := w.pay(key, "pm_ok")
		answered.expect(t, http.StatusCreated, "")
		payment := answered.text(t, "paymentId")
		body := event(answered.text(t, "pspChargeId"), key, payment)
		w.signed("evt_"+kind, body)
		w.awaitDeadLetter(kind, key)
		w.signed("evt_again_"+kind, body) // as another event: still the same case
		eventually(t, "the processing", func() bool {
			return w.count("SELECT count(*) FROM webhook_events WHERE id LIKE '%' || $1 AND result = 'dead_letter'",
				kind) == 2
		})
		w.awaitDeadLetter(kind, key)
		w.wantNeverLost(key)
		again := w.pay(key, "pm_ok")
		again.same(t, answered)
		if shown := w.do(call{method: "GET", path: "/payments/" +
			payment}); string(shown.body) != string(answered.body) {
			t.Fatalf("the payment is shown as %s", shown.body)
		}
	}
}

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
		"a refund of our charge under no key of ours": {"moved_outside", key, func() string {
			r := w.hand(http.MethodPost, "/v1/charges/"+ours.text(t, "pspChargeId")+"/refunds", "acme",
				"somebody-elses-refund",
				`{"amountCents":1,"currency":"USD","reference":"by-hand"}`)
			r.expect(t, http.StatusCreated, "")
			return r.text(t, "id")
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
	if n := w.count("SELECT count(*) FROM dead_letters"); n != 4 {
		t.Fatalf("%d dead letters, want 4", n)
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

func TestGenuineWebhooksThatNobodyUnderstandsAreKept(t *testing.T) {
	t.Parallel()
	w := reconciledByWebhook(t)
	for id, body := range map[string]string{
		"evt_type":    `{"type":"payout.paid","data":{"id":"po_1"}}`,
		"evt_other":   `{"type":"charge.succeeded","data":{"id":"ch_1","object":"refund"}}`,
		"evt_no_data": `{"type":"charge.succeeded","data":{}}`,
	} {
		w.signed(id, body)
		w.signed(id, body)
		eventually(t, "a dead letter of "+id, func() bool {
			return w.count("SELECT count(*) FROM dead_letters WHERE kind = 'webhook_unmatched' AND evidence ->> 'eventId' = $1", id) == 1
		})
		if n := w.count("SELECT count(*) FROM webhook_events WHERE id = $1 AND result = 'dead_letter' AND body = $2",
			id, []byte(body)); n != 1 {
			t.Fatalf("%s was not kept to the byte", id)
		}
	}
}
