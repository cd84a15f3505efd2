package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"payonce/internal/gateway"
	"payonce/internal/problem"
	"payonce/internal/webhooks"
)

// dialect is a PSP with a signature of its own. It finds each webhook as err says, or genuine.
type dialect struct {
	gateway.PSP

	delivery gateway.Delivery
	err      error
}

// Traits implements [gateway.PSP].
func (dialect) Traits() gateway.Traits { return gateway.Traits{Name: "stripe"} }

// VerifyEvent implements [gateway.PSP].
func (d dialect) VerifyEvent(http.Header, []byte) (gateway.Delivery, error) { return d.delivery, d.err }

// finds has webhooks at /webhooks/stripe found genuine, or refused.
func (c *counter) finds(id string, err error) {
	psp := dialect{delivery: gateway.Delivery{ID: id, SentAt: c.now}, err: err}
	c.serve(nil, webhooks.NewReceiver(psp, c.inbox))
}

// toStripe is a webhook as Stripe sends it.
func (c *counter) toStripe(signature, body string) *http.Request {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, c.server.URL+"/webhooks/stripe",
		strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Stripe-Signature", signature)
	return r
}

func TestRefusalOfAWebhookIsInTheWordsOfItsDialect(t *testing.T) {
	t.Parallel()
	c := setup(t)
	for reason, result := range map[error]string{
		gateway.ErrHeaderMissing: "malformed", gateway.ErrMalformed: "malformed", gateway.ErrSignature: "bad_signature",
		gateway.ErrStale: "stale",
	} {
		c.finds("", &gateway.VerifyError{
			Err: fmt.Errorf("%w: Stripe-Signature", reason), Detail: "Sign it as Stripe does: " + result + ".",
			Challenge: "Stripe-Signature",
		})
		a := c.expect(c.toStripe("t=1,v1=0", "{}"), http.StatusUnauthorized, problem.WebhookSignatureInvalid, result)
		if challenge := a.header.Get("WWW-Authenticate"); challenge != "Stripe-Signature" {
			t.Errorf("WWW-Authenticate is %q", challenge)
		}
		if !strings.Contains(a.body, "Sign it as Stripe does: "+result+".") {
			t.Errorf("the detail is not that of the dialect: %s", a.body)
		}
	}
	c.want(0, 0)
}

func TestWebhookOfEachDialectHas1MiBOfJSONAtMost(t *testing.T) {
	t.Parallel()
	c := setup(t)
	c.finds("evt_1", nil)
	c.expect(c.toStripe("t=1,v1=0", strings.Repeat(" ", 1<<20+1)), http.StatusRequestEntityTooLarge,
		problem.BodyTooLarge, "too_large")
	text := c.toStripe("t=1,v1=0", "{}")
	text.Header.Set("Content-Type", "text/plain")
	c.expect(text, http.StatusUnsupportedMediaType, problem.UnsupportedMediaType, "malformed")
	c.want(0, 0)
}
