package stripe

import (
	"net/http"
	"strings"
	"testing"
)

func contains(text, part string) bool { return strings.Contains(text, part) }

func TestRatesAreNamedAndChecked(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	p.faults(`{"stripe":{"read_500":1}}`)
	got := p.back(http.MethodGet, "/_faults", "").want(http.StatusOK)
	if got.at("stripe.read_500") != 1.0 || got.at("stripe.conflict") != 0.0 || got.at("rates.declined") != 0.0 {
		t.Errorf("got %s", got.body)
	}
	for _, bad := range []string{
		`{"stripe":{"nonsense":1}}`, `{"stripe":{"conflict":2}}`, `{"paypal":{}}`, `{"stripe":null}`,
		`{"stripe":{"conflict":1},"rates":{"nonsense":1}}`,
	} {
		p.back(http.MethodPut, "/_faults", bad).want(http.StatusBadRequest)
	}
	got = p.back(http.MethodGet, "/_faults", "")
	if got.at("stripe.conflict") != 0.0 || got.at("stripe.read_500") != 1.0 {
		t.Errorf("a refused body was taken: %s", got.body)
	}
	p.faults(`{"webhooks":{}}`)
	if got := p.back(http.MethodGet, "/_faults", ""); got.at("stripe.read_500") != 1.0 {
		t.Errorf("a body without rates has changed them: %s", got.body)
	}
	p.faults(`{"rates":{}}`) // Somebody who wants no faults may not know those of this dialect.
	if got := p.back(http.MethodGet, "/_faults", ""); got.at("stripe.read_500") != 0.0 {
		t.Errorf("a fault is left: %s", got.body)
	}
}

func TestRandomFaultsStrike(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	id := p.intent("pm_ok")
	p.faults(`{"stripe":{"read_500":1}}`)
	p.get("/v1/payment_intents/" + id).want(http.StatusInternalServerError)
	p.faults(`{"stripe":{"rate_limited":1}}`)
	p.confirm(id, "key").want(http.StatusTooManyRequests)
	p.faults(`{"stripe":{"conflict":1}}`)
	p.confirm(id, "key").want(http.StatusTooManyRequests, "error.code", "lock_timeout")
	p.faults(`{"stripe":{"create_500_saved":1}}`)
	p.post("/v1/payment_intents", "create", intentForm("pm_ok", "pay_2")).want(http.StatusInternalServerError)
	p.faults(`{"stripe":{"requires_action":1}}`)
	p.post("/v1/payment_intents", "create", intentForm("pm_ok", "pay_2")).want(http.StatusInternalServerError)
	p.confirm(id, "key").want(http.StatusOK, "status", "requires_action")
	p.faults(`{"stripe":{},"rates":{"declined":1}}`)
	p.confirm(p.intent("pm_1NXWPnCo6bFb1KQto6C8OWvE"), "").want(http.StatusPaymentRequired)
}

func TestALostCancellationIsOneOrNone(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	seen := map[string]bool{}
	for range 40 {
		id := p.intent("pm_ok")
		p.faults(`{"stripe":{"cancel_lost":1}}`)
		p.cancel(id, "cancel-"+id).wantLost()
		p.faults(`{"stripe":{}}`)
		seen[p.status(id)] = true
		p.cancel(id, "cancel-"+id).want(http.StatusOK, "status", "canceled") // replayed or executed
		p.faults(`{"stripe":{"cancel_500":1}}`)
		other := p.intent("pm_ok")
		p.cancel(other, "cancel-"+other).want(http.StatusInternalServerError)
		p.faults(`{"stripe":{}}`)
		seen["500 "+p.status(other)] = true
		p.cancel(other, "cancel-"+other).want(http.StatusInternalServerError) // saved
	}
	for _, end := range []string{
		"canceled", "requires_confirmation", "500 canceled", "500 requires_confirmation",
	} {
		if !seen[end] {
			t.Errorf("never seen: %s; seen %v", end, seen)
		}
	}
	p.wantCharges(0)
}
