package payments

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"payonce/internal/idempotency"
	"payonce/internal/payments/internal/dbsqlc"
	"payonce/internal/postgres"
)

// foundPayment is a payment with its tenant's account at the PSP.
type foundPayment dbsqlc.FindPaymentRow

// foundRefund is a refund with its payment.
type foundRefund dbsqlc.FindRefundRow

// findMovement is the call that reads the movement of an execution. If there is none, out is nil.
func (s *Service) findMovement(own idempotency.Execution, out *movement) postgres.Call {
	if own.Ref.Operation == RefundOperation {
		return s.foundRefund(out, func(ctx context.Context, q *dbsqlc.Queries) (foundRefund, error) {
			row, err := q.FindRefund(ctx, dbsqlc.FindRefundParams{TenantID: own.Ref.Tenant, ID: own.Subject})
			return foundRefund(row), err
		})
	}
	return s.foundPayment(out, func(ctx context.Context, q *dbsqlc.Queries) (foundPayment, error) {
		row, err := q.FindPayment(ctx, dbsqlc.FindPaymentParams{TenantID: own.Ref.Tenant, ID: own.Subject})
		return foundPayment(row), err
	})
}

// movementOf is the call that reads the movement that a key stands for now. If there is none, out is nil.
func (s *Service) movementOf(ref idempotency.Ref, out *movement) postgres.Call {
	if ref.Operation == RefundOperation {
		return s.foundRefund(out, func(ctx context.Context, q *dbsqlc.Queries) (foundRefund, error) {
			row, err := q.RefundOfKey(ctx, dbsqlc.RefundOfKeyParams{TenantID: ref.Tenant,
				Operation: string(ref.Operation), Key: ref.Key.String()})
			return foundRefund(row), err
		})
	}
	return s.foundPayment(out, func(ctx context.Context, q *dbsqlc.Queries) (foundPayment, error) {
		row, err := q.PaymentOfKey(ctx, dbsqlc.PaymentOfKeyParams{TenantID: ref.Tenant,
			Operation: string(ref.Operation), Key: ref.Key.String()})
		return foundPayment(row), err
	})
}

func (s *Service) foundPayment(
	out *movement, find func(context.Context, *dbsqlc.Queries) (foundPayment, error),
) postgres.Call {
	return func(ctx context.Context, q postgres.Statement) error {
		*out = nil
		row, err := find(ctx, dbsqlc.New(q))
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		p, err := paymentOf(row.Payment)
		merchant := Merchant{Tenant: p.Tenant, PSP: row.Psp, PSPAccount: row.PspAccount}
		*out = &charge{service: s, merchant: merchant, payment: &p}
		return err
	}
}

func (s *Service) foundRefund(
	out *movement, find func(context.Context, *dbsqlc.Queries) (foundRefund, error),
) postgres.Call {
	return func(ctx context.Context, q postgres.Statement) error {
		*out = nil
		row, err := find(ctx, dbsqlc.New(q))
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		p, err := paymentOf(row.Payment)
		r := refundOf(row.Refund)
		merchant := Merchant{Tenant: p.Tenant, PSP: row.Psp, PSPAccount: row.PspAccount}
		*out = &refundMovement{service: s, merchant: merchant, payment: p, refund: &r}
		return err
	}
}
