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

	reference "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"pgregory.net/rapid"

	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
	"payonce/internal/gateway/stripe"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// receiverAt takes the PSP's webhooks in, and its clock differs by so much from the sender's.
func (f *fixture) receiverAt(later time.Duration) *Receiver {
	f.t.Helper()
	psp, err := native.New("http://psp.test", "secret", gateway.DefaultLimits(), []string{secret},
		func() time.Time { return f.sent.Add(later) })
	if err != nil {
		f.t.Fatal(err)
	}
	return NewReceiver(psp, f.inbox)
}

func TestOnlyWhatIsVerifiedIsStored(t *testing.T) {
	t.Parallel()
	d := setup(t)
	const id, body = "msg_1", `{"test": 2432232314}`
	signer, err := reference.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := signer.Sign(id, d.sent, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	header := http.Header{}
	header.Set("webhook-id", id)
	header.Set("webhook-timestamp", "1795167000")
	header.Set("webhook-signature", signature)
	if d.sent.Unix() != 1795167000 {
		t.Fatalf("the fixture's time is %d", d.sent.Unix())
	}

	_, err = d.receiverAt(0).Receive(t.Context(), header, []byte(strings.Replace(body, "2", "3", 1)))
	wantErr(t, err, gateway.ErrSignature)
	_, err = d.receiverAt(time.Hour).Receive(t.Context(), header, []byte(body))
	wantErr(t, err, gateway.ErrStale)
	d.want(0, 0)

	receipt, err := d.receiverAt(0).Receive(t.Context(), header, []byte(body))
	if err != nil || receipt != Received {
		t.Fatalf("%#v, %v", receipt, err)
	}
	stored, err := d.inbox.Load(t.Context(), id)
	if err != nil || string(stored.Body) != body || !stored.SentAt.Equal(d.sent) {
		t.Fatalf("%+v, %v", stored, err)
	}
	d.want(1, 1)
}

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

const storedBody = "SELECT convert_from(body, 'UTF8') FROM webhook_events"

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

// names are PSPs: the default one, and others, whose names have no full stop.
func names() *rapid.Generator[string] {
	return rapid.OneOf(rapid.Just(defaultPSP), rapid.StringMatching(`[a-z]{1,12}`))
}

// ids are what Verify of package native takes as an id: it refuses a full stop.
func ids() *rapid.Generator[string] { return rapid.StringMatching(`[!-\-/-~]{1,255}`) }

func TestStoredEventSaysWhichPSPHasSentIt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		psp, id := names().Draw(t, "PSP"), ids().Draw(t, "id")
		if psp != defaultPSP { // others may have full stops in their ids
			id += rapid.SampledFrom([]string{"", ".", ".g2", "..x", ".native"}).Draw(t, "end")
		}
		stored := EventID(psp, id)
		if of := PSPOf(stored); of != psp {
			t.Fatalf("the event %q of %s is stored as %q, which is one of %s", id, psp, stored, of)
		}
		if !strings.HasSuffix(stored, id) {
			t.Fatalf("the event %q of %s is stored as %q", id, psp, stored)
		}
	})
}

// Two events are one row only if they are the same event of the same PSP.
func TestEventsOfTwoPSPsNeverShareAnID(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		one, other := names().Draw(t, "one PSP"), names().Draw(t, "other PSP")
		id := ids().Draw(t, "id")
		ofOther := rapid.OneOf(rapid.Just(id), ids()).Draw(t, "other id")
		same := one == other && id == ofOther
		if stored, again := EventID(one, id), EventID(other, ofOther); (stored == again) != same {
			t.Fatalf("%q of %s is %q, %q of %s is %q", id, one, stored, ofOther, other, again)
		}
	})
}

// Events that were stored before there was a second PSP are read as they were.
func TestEventsOfTheFirstPSPKeepTheirIDs(t *testing.T) {
	t.Parallel()
	if id := EventID("native", "evt_1"); id != "evt_1" || PSPOf(id) != "native" {
		t.Fatalf("stored as %q, of %s", id, PSPOf(id))
	}
	if id := EventID("stripe", "evt_1"); id != "stripe.evt_1" || PSPOf(id) != "stripe" {
		t.Fatalf("stored as %q, of %s", id, PSPOf(id))
	}
}
