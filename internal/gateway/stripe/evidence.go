package stripe

import (
	"regexp"

	"payonce/internal/gateway"
)

// clientSecret is the member of an intent with which a browser could pay. "It should not be stored, logged, or exposed"
// (https://docs.stripe.com/api/payment_intents/object#payment_intent_object-client_secret).
var clientSecret = regexp.MustCompile(`("client_secret"\s*:\s*")(?:[^"\\]|\\.)*"`)

// secretForm is the form of a client secret. One is also in the addresses of next_action, as the parameter
// payment_intent_client_secret. The id before it is kept: an operator may look for it.
var secretForm = regexp.MustCompile(`((?:pi|seti|src)_[A-Za-z0-9]+_secret_)[A-Za-z0-9_]+`)

// redacted is a text of Stripe that can be stored.
func redacted(raw []byte) []byte {
	raw = clientSecret.ReplaceAll(raw, []byte(`${1}redacted"`))
	return secretForm.ReplaceAll(raw, []byte(`${1}redacted`))
}

// evidence is an answer for an operator.
func evidence(status int, body []byte) []byte { return gateway.AnswerEvidence(status, redacted(body)) }
