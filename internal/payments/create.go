package payments

import (
	"context"
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
	"payonce/internal/problem"
)

// Keyed is the part of a request that every movement of money has in addition to its body.
type Keyed struct {
	Merchant payment.Merchant
	Key      idempotency.Key
	// Subject is the id of the payment or refund, a UUIDv7, if the request creates one. If it is zero, one is made.
	Subject uuid.UUID
}

// Acceptable lists what the merchant's PSP can never take of a valid request: a token of another form, or an amount
// that it cannot count.
func (b *Books) Acceptable(m payment.Merchant, r payment.CreateRequest) []problem.Detail {
	refuses := b.psps.Of(m.PSP).Traits().Refuses
	if refuses == nil {
		return nil
	}
	bad := refuses(gateway.Charge{
		AmountMinor: int64(r.AmountCents), Currency: string(r.Currency), PaymentMethod: r.PaymentMethod,
	})
	if bad == nil {
		return nil
	}
	pointer := map[gateway.Member]string{
		gateway.AmountMember: "/amountCents", gateway.CurrencyMember: "/currency",
		gateway.TokenMember: "/paymentMethod",
	}[bad.Member]
	return []problem.Detail{problem.AtPointer(pointer, bad.Detail)}
}

// Create takes a payment, once for each key. The request must have passed Validate and Acceptable.
func (s *Service) Create(ctx context.Context, k Keyed, r payment.CreateRequest) (Answer, error) {
	fingerprint, err := idempotency.FingerprintOf(http.MethodPost, "/payments", r)
	if err != nil {
		return nil, fmt.Errorf("fingerprint request: %w", err)
	}
	ref := idempotency.Ref{Tenant: k.Merchant.Tenant, Operation: payment.CreateOperation, Key: k.Key}
	m, err := newCharge(&s.Books, k.Merchant, r)
	if err != nil {
		return nil, err
	}
	return s.execute(ctx, ref, fingerprint, k.Subject, m)
}
