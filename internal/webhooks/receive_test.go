package webhooks

import (
	"net/http"
	"strings"
	"testing"
	"time"

	reference "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"pgregory.net/rapid"

	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
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

const storedBody = "SELECT convert_from(body, 'UTF8') FROM webhook_events"

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
