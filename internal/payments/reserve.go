package payments

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"payonce/internal/idempotency"
	"payonce/internal/postgres"
	"payonce/internal/tracing"
)

// maxReads is how often a reservation reads its key, at most. It reads again when somebody else, or a commit of its
// own, has moved the key in between. If the first read does not decide, the second one nearly always does.
const maxReads = 5

// reserve is the first transaction. It takes the key and writes the row of the payment or refund. If it cannot take the
// key, it returns why. It handles Retake and LeaseOver itself, and returns Retake only when retaking has failed for
// good.
func (s *Service) reserve(ctx context.Context, r idempotency.Reservation, m *movement) (idempotency.Decision, error) {
	ctx, span := tracing.Start(ctx, "reserve")
	defer span.End()
	decision, err := s.reserveUntilDecided(ctx, r, m)
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

// reserveUntilDecided sends the reservation, and sends it again while the answer is not a decision.
func (s *Service) reserveUntilDecided(
	ctx context.Context, r idempotency.Reservation, m *movement,
) (idempotency.Decision, error) {
	var refused *idempotency.Retake
	var doubt bool // An acknowledgement was lost on the way.
	for read := range maxReads {
		decision, ackLost, err := s.commitReservation(ctx, r, func() (idempotency.Decision, error) {
			return s.reserveOnce(ctx, r, m, read > 0, doubt)
		})
		if err != nil {
			return nil, err
		}
		doubt = doubt || ackLost
		switch d := decision.(type) {
		case nil: // Somebody has committed after our snapshot, or our commit did not arrive, or the key is held.
			if held, err := s.keys.HeldWithoutRow(ctx, r.Ref); err != nil || held != nil {
				return held, err
			}
		case idempotency.LeaseOver:
			// Crash window 5: the lease is over, the key is not unknown yet.
			if err := s.expireLease(ctx, d); err != nil {
				return nil, err
			}
			continue // We, the sweeper or the owner have moved the key. The next read says where it is.
		case idempotency.Retake:
			if refused != nil && d.Same(*refused) {
				return d, nil // Nobody has taken the key, but we cannot take it: the PSP may have forgotten it.
			}
			taken, ackLost, err := s.retake(ctx, r, m, d, doubt)
			if err != nil {
				return nil, err
			}
			doubt = doubt || ackLost
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

// reserveOnce sends the first transaction. If there is a row already, the transaction only reads it. The first try of a
// charge may share its transaction with other charges (group commit). A later try runs alone: another payment's
// statement may have caused a failure of the first.
func (s *Service) reserveOnce(
	ctx context.Context, r idempotency.Reservation, m *movement, alone, doubt bool,
) (idempotency.Decision, error) {
	if !m.isRefund() && !alone {
		m.payment = nil
		member, err := s.groups.reservations.Do(ctx, chargeReservation{r, m, tracing.Current(ctx)})
		if err == nil {
			m.payment = member.payment
		}
		return member.decision, err
	}
	var decision idempotency.Decision
	key := oneOf(s.keys.Reserve, r, &decision)
	err := s.db.Pipeline(ctx, firstTransaction(key, m.begin(r), doubt)...)
	return decision, err
}

// retake sends the first transaction of a key that is free again: the next attempt of a released key, or the next
// generation of an expired one. It returns nil if the key cannot be taken.
func (s *Service) retake(
	ctx context.Context, r idempotency.Reservation, m *movement, free idempotency.Retake, doubt bool,
) (decision idempotency.Decision, ackLost bool, err error) {
	row := m.resume
	if free.Renews() {
		row = func(r idempotency.Reservation, _ uuid.UUID) []postgres.Call { return m.begin(r) }
	}
	return s.commitReservation(ctx, r, func() (decision idempotency.Decision, err error) {
		key := s.keys.Retake(r, free, &decision)
		err = s.db.Pipeline(ctx, firstTransaction(key, row(r, free.Subject), doubt)...)
		return decision, err
	})
}

// firstTransaction is the statement that takes a key, and then those that write the row that the key stands for.
//
// A charge must not exist without its reservation. A failover may lose a commit that was never acknowledged, even if
// its row can be read. If an acknowledgement of this reservation was lost (doubt), the statement may find our own row
// and write nothing. So the transaction then also waits until the row that it has read is durable.
func firstTransaction(key postgres.Call, row []postgres.Call, doubt bool) []postgres.Call {
	calls := slices.Concat([]postgres.Call{key}, row)
	if doubt {
		calls = append(calls, postgres.Durable)
	}
	return calls
}

// commitReservation sends one form of the first transaction. If its acknowledgement is lost, the key is read: a row
// with our lease is our commit. Without such a row, the commit has not happened, or not yet. The same reservation may
// then be sent again. Should the first commit arrive after all, the second one finds it, and we are the owner in either
// case.
func (s *Service) commitReservation(
	ctx context.Context, r idempotency.Reservation, send func() (idempotency.Decision, error),
) (decision idempotency.Decision, ackLost bool, err error) {
	decision, err = send()
	if err == nil {
		return decision, false, nil
	}
	if postgres.RolledBack(err) {
		if exceedsPayment(err) {
			return nil, false, ErrRefundExceedsPayment
		}
		s.metrics.StoreFailed("reserve")
		return nil, false, fmt.Errorf("reserve key: %w", err)
	}
	s.metrics.CommitAmbiguous()
	var readErr error
	postgres.Recall(ctx, func(int) (done bool) {
		decision, readErr = s.readBackReservation(ctx, r)
		return readErr == nil || postgres.GaveUp(readErr)
	})
	if readErr == nil {
		return decision, true, nil
	}
	s.metrics.StoreFailed("reserve")
	return nil, true, fmt.Errorf("reserve key: %w", err)
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
