package payments

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/idempotency"
	"payonce/internal/payments/internal/dbsqlc"
	"payonce/internal/postgres"
)

// findMovement is the call that reads a movement: the one with this id, or, without an id, the one that the key stands
// for now. If there is none, out is nil.
func (s *Service) findMovement(ref idempotency.Ref, id *uuid.UUID, out *movement) postgres.Call {
	find := s.findPayment
	if ref.Operation == RefundOperation {
		find = s.findRefund
	}
	p := dbsqlc.FindPaymentParams{TenantID: ref.Tenant, ID: id}
	if id == nil {
		p.Operation, p.Key = string(ref.Operation), ref.Key.String()
	}
	return func(ctx context.Context, q postgres.Statement) (err error) {
		*out, err = find(ctx, dbsqlc.New(q), p)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	}
}

func (s *Service) findPayment(
	ctx context.Context, q *dbsqlc.Queries, by dbsqlc.FindPaymentParams,
) (movement, error) {
	row, err := q.FindPayment(ctx, by)
	if err != nil {
		return nil, err
	}
	p, err := paymentOf(row.Payment)
	merchant := Merchant{Tenant: p.Tenant, PSP: row.Psp, PSPAccount: row.PspAccount}
	return &charge{service: s, merchant: merchant, payment: &p}, err
}

func (s *Service) findRefund(ctx context.Context, q *dbsqlc.Queries, by dbsqlc.FindPaymentParams) (movement, error) {
	row, err := q.FindRefund(ctx, dbsqlc.FindRefundParams(by))
	if err != nil {
		return nil, err
	}
	p, err := paymentOf(row.Payment)
	r := refundOf(row.Refund)
	merchant := Merchant{Tenant: p.Tenant, PSP: row.Psp, PSPAccount: row.PspAccount}
	return &refundMovement{service: s, merchant: merchant, payment: p, refund: &r}, err
}
