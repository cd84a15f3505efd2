package stripe

import (
	"encoding/json"
	"strings"
	"testing"

	"payonce/internal/gateway"
)

// With a client secret, a browser could pay.
func TestClientSecretIsNeverKept(t *testing.T) {
	t.Parallel()
	const address = "https://hooks.stripe.com/3ds?payment_intent_client_secret"
	for raw, want := range map[string]string{
		`{"client_secret" : "pi_1_secret_canary"}`:  `{"client_secret" : "redacted"}`,
		`{"client_secret":"a \" b"}`:                `{"client_secret":"redacted"}`,
		address + `=pi_3A_secret_canary&x=1`:        address + `=pi_3A_secret_redacted&x=1`,
		address + `%3Dpi_3A_secret_canary%26`:       address + `%3Dpi_3A_secret_redacted%26`,
		`"seti_1_secret_canary"`:                    `"seti_1_secret_redacted"`,
		`"?client_secret=src_client_secret_canary"`: `"?client_secret=src_client_secret_redacted"`,
		`{"id":"pi_1","type":"payment_intent"}`:     `{"id":"pi_1","type":"payment_intent"}`,
	} {
		if got := string(redacted([]byte(raw))); got != want {
			t.Errorf("%s is kept as %s", raw, got)
		}
	}
}

// A client chooses its key, and may choose one that looks like a secret. The stored event must still name that key:
// otherwise each event of the payment contradicts the payment.
func TestKeyThatLooksLikeASecretIsKept(t *testing.T) {
	t.Parallel()
	c, err := New(Config{URL: "http://psp.test", Secret: secret, Limits: gateway.DefaultLimits(), Now: today})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ch := aCharge()
	for _, ch.Key = range []string{
		"pi_3A_secret_0123456789", "a?client_secret=seti_1_secret_9", `a"client_secret":"src_1_secret_2`,
	} {
		quoted, err := json.Marshal(ch.Key)
		if err != nil {
			t.Fatal(err)
		}
		intent := replace(intentIs("succeeded"), `"`+key+`"`, string(quoted))
		stored := c.Traits().Redacted([]byte(eventOf("payment_intent.succeeded", intent)))
		if strings.Contains(string(stored), "pi_1_secret_canary") {
			t.Errorf("stored is %s", stored)
		}
		e, err := c.ParseEvent(stored)
		moved, is := e.(gateway.Moved)
		if !is || ch.Judge(moved.Record) != gateway.Outcome(gateway.Succeeded{ID: "pi_1"}) {
			t.Errorf("key %s: %+v, %v", ch.Key, e, err)
		}
	}
}
