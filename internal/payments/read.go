package payments

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/payments/internal/dbsqlc"
)

// Payment reads a payment of the tenant. For another tenant's payment it fails with ErrPaymentNotFound, as if there
// were none.
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

// RefundByID reads a refund of the tenant. For another tenant's refund it fails with ErrRefundNotFound, as if there
// were none.
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

// LookUp asks the PSP what its ledger has under the key of an execution. It is for people: it judges nothing and writes
// nothing. If the movement is not there, it fails with ErrPaymentNotFound.
func (s *Service) LookUp(ctx context.Context, own idempotency.Execution) (gateway.Lookup, error) {
	g, err := s.gather(ctx, own)
	if errors.Is(err, errNotOurs) {
		return nil, ErrPaymentNotFound
	}
	if err != nil {
		return nil, err
	}
	return s.psp.Lookup(ctx, g.movement.object(), g.seen.Account, own.PassThroughKey()), nil
}

// The sizes of a page.
const (
	DefaultPage = 20
	MaxPage     = 100
)

// Filter selects payments. An empty field selects all.
type Filter struct {
	CustomerID string
	Status     Status
	Before     *PaymentID // the cursor: only payments that are older than this one
	Limit      int        // 1 to MaxPage
}

// Page is a part of a list, newest first. Next is the cursor of the next page, and nil on the last page.
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
