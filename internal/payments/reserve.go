package payments

import (
	"context"
	"fmt"

	"payonce/internal/idempotency"
	"payonce/internal/postgres"
	"payonce/internal/tracing"
)

// reserve is the first transaction. It takes the key and writes the row of the payment or refund. If it cannot take the
// key, it returns why.
func (s *Service) reserve(ctx context.Context, r idempotency.Reservation, m *movement) (idempotency.Decision, error) {
	ctx, span := tracing.Start(ctx, "reserve")
	defer span.End()
	decision, err := s.keys.Take(ctx, r, func(ctx context.Context, t idempotency.Try) (idempotency.Decision, error) {
		came, err := s.groups.reservations.Do(ctx, reservation{t, m, span})
		m.begun(came)
		if err != nil && !postgres.RolledBack(err) {
			s.metrics.CommitAmbiguous()
		}
		return came.decision, err
	})
	switch {
	case exceedsPayment(err):
		return nil, ErrRefundExceedsPayment
	case err != nil:
		s.metrics.StoreFailed("reserve")
		return nil, fmt.Errorf("reserve key: %w", err)
	}
	won, ours := decision.(idempotency.Execute)
	if !ours {
		return decision, nil
	}
	s.noteReserved(span, won.Lease)
	if m.resource() != nil {
		return won, nil
	}
	// The acknowledgement was lost, and the rows that the statements returned were lost with it.
	if err := m.load(ctx, won.Lease.Subject); err != nil {
		return nil, fmt.Errorf("load what was reserved: %w", err)
	}
	return won, nil
}

// exceedsPayment reports whether a constraint has refused a refund, because it is for more than is left of its payment.
func exceedsPayment(err error) bool {
	return postgres.Violates(err, "payments_refunds_within_amount") || postgres.Violates(err, "refunds_amount_positive")
}
