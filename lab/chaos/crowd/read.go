package crowd

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/go-json-experiment/json"

	"payonce/lab/chaos/plan"
)

// read looks at what the client knows of, and at what is none of its business.
func (c *Crowd) read(ctx context.Context, e plan.Errand) {
	of, any := c.known[e.Client].pick(e.Pick)
	if !any {
		return
	}
	r := request{method: http.MethodGet, tenant: of.tenant, api: e.N}
	switch e.N % 4 {
	case 0:
		r.path = "/payments/" + of.ID
		c.readPayment(ctx, e, r, of)
	case 1:
		r.path = "/payments/" + of.ID
		r.tenant = other(of.tenant)
		c.expect(ctx, e, r, "another tenant's payment", http.StatusNotFound)
	case 2:
		r.path = "/payments?limit=5&customerId=cus-" + fmt.Sprint(e.Client)
		// While the database stalls, the lists that a tenant may read at the same time are under way, and others wait.
		c.expect(ctx, e, r, "list", http.StatusOK, http.StatusTooManyRequests)
	default:
		r.path = "/idempotency-keys/" + of.key + "?operation=" + url.QueryEscape("POST /payments")
		want := []int{http.StatusOK}
		if !c.lives.lasts(of) {
			// A deleted key is held if money has moved under it that nobody can explain.
			want = append(want, http.StatusGone, http.StatusNotFound, http.StatusConflict)
		}
		c.expect(ctx, e, r, "key", want...)
	}
}

// readPayment reads one that the client was told has succeeded: it must say so for good.
func (c *Crowd) readPayment(ctx context.Context, e plan.Errand, r request, of paid) {
	a := c.expect(ctx, e, r, "payment", http.StatusOK)
	var now struct {
		paid
		Status string `json:"status"`
	}
	if a.status != http.StatusOK {
		return
	}
	if err := json.Unmarshal(a.body, &now); err != nil || now.Status != "succeeded" || now.Amount != of.Amount ||
		now.ChargeID != of.ChargeID {
		c.complain("GET "+r.path, fmt.Sprintf("the client was told that it succeeded as %s, and reads %s", of.ChargeID,
			a.body))
	}
}

// expect sends the request and complains of an answer that it must not have. That a server is away is none.
func (c *Crowd) expect(ctx context.Context, e plan.Errand, r request, what string, want ...int) answer {
	r.route = what
	a := c.send(ctx, e.Client, r)
	if a.status == http.StatusTooManyRequests && slices.Contains(plan.SmallTenants(), r.tenant) {
		return a
	}
	if a.status != 0 && a.status != http.StatusServiceUnavailable && a.status != http.StatusInternalServerError &&
		!slices.Contains(want, a.status) {
		c.complain(what, fmt.Sprintf("%s %s was answered %d, not %v: %s", r.method, r.path, a.status, want, a.body))
	}
	return a
}

func other(tenant string) string {
	all := plan.Tenants()
	return all[(slices.Index(all, tenant)+1)%len(all)]
}
