package console

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"payonce/internal/events"
	"payonce/internal/idempotency"
	"payonce/internal/operator"
	"payonce/internal/payment"
	"payonce/internal/payments"
	"payonce/internal/statement"
	"payonce/internal/tenants"
)

// refundsShown is how many refunds the page of a payment shows at once.
const refundsShown = 50

// paymentView is the page of a payment.
type paymentView struct {
	payment.Payment

	Merchant payment.Merchant
	KeyURL   string
	Trace    string // the id of its trace; or ""
	Refunds  []payment.Refund
	Older    string                // the address of the page with older refunds; or ""
	Lines    statement.BookedLines // of settlement files
	Life     []step                // nil if the page does not have all refunds
	Told     []events.Told
	Open     []operator.Found
	Waits    string    // what it waits for, if it has no outcome; or ""
	Since    time.Time // since when it waits
}

func (c *Console) payment(w http.ResponseWriter, r *http.Request, by tenants.Principal) {
	v, err := c.readPayment(r)
	if err != nil {
		c.explain(w, r, err)
		return
	}
	c.show(w, r, http.StatusOK, "payment.html", "Payment", &by, v)
}

func (c *Console) readPayment(r *http.Request) (paymentView, error) {
	id, err := payment.ParseID(r.PathValue("id"))
	if err != nil {
		return paymentView{}, payments.ErrPaymentNotFound
	}
	found, err := c.config.Operators.Find(r.Context(), id.String())
	if err != nil {
		return paymentView{}, err
	}
	i := slices.IndexFunc(found.Rows, func(f operator.Found) bool {
		return f.Type == operator.FoundPayment && f.ID == id.String()
	})
	if i < 0 {
		return paymentView{}, payments.ErrPaymentNotFound
	}
	var v paymentView
	tenant := found.Rows[i].Tenant
	if v.Payment, err = c.config.Payments.Payment(r.Context(), tenant, id); err != nil {
		return v, err
	}
	if v.Merchant, err = c.config.Payments.MerchantOf(r.Context(), tenant, id); err != nil {
		return v, err
	}
	v.KeyURL, v.Trace = paymentKeyURL(v.Payment), c.config.Tracer.TraceID(uuid.UUID(id))
	f := payments.RefundFilter{Limit: refundsShown}
	if before, err := payment.ParseRefundID(r.URL.Query().Get("cursor")); err == nil {
		f.Before = &before
	}
	refunds, err := c.config.Payments.Refunds(r.Context(), tenant, id, f)
	if err != nil {
		return v, err
	}
	if v.Refunds = refunds.Refunds; refunds.Next != nil {
		v.Older = "/console/payments/" + id.String() + "?cursor=" + refunds.Next.String()
	}
	if v.Lines, err = c.config.Operators.LinesOf(r.Context(), id); err != nil {
		return v, err
	}
	if v.Told, err = c.config.Events.ToldOf(r.Context(), tenant, id); err != nil {
		return v, err
	}
	if f.Before == nil && v.Older == "" {
		v.Life = lifeOf(v.Payment, v.Refunds, v.Lines.Shown)
	}
	ref := idempotency.StoredRef(tenant, payment.CreateOperation, v.Key)
	if v.Open, err = c.config.Operators.OpenAbout(r.Context(), ref); err != nil || v.Status != payment.Processing {
		return v, err
	}
	row, err := c.config.Keys.Find(r.Context(), ref)
	if errors.Is(err, idempotency.ErrNoKey) {
		return v, nil
	}
	v.Waits, v.Since = waiting(row, v.Open)
	return v, err
}

// readMerchant reads the tenant's provider and its account there, once, because a tenant never changes its provider. A
// key that was deleted at this moment has none.
func (k *keyReader) readMerchant(ctx context.Context) error {
	if k.seen.Merchant.PSP != "" {
		return nil
	}
	merchant, err := k.c.config.Payments.MerchantOfKey(ctx, k.ref)
	k.seen.Merchant = merchant
	if errors.Is(err, payments.ErrPaymentNotFound) {
		return nil
	}
	return err
}
