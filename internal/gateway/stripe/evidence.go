package stripe

import (
	"bytes"
	"regexp"
	"slices"

	"payonce/internal/gateway"
)

// clientSecret is the member of an intent with which a browser could pay. "It should not be stored, logged, or exposed"
// (https://docs.stripe.com/api/payment_intents/object#payment_intent_object-client_secret).
var clientSecret = regexp.MustCompile(`("client_secret"\s*:\s*")(?:[^"\\]|\\.)*"`)

// secretForm is the form of a client secret, or the member with our key. A client secret is also in the addresses of
// next_action, as the parameter payment_intent_client_secret. The key is the client's text, and may have the same form.
// With another key, the event would contradict its payment.
var secretForm = regexp.MustCompile(
	`"idempotency_key"\s*:\s*"(?:[^"\\]|\\.)*"|(?:pi|seti|src)_[A-Za-z0-9]+` + secretMark + `\w+`)

const secretMark = "_secret_"

// redacted is a text of Stripe that can be stored.
func redacted(raw []byte) []byte {
	raw = clientSecret.ReplaceAll(raw, []byte(`${1}redacted"`))
	return secretForm.ReplaceAllFunc(raw, func(found []byte) []byte {
		if found[0] == '"' {
			return found
		}
		id, _, _ := bytes.Cut(found, []byte(secretMark)) // It is kept: an operator may look for it.
		return slices.Concat(id, []byte(secretMark+"redacted"))
	})
}

// evidence is an answer for an operator.
func evidence(status int, body []byte) []byte { return gateway.AnswerEvidence(status, redacted(body)) }
