package payments

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"payonce/internal/idempotency"
	"payonce/internal/postgres"
)

// maxReads bounds how often a reservation looks again. Each look follows on a rival's commit, so a second one settles nearly
// every case.
const maxReads = 5

// reserve takes the key, or tells whose it is. It returns Retake only for a key that may not be taken again, and LeaseOver never.
func (s *Service) reserve(ctx context.Context, c idempotency.Claim, m movement) (idempotency.Decision, error) {
	var doubt bool
	decision, err := s.decide(ctx, c, m, &doubt)
	if _, ours := decision.(idempotency.Execute); err != nil || !ours || !doubt {
		return decision, err
	}
	// Our lease was read, not acknowledged. A charge for it must not outlive it.
	if err := s.db.Confirm(ctx); err != nil {
		s.metrics.StoreFailed("reserve")
		return nil, fmt.Errorf("confirm reservation: %w", err)
	}
	return decision, nil
}

// decide sends tx 1 until there is a decision to act on. doubt is whether an acknowledgement was lost on the way.
func (s *Service) decide(ctx context.Context, c idempotency.Claim, m movement, doubt *bool) (idempotency.Decision, error) {
	var refused *idempotency.Retake
	for read := range maxReads {
		decision, err := s.commitClaim(ctx, c, read > 0, func(b *pgx.Batch, out *idempotency.Decision) {
			s.keys.QueueReserve(b, c, out)
			m.queueBegin(b, c)
		}, m, doubt)
		if err != nil {
			return nil, err
		}
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
			taken, err := s.retake(ctx, c, d, m, doubt)
			if err != nil {
				return nil, err
			}
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
	b := &pgx.Batch{}
	s.keys.QueueExpireLease(b, d)
	err := s.db.Send(ctx, b)
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
	ctx context.Context, c idempotency.Claim, r idempotency.Retake, m movement, doubt *bool,
) (idempotency.Decision, error) {
	return s.commitClaim(ctx, c, true, func(b *pgx.Batch, out *idempotency.Decision) {
		s.keys.QueueRetake(b, c, r, out)
		if r.Renews() {
			m.queueBegin(b, c)
		} else {
			m.queueResume(b, c, r.Subject())
		}
	}, m, doubt)
}

// commitClaim sends one form of tx 1 and settles a lost acknowledgement by reading: a row that carries our lease is our
// commit. Where there is none, the commit has not happened, or not yet; the same claim may be sent again, for if the
// first comes through after all, the second finds it and is the owner all the same.
func (s *Service) commitClaim(
	ctx context.Context, c idempotency.Claim, alone bool, queue func(*pgx.Batch, *idempotency.Decision), m movement, doubt *bool,
) (idempotency.Decision, error) {
	var decision idempotency.Decision
	err := s.commit(ctx, c.Ref, m, alone, func(b *pgx.Batch) {
		decision = nil
		queue(b, &decision)
	})
	if err == nil {
		return decision, nil
	}
	if postgres.RolledBack(err) {
		if refusal := m.refusal(err); refusal != err { //nolint:errorlint // asks whether it was translated, not what it is
			return nil, refusal
		}
		s.metrics.StoreFailed("reserve")
		return nil, fmt.Errorf("reserve key: %w", err)
	}
	s.metrics.CommitAmbiguous()
	*doubt = true
	for range postgres.MaxRecalls {
		var readErr error
		if decision, readErr = s.keys.Peek(ctx, c); readErr == nil {
			return decision, nil
		}
		if !postgres.PauseBeforeRecall(ctx) {
			break
		}
	}
	s.metrics.StoreFailed("reserve")
	return nil, fmt.Errorf("reserve key: %w", err)
}
