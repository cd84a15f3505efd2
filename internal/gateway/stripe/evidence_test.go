package stripe

import "testing"

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
