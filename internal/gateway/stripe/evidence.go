package stripe

import (
	"regexp"

	"payonce/internal/gateway"
)

// clientSecret is the member of an intent with which a browser could pay. "It should not be stored, logged, or exposed"
// (https://docs.stripe.com/api/payment_intents/object#payment_intent_object-client_secret).
var clientSecret = regexp.MustCompile(`("client_secret"\s*:\s*")(?:[^"\\]|\\.)*"`)

// redacted is a text of Stripe that can be stored.
func redacted(raw []byte) []byte { return clientSecret.ReplaceAll(raw, []byte(`${1}redacted"`)) }

// evidence is an answer for an operator.
func evidence(status int, body []byte) []byte { return gateway.AnswerEvidence(status, redacted(body)) }
