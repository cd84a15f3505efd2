package windows

import (
	"net/http"
	"regexp"
	"strings"
)

// Dialect is what the proxies must know of the provider: which of its calls is which.
type Dialect struct {
	// TwoSteps: the provider makes an object first, and executes it afterwards. An object that is not executed can be
	// cancelled.
	TwoSteps bool
	// name is the name of a call that can be held, or "".
	name func(*http.Request) string
	// object is the form of the ids of the provider's objects, which name an object in the paths of calls. It is nil if
	// the calls have the key.
	object *regexp.Regexp
	// news is the type of the webhook that reports a charge. It is "" if there is no other.
	news string
}

// Native is the dialect of the mock PSP itself.
func Native() Dialect {
	return Dialect{name: func(r *http.Request) string {
		switch {
		case r.Method == http.MethodPost && r.URL.Path == "/v1/charges":
			return charge
		case r.Method == http.MethodGet && r.URL.Query().Has("idempotencyKey"):
			return lookup
		}
		return ""
	}}
}

// Stripe is Stripe's dialect. The confirmation of a PaymentIntent moves the money.
func Stripe() Dialect {
	const intents = "/v1/payment_intents/"
	return Dialect{
		TwoSteps: true, object: regexp.MustCompile(`pi_[0-9A-Za-z]+`), news: "payment_intent.succeeded",
		name: func(r *http.Request) string {
			if !strings.HasPrefix(r.URL.Path, intents) {
				return ""
			}
			switch {
			case r.Method == http.MethodGet:
				return lookup
			case strings.HasSuffix(r.URL.Path, "/confirm"):
				return charge
			case strings.HasSuffix(r.URL.Path, "/cancel"):
				return cancel
			}
			return ""
		},
	}
}
