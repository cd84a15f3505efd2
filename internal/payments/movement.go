package payments

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
)

// movement is a charge or a refund. It does not change: what is known better is another movement.
type movement struct {
	merchant payment.Merchant
	psp      gateway.PSP    // the merchant's
	object   gateway.Object // ChargeObject or RefundObject
	// The rows that were begun, resumed or loaded. A charge has none of them before. A refund has its payment from the
	// beginning.
	payment *payment.Payment
	refund  *payment.Refund

	// What the client asks for, for the first transaction.
	wanted       payment.CreateRequest
	metadata     []byte // of the charge, as JSON; or nil
	wantedRefund payment.RefundRequest
}

func newCharge(psp gateway.PSP, m payment.Merchant, r payment.CreateRequest) (*movement, error) {
	c := &movement{merchant: m, psp: psp, object: gateway.ChargeObject, wanted: r}
	if len(r.Metadata) > 0 {
		var err error
		if c.metadata, err = json.Marshal(r.Metadata, json.Deterministic(true)); err != nil {
			return nil, fmt.Errorf("marshal metadata: %w", err)
		}
	}
	return c, nil
}

func newRefund(psp gateway.PSP, m payment.Merchant, p payment.Payment, r payment.RefundRequest) *movement {
	return &movement{merchant: m, psp: psp, object: gateway.RefundObject, payment: &p, wantedRefund: r}
}

func (m *movement) isRefund() bool { return m.object == gateway.RefundObject }

// withPayment is the charge with its row, as it was written or read.
func (m movement) withPayment(p payment.Payment) *movement {
	m.payment = &p
	return &m
}

// withRefund is the refund with its row, as it was written or read.
func (m movement) withRefund(r payment.Refund) *movement {
	m.refund = &r
	return &m
}

// load is the movement with its row, which it reads durably: a client is told of it. It is for a request whose
// acknowledgement was lost, and for a request that does not own the key.
func (s *Service) load(ctx context.Context, m *movement, subject uuid.UUID) (*movement, error) {
	if m.isRefund() {
		r, err := s.readRefund(ctx, m.merchant.Tenant, payment.RefundID(subject), s.readDurably)
		return m.withRefund(r), gone(err)
	}
	p, err := s.readPayment(ctx, m.merchant.Tenant, payment.ID(subject), s.readDurably)
	return m.withPayment(p), gone(err)
}

// resource is the row that was begun, resumed or loaded. It is nil before.
func (m *movement) resource() payment.Resource {
	switch {
	case m.refund != nil:
		return *m.refund
	case m.isRefund() || m.payment == nil:
		return nil
	}
	return *m.payment
}

// send asks the PSP to move the money, once.
func (m *movement) send(ctx context.Context, own idempotency.Execution) gateway.Outcome {
	if m.isRefund() {
		return m.psp.Refund(ctx, m.refundRequest(own))
	}
	return m.psp.Charge(ctx, m.chargeRequest(own))
}

// request is the request to the PSP of an execution.
func (m *movement) request(own idempotency.Execution) gateway.Request {
	if m.isRefund() {
		return m.refundRequest(own)
	}
	return m.chargeRequest(own)
}

func (m *movement) chargeRequest(own idempotency.Execution) gateway.Charge {
	return gateway.Charge{
		Account: m.merchant.PSPAccount, Key: own.PassThroughKey(), Attempt: own.Attempt,
		TwoSteps: m.psp.Traits().TwoSteps,
		ObjectID: m.payment.PSPObjectID, Reference: m.payment.ID.String(),
		AmountMinor: int64(m.payment.Amount), Currency: string(m.payment.Currency),
		PaymentMethod: m.payment.PaymentMethod,
	}
}

func (m *movement) refundRequest(own idempotency.Execution) gateway.Refund {
	return gateway.Refund{
		Account: m.merchant.PSPAccount, Key: own.PassThroughKey(), Attempt: own.Attempt,
		Reference: m.refund.ID.String(), ChargeID: m.payment.PSPChargeID,
		AmountMinor: int64(m.refund.Amount), Currency: string(m.refund.Currency), Reason: m.refund.Reason,
	}
}

// terms are the amount and the currency.
func (m *movement) terms() (payment.AmountMinor, payment.Currency) {
	if m.isRefund() {
		return m.refund.Amount, m.refund.Currency
	}
	return m.payment.Amount, m.payment.Currency
}

// subject is the id of the row.
func (m *movement) subject() uuid.UUID {
	if m.isRefund() {
		return uuid.UUID(m.refund.ID)
	}
	return uuid.UUID(m.payment.ID)
}

// rowVerdict is the verdict that the row shows.
func (m *movement) rowVerdict() payment.Verdict {
	if m.isRefund() {
		return payment.Verdict{Status: m.refund.Status, PSPID: m.refund.PSPRefundID, Code: m.refund.DeclineCode}
	}
	return payment.Verdict{Status: m.payment.Status, PSPID: m.payment.PSPChargeID, Code: m.payment.DeclineCode}
}
