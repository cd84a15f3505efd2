package payments

import (
	"context"

	"github.com/jackc/pgx/v5"

	"payonce/internal/idempotency"
	"payonce/internal/payments/internal/dbsqlc"
	"payonce/internal/postgres"
)

// foundPayment is a payment with its tenant's account at the PSP.
type foundPayment struct {
	dbsqlc.Payment

	PSPAccount string
}

// foundRefund is a refund with its payment.
type foundRefund struct {
	dbsqlc.Refund
	dbsqlc.Payment

	PSPAccount string
}

// queueMovement queues the reading of an execution's movement. It leaves *out nil when there is none.
func (s *Service) queueMovement(b *pgx.Batch, own idempotency.Execution, out *movement) {
	q := postgres.On(b)
	if own.Ref.Operation == RefundOperation {
		_, _ = dbsqlc.New(q).FindRefund(context.Background(), dbsqlc.FindRefundParams{TenantID: own.Ref.Tenant, ID: own.Subject})
		s.keepRefund(q, out)
		return
	}
	_, _ = dbsqlc.New(q).FindPayment(context.Background(), dbsqlc.FindPaymentParams{TenantID: own.Ref.Tenant, ID: own.Subject})
	s.keepPayment(q, out)
}

// queueMovementOf queues the reading of the movement that a key stands for now. It leaves *out nil when there is none.
func (s *Service) queueMovementOf(b *pgx.Batch, ref idempotency.Ref, out *movement) {
	q := postgres.On(b)
	if ref.Operation == RefundOperation {
		_, _ = dbsqlc.New(q).RefundOfKey(context.Background(), dbsqlc.RefundOfKeyParams{TenantID: ref.Tenant, Operation: string(ref.Operation), Key: ref.Key.String()})
		s.keepRefund(q, out)
		return
	}
	_, _ = dbsqlc.New(q).PaymentOfKey(context.Background(), dbsqlc.PaymentOfKeyParams{TenantID: ref.Tenant, Operation: string(ref.Operation), Key: ref.Key.String()})
	s.keepPayment(q, out)
}

func (s *Service) keepPayment(q postgres.Queue, out *movement) {
	*out = nil
	postgres.One(q, func(row *foundPayment) error {
		if row == nil {
			return nil
		}
		p, err := paymentOf(row.Payment)
		*out = &charge{service: s, merchant: Merchant{Tenant: p.Tenant, PSPAccount: row.PSPAccount}, payment: &p}
		return err
	})
}

func (s *Service) keepRefund(q postgres.Queue, out *movement) {
	*out = nil
	postgres.One(q, func(row *foundRefund) error {
		if row == nil {
			return nil
		}
		p, err := paymentOf(row.Payment)
		r := refundOf(row.Refund)
		*out = &giveback{service: s, merchant: Merchant{Tenant: p.Tenant, PSPAccount: row.PSPAccount}, payment: p, refund: &r}
		return err
	})
}
