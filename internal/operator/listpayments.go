package operator

import (
	"context"

	"payonce/internal/payment"
	"payonce/internal/payments"
	"payonce/internal/query"
	"payonce/internal/tenants"
)

// PaymentEntry is a payment in a list, without its description and metadata.
type PaymentEntry struct {
	Tenant string `json:"tenant"`
	payment.Body

	PSPObjectID string `json:"pspObjectId,omitzero"` // of the current attempt, if the PSP executes in two steps

	Payment payment.Payment `json:"-"`
}

// Payments lists the payments of all tenants, or of one, newest first.
func (s *Service) Payments(q *query.Query) Page[PaymentEntry] {
	tenant := q.Text("tenant")
	f := payments.Filter{CustomerID: q.Text("customerId"), Reference: q.Text("reference"),
		Status: query.OneOf(q, "status", payment.Statuses()...)}
	f.CreatedAfter, f.CreatedBefore = q.Between("createdAfter", "createdBefore")
	f.Limit, f.Before = q.Limit(), query.CursorOf(q, payment.ParseID)
	return bounded(s, longestList, func(ctx context.Context) (query.List[PaymentEntry], error) {
		return s.listPayments(ctx, tenant, f)
	})
}

// listPayments reads a page of each tenant, because the indexes begin with the tenant. Of these pages it takes the
// newest payments: ids are in the order of creation.
func (s *Service) listPayments(
	ctx context.Context, tenant string, f payments.Filter,
) (query.List[PaymentEntry], error) {
	ids := []string{tenant}
	if tenant == "" {
		var err error
		if ids, err = tenants.IDs(ctx, s.config.DB); err != nil {
			return query.List[PaymentEntry]{}, err
		}
	}
	var newest payments.Page
	for _, tenant := range ids {
		page, err := s.config.Payments.Payments(ctx, tenant, f)
		if err != nil {
			return query.List[PaymentEntry]{}, err
		}
		newest = newest.Merge(page, f.Limit)
	}
	rows := make([]PaymentEntry, len(newest.Payments))
	for i, p := range newest.Payments {
		p.Description, p.Metadata = "", nil // What a merchant notes for itself is not for operators.
		rows[i] = PaymentEntry{Tenant: p.Tenant, Body: p.Body(), PSPObjectID: p.PSPObjectID, Payment: p}
	}
	return query.ListOf(rows, newest.Next), nil
}
