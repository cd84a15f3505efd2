package crowd

import (
	"context"
	"fmt"
	"net/http"

	"payonce/lab/chaos/plan"
	"payonce/lab/history"
)

// refund asks for a part, the whole, the rest or too much of a payment that the client knows of, or of one that
// others have refunded before. Some race, some lie, some use the payment's own key: it is another one here, since
// the operation belongs to it.
func (c *Crowd) refund(ctx context.Context, e plan.Errand) {
	of, any := c.known[e.Client].pick(e.Pick)
	if theirs, some := c.returned.pick(e.Pick); some && e.N%4 == 3 {
		of, any = theirs, true
	}
	if !any {
		return
	}
	select {
	case c.refunding <- of: // somebody else was waiting for it, to refund it at the same time
	default:
	}
	e.Tenant = of.tenant
	if e.N%5 == 0 {
		e.Key = of.key
	}
	amount := int64(e.Share * float64(of.Amount))
	r := refundOf(of, e, amount)
	switch e.N % 4 {
	case 0:
		c.race(ctx, e, r)
	case 1:
		c.persist(ctx, e, r)
		c.send(ctx, e.Client, refundOf(of, e, amount+1))
	default:
		c.persist(ctx, e, r)
	}
}

func refundOf(of paid, e plan.Errand, amount int64) request {
	body := "{}"
	switch reason := fmt.Sprintf("%q", e.Reason); {
	case amount > 0 && e.Reason != "":
		body = fmt.Sprintf(`{"amountCents":%d,"reason":%s}`, amount, reason)
	case amount > 0:
		body = fmt.Sprintf(`{"amountCents":%d}`, amount)
	case e.Reason != "":
		body = fmt.Sprintf(`{"reason":%s}`, reason)
	}
	return request{
		method: http.MethodPost, path: "/payments/" + of.ID + "/refunds", route: history.RefundsRoute,
		tenant: of.tenant, key: e.Key,
		intent: plan.RefundIntent(of.ID, amount, e.Reason), body: body, prefer: e.Prefer, quoted: e.Quoted, api: e.N,
	}
}
