package payments

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"payonce/internal/idempotency"
	"payonce/internal/postgres"
)

// maxReads bounds how often a reservation looks again. Each look follows on a rival's commit, so a second one settles nearly
// every case.
const maxReads = 5

// reserve is the first transaction: it takes the key and writes its row, or tells whose the key is. It returns Retake only for a key that may not be taken
// again, and LeaseOver never.
func (s *Service) reserve(ctx context.Context, c idempotency.Claim, m movement) (idempotency.Decision, error) {
	decision, err := s.take(ctx, c, m)
	won, ours := decision.(idempotency.Execute)
	if err != nil || !ours {
		return decision, err
	}
	if won.Lease.Attempt() == 1 {
		s.metrics.Reserved("created")
	} else {
		s.metrics.Reserved("failed_retry")
	}
	if m.resource() != nil {
		return won, nil
	}
	// The acknowledgement was lost, and with it what the statements have returned.
	if err := m.load(ctx, won.Lease.Subject()); err != nil {
		return nil, fmt.Errorf("load what was reserved: %w", err)
	}
	return won, nil
}

// take sends the claim until it is decided.
func (s *Service) take(ctx context.Context, c idempotency.Claim, m movement) (idempotency.Decision, error) {
	var refused *idempotency.Retake
	var doubt bool // an acknowledgement was lost on the way
	for read := range maxReads {
		decision, lost, err := s.commitClaim(ctx, c, m, func() (idempotency.Decision, error) { return s.sendClaim(ctx, c, m, read > 0, doubt) })
		if err != nil {
			return nil, err
		}
		doubt = doubt || lost
		switch d := decision.(type) {
		case nil:
			continue // a rival committed after our snapshot, or our own commit did not arrive
		case idempotency.LeaseOver:
			// Crash window 5: found over, not unknown yet.
			if err := s.expireLease(ctx, d); err != nil {
				return nil, err
			}
			continue // ours, the sweeper's or the owner's: what it has become is read, not assumed
		case idempotency.Retake:
			if refused != nil && d.Same(*refused) {
				return d, nil // still free, and still not to be had: the PSP may have forgotten it
			}
			taken, lost, err := s.retake(ctx, c, m, d, doubt)
			if err != nil {
				return nil, err
			}
			doubt = doubt || lost
			switch taken.(type) {
			case nil:
				refused = &d
			case idempotency.Retake, idempotency.LeaseOver: // the commit did not arrive, or not in time
			case idempotency.Execute, idempotency.Replay, idempotency.InProgress, idempotency.Misuse, idempotency.Unknown:
				return taken, nil
			}
		case idempotency.Execute, idempotency.Replay, idempotency.InProgress, idempotency.Misuse, idempotency.Unknown:
			return d, nil
		}
	}
	return nil, &postgres.UnavailableError{Op: "reserve key", Err: fmt.Errorf("no decision after %d reads", maxReads)}
}

// expireLease makes a key unknown whose lease is over. A lost acknowledgement is as good as a commit here: the caller
// reads what the key has become.
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

// retake sends tx 1 for a key that is free again. It returns nil when the key was not to be had.
func (s *Service) retake(
	ctx context.Context, c idempotency.Claim, m movement, r idempotency.Retake, doubt bool,
) (decision idempotency.Decision, lost bool, err error) {
	row := m.resume
	if r.Renews() {
		row = func(c idempotency.Claim, _ uuid.UUID) []postgres.Call { return m.begin(c) }
	}
	return s.commitClaim(ctx, c, m, func() (decision idempotency.Decision, err error) {
		err = s.db.Pipeline(ctx, firstTransaction(s.keys.Retake(c, r, &decision), row(c, r.Subject()), doubt)...)
		return decision, err
	})
}

// sendClaim sends tx 1 of a new key. The first try of a charge may share its transaction with other payments.
func (s *Service) sendClaim(ctx context.Context, c idempotency.Claim, m movement, alone, doubt bool) (idempotency.Decision, error) {
	if own, is := m.(*charge); is && !alone {
		own.payment = nil
		r, err := s.groups.reservations.Do(ctx, reservation{c, own})
		if err == nil {
			own.payment = r.payment
		}
		return r.decision, err
	}
	var decisions []idempotency.Decision
	err := s.db.Pipeline(ctx, firstTransaction(s.keys.Reserve([]idempotency.Claim{c}, &decisions), m.begin(c), doubt)...)
	if err != nil {
		return nil, err
	}
	return decisions[0], nil
}

// firstTransaction is what takes a key, and writes its row behind it.
//
// A charge must not outlive its reservation. So a lease that was read counts no more than one that was written: where a claim is in doubt, one whose
// earlier acknowledgement was lost, the acknowledgement covers what it finds, too.
func firstTransaction(key postgres.Call, row []postgres.Call, doubt bool) []postgres.Call {
	calls := slices.Concat([]postgres.Call{key}, row)
	if doubt {
		calls = append(calls, postgres.Durable)
	}
	return calls
}

// commitClaim sends one form of tx 1 and settles a lost acknowledgement by reading: a row that carries our lease is our
// commit. Where there is none, the commit has not happened, or not yet; the same claim may be sent again, for if the
// first comes through after all, the second finds it and is the owner all the same.
func (s *Service) commitClaim(
	ctx context.Context, c idempotency.Claim, m movement, send func() (idempotency.Decision, error),
) (decision idempotency.Decision, lost bool, err error) {
	decision, err = send()
	if err == nil {
		return decision, false, nil
	}
	if postgres.RolledBack(err) {
		if refusal := m.refusal(err); refusal != err { //nolint:errorlint // asks whether it was translated, not what it is
			return nil, false, refusal
		}
		s.metrics.StoreFailed("reserve")
		return nil, false, fmt.Errorf("reserve key: %w", err)
	}
	s.metrics.CommitAmbiguous()
	var readErr error
	postgres.Recall(ctx, func(int) (done bool) {
		decision, readErr = s.recallClaim(ctx, c)
		return readErr == nil || postgres.GaveUp(readErr)
	})
	if readErr == nil {
		return decision, true, nil
	}
	s.metrics.StoreFailed("reserve")
	return nil, true, fmt.Errorf("reserve key: %w", err)
}

// recallClaim reads what a claim has come to. The first look grants nothing: it is for those who are told what is stored, and have shared a
// transaction with one whose commit waits. They need not wait with it once more.
func (s *Service) recallClaim(ctx context.Context, c idempotency.Claim) (idempotency.Decision, error) {
	seen, err := s.keys.Peek(ctx, c)
	if _, ours := seen.(idempotency.Execute); err != nil || !ours {
		return seen, err
	}
	return s.keys.PeekDurably(ctx, c)
}
