package crowd

import (
	"context"
	"net/http"
	"strings"

	"payonce/lab/chaos/plan"
)

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
