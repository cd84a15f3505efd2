package operator

import (
	"context"
	"fmt"
	"net/url"

	"payonce/internal/operator/internal/dbsqlc"
	"payonce/internal/payments"
	"payonce/internal/problem"
	"payonce/internal/query"
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

	PSPObjectID string `json:"pspObjectId,omitzero"` // of the current attempt, if the PSP executes in two steps

	Payment payments.Payment `json:"-"`
}

// Payments lists the payments of all tenants, or of one, newest first.
func (d *Service) Payments() Listing[PaymentFilter, PaymentEntry] {
	return Listing[PaymentFilter, PaymentEntry]{Parameters: []string{"tenant", "customerId", "status", "createdAfter",
		"createdBefore", "limit", "cursor"}, Filter: paymentFilterOf,
		Read: bounded(longestList, d.places, d.listPayments)}
}

func paymentFilterOf(values url.Values) (PaymentFilter, []problem.Detail) {
	q := &query.Query{Values: values}
	f := PaymentFilter{Tenant: q.Text("tenant"), Filter: payments.Filter{
		CustomerID:   q.Text("customerId"),
		Status:       query.OneOf(q, "status", payments.Statuses()...),
		CreatedAfter: q.Instant("createdAfter"), CreatedBefore: q.Instant("createdBefore"),
		Limit: q.Limit(), Before: query.CursorOf(q, payments.ParsePaymentID),
	}}
	q.Order("createdAfter", "createdBefore", f.CreatedAfter, f.CreatedBefore)
	return f, q.Bad
}

// listPayments reads a page of each tenant, because the indexes begin with the tenant. Of these pages it takes the
// newest payments: ids are in the order of creation.
func (d *Service) listPayments(ctx context.Context, f PaymentFilter) (query.List[PaymentEntry], error) {
	ids := []string{f.Tenant}
	if f.Tenant == "" {
		var err error
		if ids, err = dbsqlc.New(d.db.Reader()).ListTenantIDs(ctx); err != nil {
			return query.List[PaymentEntry]{}, fmt.Errorf("list tenants: %w", err)
		}
	}
	var newest payments.Page
	for _, tenant := range ids {
		page, err := d.payments.Payments(ctx, tenant, f.Filter)
		if err != nil {
			return query.List[PaymentEntry]{}, err
		}
		newest = newest.Merge(page, f.Limit)
	}
	rows := make([]PaymentEntry, len(newest.Payments))
	for i, p := range newest.Payments {
		p.Description, p.Metadata = "", nil // What a merchant notes for itself is not for operators.
		rows[i] = PaymentEntry{Tenant: p.Tenant, PaymentBody: p.Body(), PSPObjectID: p.PSPObjectID(), Payment: p}
	}
	return query.ListOf(rows, newest.Next), nil
}
