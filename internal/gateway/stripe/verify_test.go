package stripe

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	reference "github.com/stripe/stripe-go/v84/webhook"

	"payonce/internal/gateway"
)

const exampleEvent = `{"id":"evt_1","object":"event","type":"payout.paid","api_version":"2026-02-25.clover"}`

// signedAt is the header that Stripe's own library makes.
func signedAt(at time.Time, body, with string) string {
	return reference.GenerateTestSignedPayload(&reference.UnsignedPayload{Payload: []byte(body), Secret: with,
		Timestamp: at}).Header
}

func verified(t *testing.T, header, body string, secrets ...string) (gateway.Delivery, error) {
	t.Helper()
	c := newClient(t, "http://127.0.0.1:1", func(c *Config) { c.WebhookSecrets = append(c.WebhookSecrets, secrets...) })
	h := http.Header{}
	if header != "" {
		h.Set("Stripe-Signature", header)
	}
	return c.VerifyEvent(h, []byte(body))
}

func TestGenuineWebhookIsTakenAsStripesLibraryTakesIt(t *testing.T) {
	t.Parallel()
	const next = "whsec_the_next_webhook_secret"
	old, fresh := signedAt(today(), exampleEvent, webhookSecret), signedAt(today(), exampleEvent, next)
	_, freshV1, _ := strings.Cut(fresh, ",")
	for name, header := range map[string]string{
		"one": old, "the next secret": fresh, "both": old + "," + freshV1, "another scheme before": replace(old,
			",v1", ",v0=abc,v1"),
		"a wrong one before": replace(old, ",v1", ",v1=00,v1"),
	} {
		d, err := verified(t, header, exampleEvent, next)
		if err != nil || d.ID != "evt_1" || !d.SentAt.Equal(today()) {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
		_, err = reference.ConstructEventWithOptions([]byte(exampleEvent), header, webhookSecret,
			reference.ConstructEventOptions{IgnoreTolerance: true})
		if name != "the next secret" && err != nil {
			t.Errorf("%s: Stripe's library refuses it: %v", name, err)
		}
	}
	if _, err := verified(t, fresh, exampleEvent); !errors.Is(err, gateway.ErrSignature) {
		t.Errorf("without the next secret: %v", err)
	}
}

func TestSigningSecretHasStripesForm(t *testing.T) {
	t.Parallel()
	for text, takes := range map[string]bool{
		"whsec_" + strings.Repeat("a", 15): false, "whsec_" + strings.Repeat("a", 16): true,
		"whsec_" + strings.Repeat("a", 128): true, "whsec_" + strings.Repeat("a", 129): false,
		strings.Repeat("a", 16): false,
	} {
		if err := checkSecrets([]string{text}); (err == nil) != takes {
			t.Errorf("a secret of %d characters: %v", len(text), err)
		}
	}
}

func TestWebhookThatIsNotGenuineIsRefusedWithAReason(t *testing.T) {
	t.Parallel()
	good := signedAt(today(), exampleEvent, webhookSecret)
	unix := fmt.Sprint(today().Unix())
	says := map[error]string{
		gateway.ErrHeaderMissing: "Send the header Stripe-Signature.", gateway.ErrMalformed: "must have one t",
		gateway.ErrSignature: "No v1 in Stripe-Signature is the signature of this webhook.",
	}
	for name, row := range map[string]struct {
		header, body string
		want         error
	}{
		"no header":           {"", exampleEvent, gateway.ErrHeaderMissing},
		"no time":             {good[strings.Index(good, "v1"):], exampleEvent, gateway.ErrMalformed},
		"no signature":        {"t=" + unix, exampleEvent, gateway.ErrMalformed},
		"two times":           {"t=" + unix + "," + good, exampleEvent, gateway.ErrMalformed},
		"a time with a sign":  {replace(good, "t=", "t=+"), exampleEvent, gateway.ErrMalformed},
		"a time that is none": {replace(good, unix, "now"), exampleEvent, gateway.ErrMalformed},
		"a time too long":     {replace(good, unix, "9999999999999"), exampleEvent, gateway.ErrMalformed},
		"another time":        {replace(good, unix, fmt.Sprint(today().Unix()+1)), exampleEvent, gateway.ErrSignature},
		"another body":        {good, exampleEvent + " ", gateway.ErrSignature},
		"another secret": {signedAt(today(), exampleEvent, "whsec_somebody_elses_secret"), exampleEvent,
			gateway.ErrSignature},
		"another scheme": {replace(good, "v1=", "v0="), exampleEvent, gateway.ErrMalformed},
		"in capitals": {replace(good, good[len(good)-64:], strings.ToUpper(good[len(good)-64:])),
			exampleEvent, gateway.ErrSignature},
		"cut off":          {good[:len(good)-2], exampleEvent, gateway.ErrSignature},
		"stale and forged": {"t=1,v1=00", exampleEvent, gateway.ErrSignature},
	} {
		d, err := verified(t, row.header, row.body)
		refusal, is := errors.AsType[*gateway.VerifyError](err)
		if !errors.Is(err, row.want) || d != (gateway.Delivery{}) || !is ||
			says[row.want] == "" || !strings.Contains(refusal.Detail, says[row.want]) ||
			refusal.Challenge != "Stripe-Signature" {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
}

func TestWebhookIsStaleAfterFiveMinutes(t *testing.T) {
	t.Parallel()
	for age, stale := range map[time.Duration]bool{
		0: false, 5 * time.Minute: false, -5 * time.Minute: false, 301 * time.Second: true, -301 * time.Second: true,
	} {
		_, err := verified(t, signedAt(today().Add(-age), exampleEvent, webhookSecret), exampleEvent)
		if errors.Is(err, gateway.ErrStale) != stale || !stale && err != nil {
			t.Errorf("%s old: %v", age, err)
		}
		refusal, is := errors.AsType[*gateway.VerifyError](err)
		if stale && (!is || !strings.Contains(refusal.Detail, "too far from now")) {
			t.Errorf("%s old: the sender is told %+v", age, refusal)
		}
	}
}

func TestIDOfAnEventHasStripesForm(t *testing.T) {
	t.Parallel()
	for body, takes := range map[string]bool{
		exampleEvent: true, `{"id":"evt_` + strings.Repeat("a", 200) + `"}`: true, `{"id":"evt_` + strings.Repeat("a",
			201) + `"}`: false,
		`{}`: false, `{"id":"evt_"}`: false, `{"id":"ch_1"}`: false, `{"id":1}`: false, `<html>`: false, ``: false,
		`{"id":"evt_1","id":"evt_2"}`: false, `{"id":"evt_1\u0000"}`: false, `{"ID":"evt_1"}`: false,
	} {
		_, err := verified(t, signedAt(today(), body, webhookSecret), body)
		if (err == nil) != takes || err != nil && !errors.Is(err, gateway.ErrMalformed) {
			t.Errorf("%.40s: %v", body, err)
		}
	}
}
