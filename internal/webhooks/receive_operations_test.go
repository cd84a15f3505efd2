package webhooks

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"payonce/internal/gateway"
	"payonce/internal/gateway/stripe"
)

// atStripe receives an event of Stripe's as it was signed.
func (f *fixture) atStripe(body string) Receipt {
	f.t.Helper()
	return f.atStripeAs("here", body)
}

// atStripeAs receives it in an installation, whose id is not known yet if it is "".
func (f *fixture) atStripeAs(installation, body string) Receipt {
	f.t.Helper()
	psp, err := stripe.New(stripe.Config{URL: "http://psp.test", Secret: "sk_test_x", WebhookSecrets: []string{secret},
		Limits: gateway.DefaultLimits(), Now: func() time.Time { return f.sent },
		Installation: func() string { return installation }})
	if err != nil {
		f.t.Fatal(err)
	}
	sent := strconv.FormatInt(f.sent.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(sent + "." + body))
	header := http.Header{"Stripe-Signature": {"t=" + sent + ",v1=" + hex.EncodeToString(mac.Sum(nil))}}
	receipt, err := NewReceiver(psp, f.inbox).Receive(f.t.Context(), header, []byte(body))
	if err != nil {
		f.t.Fatal(err)
	}
	return receipt
}

// Nobody can tell yet whose the event is. Nothing of it is thrown away, and a job judges it later.
func TestEventOfAnUnknownInstallationIsStoredWhole(t *testing.T) {
	t.Parallel()
	d := setup(t)
	const body = `{"id":"evt_1","object":"event","type":"payment_intent.succeeded","data":{"object":{"object":` +
		`"payment_intent","id":"pi_1","metadata":{"origin":"payonce:there"}}}}`
	if receipt := d.atStripeAs("", body); receipt != Received || d.text(storedBody) != body {
		t.Fatalf("receipt %+v, stored %s", receipt, d.text(storedBody))
	}
	d.want(1, 1)
}

// A browser could pay with the client secret of an intent that is not confirmed yet.
func TestSecretOfAVerifiedEventIsNotStored(t *testing.T) {
	t.Parallel()
	d := setup(t)
	const body = `{"id":"evt_1","object":"event","type":"payment_intent.succeeded","data":{"object":{"object":` +
		`"payment_intent","id":"pi_1","status":"succeeded","amount_received":5,"currency":"usd","created":1795167000,` +
		`"metadata":{"origin":"payonce:here"},"client_secret":"pi_1_secret_canary"}}}`
	if receipt := d.atStripe(body); receipt != Received {
		t.Fatalf("receipt %+v", receipt)
	}
	if stored := d.text(storedBody); stored != strings.Replace(body, "pi_1_secret_canary", "redacted", 1) {
		t.Fatalf("stored %s", stored)
	}
	d.want(1, 1)
}

// Stripe sends what nobody has asked for, in any size. What says nothing about us needs no job, and no place.
func TestEventThatIsIgnoredIsStoredAsItsIDAndType(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ body, stored string }{
		"of another type": {`{"id":"evt_1","object":"event","type":"invoice.created","data":{"object":{"lines":"` +
			strings.Repeat("x", 100_000) + `"}}}`, `{"type":"invoice.created"}`},
		"of another program": {`{"id":"evt_1","object":"event","type":"payment_intent.succeeded","data":{"object":` +
			`{"object":"payment_intent","id":"pi_1","status":"succeeded"}}}`, `{"type":"payment_intent.succeeded"}`},
		"of no usable type": {`{"id":"evt_1","object":"event","type":"` + strings.Repeat("x", 256) + `"}`,
			`{"type":""}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := setup(t)
			if receipt := d.atStripe(row.body); receipt != Ignored {
				t.Fatalf("receipt %+v", receipt)
			}
			if stored := d.text(storedBody); stored != row.stored {
				t.Errorf("stored %s", stored)
			}
			const asIgnored = "SELECT count(*) FROM webhook_events WHERE id = 'stripe.evt_1' AND result = 'ignored'"
			if d.count(asIgnored) != 1 {
				t.Error("it waits for somebody to process it")
			}
			d.want(1, 0)
			if receipt := d.atStripe(row.body); receipt != Duplicate {
				t.Fatalf("sent again, it is %+v", receipt)
			}
			if n, err := d.inbox.Prune(t.Context(), 0, 10); n != 1 || err != nil {
				t.Fatalf("pruned %d, %v", n, err)
			}
		})
	}
}
