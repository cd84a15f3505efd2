package payments

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/payments/internal/dbsqlc"
)

// Payment reads one of the tenant's payments. Another tenant's is ErrPaymentNotFound, the same as none.
func (s *Service) Payment(ctx context.Context, tenant string, id PaymentID) (Payment, error) {
	row, err := dbsqlc.New(s.db.Reader()).GetPayment(ctx, dbsqlc.GetPaymentParams{ID: uuid.UUID(id), TenantID: tenant})
	if errors.Is(err, pgx.ErrNoRows) {
		return Payment{}, ErrPaymentNotFound
	}
	if err != nil {
		return Payment{}, fmt.Errorf("read payment: %w", err)
	}
	return paymentOf(row)
}

// RefundByID reads one of the tenant's refunds. Another tenant's is ErrRefundNotFound, the same as none.
func (s *Service) RefundByID(ctx context.Context, tenant string, id RefundID) (Refund, error) {
	row, err := dbsqlc.New(s.db.Reader()).GetRefund(ctx, dbsqlc.GetRefundParams{ID: uuid.UUID(id), TenantID: tenant})
	if errors.Is(err, pgx.ErrNoRows) {
		return Refund{}, ErrRefundNotFound
	}
	if err != nil {
		return Refund{}, fmt.Errorf("read refund: %w", err)
	}
	return refundOf(row), nil
}

// Bounds of a page.
const (
	DefaultPage = 20
	MaxPage     = 100
)

// Filter selects payments. Empty members select all.
type Filter struct {
	CustomerID string
	Status     Status
	Before     *PaymentID // the cursor: only older ones
	Limit      int        // 1 to MaxPage
}

// Page is a part of a list, newest first. Next is the cursor of the following part, nil on the last.
type Page struct {
	Payments []Payment
	Next     *PaymentID
}

// Payments lists the tenant's payments, newest first.
func (s *Service) Payments(ctx context.Context, tenant string, f Filter) (Page, error) {
	before := lastID()
	if f.Before != nil {
		before = uuid.UUID(*f.Before)
	}
	rows, err := dbsqlc.New(s.db.Reader()).ListPayments(ctx, dbsqlc.ListPaymentsParams{
		TenantID: tenant, Before: before, CustomerID: nullable(f.CustomerID), Status: nullable(string(f.Status)),
		MaxRows: int32(min(f.Limit, MaxPage) + 1), //nolint:gosec // bounded by MaxPage
	})
	if err != nil {
		return Page{}, fmt.Errorf("list payments: %w", err)
	}
	page := Page{Payments: make([]Payment, 0, len(rows))}
	for _, row := range rows {
		p, err := paymentOf(row)
		if err != nil {
			return Page{}, fmt.Errorf("read payment: %w", err)
		}
		page.Payments = append(page.Payments, p)
	}
	if len(rows) > f.Limit {
		page.Payments = page.Payments[:f.Limit]
		page.Next = &page.Payments[f.Limit-1].ID
	}
	return page, nil
}
