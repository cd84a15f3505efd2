package crowd

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"payonce/lab/chaos/plan"
)

// forge sends webhooks: nobody's own, and by the hand of the PSP forged ones, stale ones, and true ones once more.
func (c *Crowd) forge(ctx context.Context, e plan.Errand) {
	of, any := c.known[e.Client].pick(e.Pick)
	if !any || e.N%5 == 0 {
		c.expect(ctx, e, c.forged(e), "forged webhook", http.StatusUnauthorized)
		return
	}
	kinds := []struct {
		disorder string
		want     int
	}{
		{`{"disorder":"forge"}`, http.StatusUnauthorized}, {`{"disorder":"stale"}`, http.StatusUnauthorized},
		{`{"disorder":"duplicate"}`, http.StatusNoContent}, {"", http.StatusNoContent},
	}
	kind := kinds[e.N%len(kinds)]
	status := c.resend(ctx, of.ChargeID, kind.disorder)
	if status != 0 && status != http.StatusServiceUnavailable && status != kind.want {
		c.complain("webhook", fmt.Sprintf("the webhook of %s with %q was answered %d, not %d", of.ChargeID,
			kind.disorder, status, kind.want))
	}
}

// forged is a webhook that nobody who knows the secret has signed.
func (c *Crowd) forged(e plan.Errand) request {
	r := request{
		method: http.MethodPost, path: "/webhooks/psp", tenant: e.Tenant, api: e.N,
		body: `{"type":"charge.succeeded","timestamp":"2026-01-01T00:00:00Z","data":{"id":"ch_forged"}}`,
		header: http.Header{
			"Authorization": nil, "Idempotency-Key": nil, "Webhook-Id": {"evt_" + e.Key},
			"Webhook-Signature": {"v1,Zm9yZ2Vk"},
			"Webhook-Timestamp": {fmt.Sprint(time.Now().Unix())},
		},
	}
	if c.o.Stripe.URL != "" {
		r.path = "/webhooks/stripe"
		r.body = `{"id":"evt_forged","object":"event","type":"payment_intent.succeeded","data":{"object":{"object":"payment_intent","id":"pi_forged"}}}`
		r.header = http.Header{
			"Authorization": nil, "Idempotency-Key": nil,
			"Stripe-Signature": {fmt.Sprintf("t=%d,v1=%064d", time.Now().Unix(), e.N)},
		}
	}
	return r
}

// resend has the PSP send an entry's webhook by hand, and returns what the API has answered, or 0.
func (c *Crowd) resend(ctx context.Context, entry, disorder string) int {
	if c.limiter.Wait(ctx) != nil {
		return 0
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestPatience)
	defer cancel()
	var told struct {
		Status int `json:"status"`
	}
	_, _ = c.ask(ctx, http.MethodPost, "http://"+c.o.PSP+"/_webhooks/"+entry, disorder, nil, &told) // 0: not known
	return told.Status
}

// malformed sends what must be refused, whatever the key: none of it touches one.
func (c *Crowd) malformed(ctx context.Context, e plan.Errand) {
	const body = `{"customerId":"cus-1","amountCents":12000,"currency":"USD"}`
	kinds := []struct {
		what   string
		body   string
		header http.Header
		want   int
	}{
		{"no key", body, http.Header{"Idempotency-Key": nil}, http.StatusBadRequest},
		{"short key", body, http.Header{"Idempotency-Key": {"short"}}, http.StatusBadRequest},
		{"two keys", body, http.Header{"Idempotency-Key": {e.Key, e.Key}}, http.StatusBadRequest},
		{"no API key", body, http.Header{"Authorization": nil}, http.StatusUnauthorized},
		{"wrong API key", body, http.Header{"Authorization": {"Bearer nobody-has-this-key"}}, http.StatusUnauthorized},
		{"form", body, http.Header{"Content-Type": {"application/x-www-form-urlencoded"}},
			http.StatusUnsupportedMediaType},
		{"unknown member", `{"customerId":"cus-1","amountCents":12000,"currency":"USD","amount":1}`, nil,
			http.StatusBadRequest},
		{"float", `{"customerId":"cus-1","amountCents":12000.0,"currency":"USD"}`, nil, http.StatusBadRequest},
		{"negative", `{"customerId":"cus-1","amountCents":-1,"currency":"USD"}`, nil, http.StatusBadRequest},
		{"truncated", body[:20], nil, http.StatusBadRequest},
		{"too large", `{"customerId":"` + strings.Repeat("x", 17<<10) + `"}`, nil, http.StatusRequestEntityTooLarge},
	}
	kind := kinds[e.N%len(kinds)]
	c.expect(ctx, e, request{
		method: http.MethodPost, path: "/payments", tenant: e.Tenant, key: e.Key, body: kind.body, header: kind.header,
		api: e.N,
	}, "malformed: "+kind.what, kind.want)
}
