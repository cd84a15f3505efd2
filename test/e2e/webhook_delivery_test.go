package e2e

import (
	"net/http"
	"slices"
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
