package operator

import (
	"context"
	"fmt"
	"net/url"

	"payonce/internal/operator/internal/dbsqlc"
	"payonce/internal/payments"
	"payonce/internal/problem"
)

// PaymentFilter selects payments. An empty field selects all.
type PaymentFilter struct {
	payments.Filter

	Tenant string
}

// PaymentEntry is a payment in a list, without its description and metadata.
type PaymentEntry struct {
	Tenant string `json:"tenant"`
	payments.PaymentBody

	Payment payments.Payment `json:"-"`
}

// Payments lists the payments of all tenants, or of one, newest first.
func (d *Service) Payments() Listing[PaymentFilter, PaymentEntry] {
	return Listing[PaymentFilter, PaymentEntry]{Parameters: []string{"tenant", "customerId", "status", "createdAfter",
		"createdBefore", "limit", "cursor"}, Filter: paymentFilterOf, Read: bounded(longestList, d.listPayments)}
}

func paymentFilterOf(values url.Values) (PaymentFilter, []problem.Detail) {
	q := &query{values: values}
	f := PaymentFilter{Tenant: q.text("tenant"), Filter: payments.Filter{
		CustomerID: q.text("customerId"),
		Status: oneOf(q, "status", payments.Processing, payments.Succeeded, payments.Declined,
			payments.Failed),
		CreatedAfter: q.instant("createdAfter"), CreatedBefore: q.instant("createdBefore"),
		Limit: q.limit(), Before: cursorOf(q, payments.ParsePaymentID),
	}}
	q.order("createdAfter", "createdBefore", f.CreatedAfter, f.CreatedBefore)
	return f, q.bad
}

// listPayments reads a page of each tenant, because the indexes begin with the tenant. Of these pages it takes the
// newest payments: ids are in the order of creation.
func (d *Service) listPayments(ctx context.Context, f PaymentFilter) (List[PaymentEntry], error) {
	ids := []string{f.Tenant}
	if f.Tenant == "" {
		var err error
		if ids, err = dbsqlc.New(d.db.Reader()).ListTenantIDs(ctx); err != nil {
			return List[PaymentEntry]{}, fmt.Errorf("list tenants: %w", err)
		}
	}
	var newest payments.Page
	for _, tenant := range ids {
		page, err := d.payments.Payments(ctx, tenant, f.Filter)
		if err != nil {
			return List[PaymentEntry]{}, err
		}
		newest = newest.Merge(page, f.Limit)
	}
	l := List[PaymentEntry]{Rows: make([]PaymentEntry, len(newest.Payments))}
	for i, p := range newest.Payments {
		p.Description, p.Metadata = "", nil // What a merchant notes for itself is not for operators.
		l.Rows[i] = PaymentEntry{Tenant: p.Tenant, PaymentBody: p.Body(), Payment: p}
	}
	if newest.Next != nil {
		l.Next = newest.Next.String()
	}
	return l, nil
}
