package payments

import (
	"context"
	"errors"
	"log/slog"

	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/postgres"
	"payonce/internal/tracing"
)

// Here is what the path of a payment tells in figures, traces and log lines. Nothing here decides anything.

// countLost counts an acknowledgement that was lost, if err says so.
func (s *Service) countLost(err error) {
	if err != nil && !postgres.RolledBack(err) {
		s.metrics.CommitAmbiguous()
	}
}

// committed logs a step whose transaction has committed, and wakes the requests of this process that wait for its key.
// It reports a key that has moved without its payment's row. This must never happen. The ledger scan would find it.
func (s *Service) committed(ctx context.Context, g Gathered, step judge.Step, row bool) {
	if !row {
		s.metrics.StoreFailed("apply_row")
		s.log.ErrorContext(ctx, "key moved, its row did not", slog.String("resource", g.movement.resource().Location()))
	}
	s.logStep(ctx, g, step)
	if step.To() != "" {
		s.waits.keys.Wake(g.Seen.Own.Ref)
	}
}

// reserve is take. It counts a reservation, and says in its trace what it has taken.
func (s *Service) reserve(
	ctx context.Context, r idempotency.Reservation, m *movement,
) (idempotency.Decision, *movement, error) {
	ctx, span := tracing.Start(ctx, "reserve")
	defer span.End()
	decision, begun, err := s.take(ctx, r, m)
	won, ours := decision.(idempotency.Execute)
	switch {
	case ours:
		outcome := "created"
		if won.Lease.Attempt > 1 {
			outcome = "failed_retry"
		}
		s.metrics.Reserved(outcome)
		span.Outcome(outcome)
		span.Executes(won.Lease.Subject, won.Lease.Attempt)
	case err != nil && !errors.Is(err, ErrRefundExceedsPayment):
		s.metrics.StoreFailed("reserve")
	}
	return decision, begun, err
}

// remember is store. It reports an object that was not stored, because the database does not answer.
func (s *Service) remember(ctx context.Context, l idempotency.Lease, m *movement, objectID string) (stored bool) {
	ctx, span := tracing.Start(ctx, "remember")
	defer span.End()
	stored, err := s.store(ctx, l, m, objectID)
	if err != nil {
		s.metrics.StoreFailed("remember")
		s.log.ErrorContext(ctx, "the PSP's object was not stored", slog.String("resource", m.resource().Location()),
			slog.Any("error", err))
	}
	return stored
}

// Apply is apply, with a span in its trace.
func (s *Service) Apply(ctx context.Context, g Gathered, step judge.Step) (Applied, error) {
	ctx, span := tracing.Start(ctx, "outcome")
	defer span.End()
	return s.apply(ctx, g, step)
}

// logStep says in the trace what a step came to, and logs the step. It does not log an owner's completion, because the
// log line of the request has its status.
func (s *Service) logStep(ctx context.Context, g Gathered, step judge.Step, more ...any) {
	tracing.Current(ctx).Outcome(step.Label())
	if step.WritesNothing() || step.ByOwner() && step.To() == idempotency.CompletedStatus {
		return
	}
	attributes := []any{
		slog.String("to", string(step.To())),
		slog.Int("attempt", int(g.Seen.Key.Attempt)),
		slog.Int("generation", int(g.Seen.Key.Generation)),
	}
	if g.movement != nil {
		attributes = append(attributes, slog.String("resource", g.movement.resource().Location()))
	}
	if step.Note().Actor != "" {
		attributes = append(attributes, slog.String("actor", step.Note().Actor))
	}
	if step.Open() != nil {
		attributes = append(attributes, slog.String("dead_letter_kind", string(step.Open().Kind)))
	}
	if step.Answer() != nil {
		attributes = append(attributes, slog.String("answered_kind", string(step.Answer().Kind)))
	}
	s.log.InfoContext(ctx, "step", append(attributes, more...)...)
}
