package payments

import (
	"context"
	"errors"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
	"payonce/internal/payments/internal/dbsqlc"
	"payonce/internal/postgres"
)

// findMovement is the call that reads a movement: the one with this id, or, without an id, the one that the key stands
// for now. If there is none, out is nil.
func (s *Service) findMovement(ref idempotency.Ref, id *uuid.UUID, out **movement) postgres.Call {
	find := s.findPayment
	if ref.Operation == payment.RefundOperation {
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
) (*movement, error) {
	row, err := q.FindPayment(ctx, by)
	if err != nil {
		return nil, err
	}
	return s.movementOf(row.Payment, nil, row.Psp, row.PspAccount)
}

func (s *Service) findRefund(ctx context.Context, q *dbsqlc.Queries, by dbsqlc.FindPaymentParams) (*movement, error) {
	row, err := q.FindRefund(ctx, dbsqlc.FindRefundParams(by))
	if err != nil {
		return nil, err
	}
	return s.movementOf(row.Payment, &row.Refund, row.Psp, row.PspAccount)
}

// movementOf is the movement of a payment's row, or of a refund's with its payment's.
func (s *Service) movementOf(paid dbsqlc.Payment, refund *dbsqlc.Refund, psp, account string) (*movement, error) {
	p, err := paymentOf(paid)
	m := &movement{service: s, merchant: payment.Merchant{Tenant: p.Tenant, PSP: psp, PSPAccount: account},
		object: gateway.ChargeObject, payment: &p}
	if refund != nil {
		r := refundOf(*refund)
		m.object, m.refund = gateway.RefundObject, &r
	}
	return m, err
}

// paymentOf is the only mapper of a payment's row.
func paymentOf(row dbsqlc.Payment) (payment.Payment, error) {
	p := payment.Payment{
		ID: payment.ID(row.ID), Tenant: row.TenantID, CustomerID: row.CustomerID,
		Amount: payment.AmountMinor(row.AmountMinor), Currency: payment.Currency(row.Currency),
		PaymentMethod: row.PaymentMethod,
		Description:   postgres.Text(row.Description), Status: payment.Status(row.Status),
		PSPChargeID: postgres.Text(row.PspChargeID), DeclineCode: postgres.Text(row.DeclineCode),
		Refunded:     payment.AmountMinor(row.RefundedMinor),
		MovedOutside: payment.AmountMinor(row.MovedOutsideMinor), Key: row.IdempotencyKey, Created: row.CreatedAt,
		PSPObjectID: postgres.Text(row.PspObjectID),
	}
	if row.Metadata != nil {
		if err := json.Unmarshal(row.Metadata, &p.Metadata); err != nil {
			return payment.Payment{}, err
		}
	}
	return p, nil
}

// refundOf is the only mapper of a refund's row.
func refundOf(row dbsqlc.Refund) payment.Refund {
	return payment.Refund{
		ID: payment.RefundID(row.ID), PaymentID: payment.ID(row.PaymentID),
		Amount:   payment.AmountMinor(row.AmountMinor),
		Currency: payment.Currency(row.Currency), Reason: postgres.Text(row.Reason), Status: payment.Status(row.Status),
		PSPRefundID: postgres.Text(row.PspRefundID), DeclineCode: postgres.Text(row.DeclineCode),
		Key: row.IdempotencyKey, Created: row.CreatedAt,
	}
}
