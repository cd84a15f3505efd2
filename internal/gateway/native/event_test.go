package native

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"payonce/internal/gateway"
)

// receiving is a client that takes webhooks, at a time that is so much later than the example's timestamp.
func receiving(t *testing.T, later time.Duration) *Client {
	t.Helper()
	c, err := New("http://psp", "secret", gateway.DefaultLimits(), verifierAt(t, later), time.Now,
		func(string, time.Duration) {})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// exampleHeader has the headers of the example, edited.
func exampleHeader(edits ...func(http.Header)) http.Header {
	h := http.Header{}
	h.Set("webhook-id", exampleID)
	h.Set("webhook-timestamp", exampleTimestamp)
	h.Set("webhook-signature", exampleSignature)
	for _, edit := range edits {
		edit(h)
	}
	return h
}

func TestGenuineWebhookHasItsIDAndTime(t *testing.T) {
	t.Parallel()
	d, err := receiving(t, time.Second).VerifyEvent(exampleHeader(), []byte(exampleBody))
	if err != nil || d != (gateway.Delivery{ID: exampleID, SentAt: exampleSent}) {
		t.Fatalf("%+v, %v", d, err)
	}
}

// The sender is told what to do, and nothing of our secrets.
func TestRefusedWebhookSaysWhy(t *testing.T) {
	t.Parallel()
	const (
		missing = "Send the headers webhook-id, webhook-timestamp and webhook-signature."
		form    = "webhook-id must be 1 to 255 printable ASCII characters without spaces and full stops, " +
			"webhook-timestamp whole seconds since 1970; each once."
		unsigned = "No signature in webhook-signature is one of this webhook."
		late     = "webhook-timestamp is too far from now. Sign each attempt again, with the time of the attempt."
	)
	set := func(name, value string) func(http.Header) { return func(h http.Header) { h.Set(name, value) } }
	none := func(name string) func(http.Header) { return func(h http.Header) { h.Del(name) } }
	again := func(name, value string) func(http.Header) { return func(h http.Header) { h.Add(name, value) } }
	for name, row := range map[string]struct {
		later  time.Duration
		edit   func(http.Header)
		reason error
		detail string
	}{
		"no id":           {0, none("webhook-id"), gateway.ErrHeaderMissing, missing},
		"no timestamp":    {0, none("webhook-timestamp"), gateway.ErrHeaderMissing, missing},
		"no signature":    {0, none("webhook-signature"), gateway.ErrHeaderMissing, missing},
		"a full stop":     {0, set("webhook-id", "evt.1"), gateway.ErrMalformed, form},
		"two ids":         {0, again("webhook-id", exampleID), gateway.ErrMalformed, form},
		"two timestamps":  {0, again("webhook-timestamp", exampleTimestamp), gateway.ErrMalformed, form},
		"a date":          {0, set("webhook-timestamp", "2021-02-25"), gateway.ErrMalformed, form},
		"another id":      {0, set("webhook-id", "evt_2"), gateway.ErrSignature, unsigned},
		"another version": {0, set("webhook-signature", "v2,abc"), gateway.ErrSignature, unsigned},
		"late":            {time.Hour, func(http.Header) {}, gateway.ErrStale, late},
		"early":           {-time.Hour, func(http.Header) {}, gateway.ErrStale, late},
	} {
		d, err := receiving(t, row.later).VerifyEvent(exampleHeader(row.edit), []byte(exampleBody))
		refused, ok := errors.AsType[*gateway.VerifyError](err)
		if !ok || !errors.Is(err, row.reason) || d != (gateway.Delivery{}) {
			t.Errorf("%s: %+v, error %v, want %v", name, d, err, row.reason)
			continue
		}
		if refused.Detail != row.detail || refused.Challenge != "StandardWebhooks" {
			t.Errorf("%s: detail %q, challenge %q", name, refused.Detail, refused.Challenge)
		}
		if strings.Contains(refused.Detail, strings.TrimPrefix(exampleSecret, secretPrefix)) {
			t.Errorf("%s: the secret is told", name)
		}
	}
}

// A list of signatures may stand in one header, or in several.
func TestSignaturesOfSeveralHeadersCount(t *testing.T) {
	t.Parallel()
	c := receiving(t, 0)
	for name, header := range map[string]http.Header{
		"the second": exampleHeader(func(h http.Header) {
			h.Set("webhook-signature", "v1,abc")
			h.Add("webhook-signature", exampleSignature)
		}),
		"the first": exampleHeader(func(h http.Header) { h.Add("webhook-signature", "v1,abc") }),
	} {
		if d, err := c.VerifyEvent(header, []byte(exampleBody)); err != nil || d.ID != exampleID {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
}

// Without a secret, nothing is genuine. It is no fault of the sender.
func TestClientWithoutAVerifierTakesNoWebhook(t *testing.T) {
	t.Parallel()
	d, err := (&Client{}).VerifyEvent(exampleHeader(), []byte(exampleBody))
	if _, refused := errors.AsType[*gateway.VerifyError](err); err == nil || refused || d != (gateway.Delivery{}) {
		t.Fatalf("%+v, %v", d, err)
	}
}

func TestTraitsAreThoseOfTheMock(t *testing.T) {
	t.Parallel()
	traits := (&Client{}).Traits()
	if traits.Name != "native" || traits.KeyMemory != 24*time.Hour || traits.Proof != gateway.ProofByAbsence ||
		traits.TwoSteps || traits.NewestFirst || traits.ForeignRecords || traits.IgnoresEvents ||
		traits.Exponents != nil {
		t.Fatalf("traits %+v", traits)
	}
	if id, o := (&Client{}).Prepare(t.Context(), gateway.Charge{}); id != "" || o != nil {
		t.Fatalf("prepared %q, %v", id, o)
	}
}

func TestOnlyATokenOfThePSPIsSent(t *testing.T) {
	t.Parallel()
	refuses := (&Client{}).Traits().Refuses
	for _, token := range []string{"pm_ok", "pm_1", "pm_" + strings.Repeat("x", 61)} {
		if u := refuses(gateway.Charge{PaymentMethod: token}); u != nil {
			t.Errorf("%s is refused: %+v", token, u)
		}
	}
	for _, token := range []string{"", "pm_", "pm_OK", "PM_ok", "pm_a-b", "pm_ok\n", " pm_ok", "tok_visa",
		"4242424242424242", "pm_" + strings.Repeat("x", 62)} {
		u := refuses(gateway.Charge{PaymentMethod: token})
		if u == nil || u.Member != "token" || u.Detail != "must be a PSP token: pm_ and up to 61 lower-case letters, "+
			"digits or underscores" {
			t.Errorf("%q is taken, or refused as %+v", token, u)
		}
	}
}
