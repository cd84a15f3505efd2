package payments

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/postgres"
)

// settle writes what came of the one PSP call: tx 2. All evidence ends here, so a response is the same bytes whoever
// brought it.
func (s *Service) settle(ctx context.Context, l idempotency.Lease, m movement, o gateway.Outcome) (Answer, error) {
	plan, err := s.plan(l, m, o)
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		won, err := s.commitPlan(ctx, l, m, o, plan, try > 1)
		switch {
		case won:
			return plan.answer, nil // Crash window 4: written, not answered.
		case err == nil:
			return s.fenced(ctx, l, m, o)
		case BelongsToAnother(err):
			return s.settle(ctx, l, m, namedTwice(o))
		case postgres.RolledBack(err) && !postgres.Unavailable(err):
			s.metrics.StoreFailed("settle")
			return nil, fmt.Errorf("settle: %w", err)
		}
		if !postgres.RolledBack(err) {
			s.metrics.CommitAmbiguous()
			if answer, settled := s.recall(ctx, l, m, plan); settled {
				return answer, nil
			}
		}
		if try == postgres.MaxRecalls || !postgres.PauseBeforeRecall(ctx) {
			// The PSP was asked, the payment is durable, and its outcome is not: that is what unknown means, and 503 would
			// say that nothing happened.
			s.metrics.StoreFailed("settle")
			s.log.ErrorContext(ctx, "outcome not written", slog.String("resource", m.resource().Location()),
				slog.String("outcome", o.Label()), slog.Any("error", err))
			return pendingFor(m, l.Expires()), nil
		}
	}
}

// commitPlan sends one second transaction. won is whether its fence let it through.
func (s *Service) commitPlan(
	ctx context.Context, l idempotency.Lease, m movement, o gateway.Outcome, p plan, alone bool,
) (won bool, err error) {
	var rows int64
	err = s.commit(ctx, l.Ref(), m, alone, func(b *pgx.Batch) {
		won, rows = false, 1
		p.queue(b, &won, &rows)
	})
	if err != nil || !won {
		return false, err
	}
	s.checkRows(ctx, m, rows)
	s.logOutcome(ctx, l, m, o)
	return true, nil
}

// commit sends the statements of one key as one transaction, in company where that is possible: not when it was tried before, for the company may
// have been the trouble. queue may be called more than once.
func (s *Service) commit(ctx context.Context, ref idempotency.Ref, m movement, alone bool, queue func(*pgx.Batch)) error {
	if alone || m.locksOthers() {
		b := &pgx.Batch{}
		queue(b)
		return s.db.Send(ctx, b)
	}
	return s.db.SendShared(ctx, lockOrder(ref), queue)
}

// lockOrder is the order in which those who share a transaction lock their keys.
func lockOrder(ref idempotency.Ref) string { return string(ref.Scope) + " " + ref.Key.String() }

// checkRows reports a key that has gone on without its payment. It should never be seen; a ledger scan would find it.
func (s *Service) checkRows(ctx context.Context, m movement, rows int64) {
	if rows != 1 {
		s.metrics.StoreFailed("settle_row")
		s.log.ErrorContext(ctx, "key settled, its row was not", slog.String("resource", m.resource().Location()))
	}
}

// logOutcome tells of every outcome but a verdict: that is in the line of the request, by its status.
func (s *Service) logOutcome(ctx context.Context, l idempotency.Lease, m movement, o gateway.Outcome) {
	if _, isVerdict := verdictOf(o); isVerdict {
		return
	}
	s.log.InfoContext(ctx, "settled", slog.String("resource", m.resource().Location()), slog.String("outcome", o.Label()),
		slog.Int("attempt", int(l.Attempt())), slog.Int("generation", int(l.Generation())))
}
