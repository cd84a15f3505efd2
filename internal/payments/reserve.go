package payments

import (
	"context"
	"fmt"
	"slices"

	"payonce/internal/idempotency"
	"payonce/internal/postgres"
	"payonce/internal/tracing"
)

// reserve is the first transaction. It takes the key and writes the row of the payment or refund. If it cannot take the
// key, it returns why. It handles Retake and LeaseOver itself, and returns Retake only when retaking has failed for
// good.
func (s *Service) reserve(ctx context.Context, r idempotency.Reservation, m *movement) (idempotency.Decision, error) {
	ctx, span := tracing.Start(ctx, "reserve")
	defer span.End()
	decision, err := (&reserving{service: s, reservation: r, movement: m}).untilDecided(ctx)
	won, ours := decision.(idempotency.Execute)
	if err != nil || !ours {
		return decision, err
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

// reserving is a reservation that is sent until it is decided.
type reserving struct {
	service     *Service
	reservation idempotency.Reservation
	movement    *movement
	again       bool // it was sent before
	doubt       bool // an acknowledgement was lost on the way
}

// untilDecided sends the reservation, and sends it again while the answer is not a decision.
func (r *reserving) untilDecided(ctx context.Context) (idempotency.Decision, error) {
	var refused *idempotency.Retake
	for range maxReads {
		decision, err := r.commit(ctx, r.send)
		if err != nil {
			return nil, err
		}
		switch d := decision.(type) {
		case nil: // Somebody has committed after our snapshot, or our commit did not arrive, or the key is held.
			if held, err := r.service.keys.HeldWithoutRow(ctx, r.reservation.Ref); err != nil || held != nil {
				return held, err
			}
		case idempotency.LeaseOver:
			// Crash window 5: the lease is over, the key is not unknown yet.
			if err := r.service.expireLease(ctx, d); err != nil {
				return nil, err
			}
			continue // We, the sweeper or the owner have moved the key. The next read says where it is.
		case idempotency.Retake:
			if refused != nil && d.Same(*refused) {
				return d, nil // Nobody has taken the key, but we cannot take it: the PSP may have forgotten it.
			}
			taken, err := r.retake(ctx, d)
			if err != nil {
				return nil, err
			}
			if won, ours := taken.(idempotency.Execute); ours {
				return won, nil
			}
			if taken == nil {
				refused = &d
			}
			// We have not taken the key. The next read says where it is.
		case idempotency.Execute, idempotency.Replay, idempotency.InProgress, idempotency.Mismatch, idempotency.Unknown,
			idempotency.Held:
			return d, nil
		}
	}
	return nil, &postgres.UnavailableError{Op: "reserve key", Err: fmt.Errorf("no decision after %d reads", maxReads)}
}

// send sends the first transaction. If there is a row already, the transaction only reads it. The first try of a charge
// may share its transaction with other charges (group commit). A later try runs alone: another payment's statement may
// have caused a failure of the first.
func (r *reserving) send(ctx context.Context) (decision idempotency.Decision, err error) {
	s, m := r.service, r.movement
	if m.isRefund() || r.again {
		key := oneOf(s.keys.Reserve, r.reservation, &decision)
		err = s.db.Pipeline(ctx, r.calls(key, m.begin(r.reservation))...)
		return decision, err
	}
	m.payment = nil
	member, err := s.groups.reservations.Do(ctx, chargeReservation{r.reservation, m, tracing.Current(ctx)})
	if err == nil {
		m.payment = member.payment
	}
	return member.decision, err
}

// retake sends the first transaction of a key that is free again: the next attempt of a released key, or the next
// generation of an expired one. It returns nil if the key cannot be taken.
func (r *reserving) retake(ctx context.Context, free idempotency.Retake) (idempotency.Decision, error) {
	return r.commit(ctx, func(ctx context.Context) (decision idempotency.Decision, err error) {
		s, row := r.service, r.movement.resume(r.reservation, free.Subject)
		if free.Renews() {
			row = r.movement.begin(r.reservation)
		}
		err = s.db.Pipeline(ctx, r.calls(s.keys.Retake(r.reservation, free, &decision), row)...)
		return decision, err
	})
}

// calls are the statement that takes a key, and then those that write the row that the key stands for.
//
// A charge must not exist without its reservation. A failover may lose a commit that was never acknowledged, even if
// its row can be read. If an acknowledgement of this reservation was lost (doubt), the statement may find our own row
// and write nothing. So the transaction then also waits until the row that it has read is durable.
func (r *reserving) calls(key postgres.Call, row []postgres.Call) []postgres.Call {
	calls := slices.Concat([]postgres.Call{key}, row)
	if r.doubt {
		calls = append(calls, postgres.Durable)
	}
	return calls
}

// commit sends one form of the first transaction. If its acknowledgement is lost, the key is read: a row with our lease
// is our commit. Without such a row, the commit has not happened, or not yet. The same reservation may then be sent
// again. Should the first commit arrive after all, the second one finds it, and we are the owner in either case.
func (r *reserving) commit(
	ctx context.Context, send func(context.Context) (idempotency.Decision, error),
) (idempotency.Decision, error) {
	decision, err := send(ctx)
	r.again = true
	if err == nil {
		return decision, nil
	}
	s := r.service
	if postgres.RolledBack(err) {
		if exceedsPayment(err) {
			return nil, ErrRefundExceedsPayment
		}
		s.metrics.StoreFailed("reserve")
		return nil, fmt.Errorf("reserve key: %w", err)
	}
	s.metrics.CommitAmbiguous()
	r.doubt = true
	var readErr error
	postgres.Recall(ctx, func(int) (done bool) {
		decision, readErr = s.readBackReservation(ctx, r.reservation)
		return readErr == nil || postgres.GaveUp(readErr)
	})
	if readErr == nil {
		return decision, nil
	}
	s.metrics.StoreFailed("reserve")
	return nil, fmt.Errorf("reserve key: %w", err)
}

// readBackReservation reads, after a lost acknowledgement, whether the reservation was written. The first read does not
// wait for durability, like any replay. If the row has our own lease, we will charge because of it. Then it is read
// again, and the read waits until the row is durable.
func (s *Service) readBackReservation(ctx context.Context, r idempotency.Reservation) (idempotency.Decision, error) {
	seen, err := s.keys.Peek(ctx, r)
	if _, ours := seen.(idempotency.Execute); err != nil || !ours {
		return seen, err
	}
	return s.keys.PeekDurably(ctx, r)
}

// expireLease makes a key unknown after its lease is over. The caller reads it again, also if no answer comes.
func (s *Service) expireLease(ctx context.Context, d idempotency.LeaseOver) error {
	err := s.db.Pipeline(ctx, s.keys.ExpireLease(d))
	switch {
	case err == nil:
		return nil
	case !postgres.RolledBack(err):
		s.metrics.CommitAmbiguous()
		return nil
	}
	s.metrics.StoreFailed("expire_lease")
	return fmt.Errorf("expire lease: %w", err)
}

// exceedsPayment reports whether a constraint has refused a refund, because it is for more than is left of its payment.
func exceedsPayment(err error) bool {
	return postgres.Violates(err, "payments_refunds_within_amount") || postgres.Violates(err, "refunds_amount_positive")
}
