package payments

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
)

// overtaken is where a request ends whose step was not written: others have moved its key, or a constraint has refused the step, or the database does not
// say. Its reply is evidence all the same.
func (s *Service) overtaken(ctx context.Context, g gathered, reply Reply, cause error) (Answer, error) {
	switch {
	case errors.Is(cause, errUnsettled):
		return s.unsettled(ctx, g, reply, cause), nil
	case cause != nil && !judgeable(cause):
		s.metrics.StoreFailed("settle")
		return nil, fmt.Errorf("settle: %w", cause)
	}
	after, err := s.gatherAgain(ctx, g, cause)
	if err == nil && !after.seen.inHand(reply) {
		s.metrics.Fenced()
		s.log.WarnContext(ctx, "lease lost", slog.String("outcome", reply.Outcome.Label()), slog.Int("attempt", int(g.lease.Attempt())))
	}
	var step Step
	var applied Applied
	if err == nil {
		after, step, applied, err = s.settle(ctx, Patience{}, after, reply)
	}
	switch {
	case errors.Is(err, errUnsettled):
		return s.unsettled(ctx, g, reply, err), nil
	case err != nil:
		s.metrics.StoreFailed("settle")
		s.log.ErrorContext(ctx, "late reply not written", slog.String("resource", g.movement.resource().Location()), slog.Any("error", err))
	case step.ByOwner:
		return told(after, step, applied), nil
	}
	answer := s.standing(ctx, g, reply.Outcome, step)
	if final, ok := answer.(Final); ok && step.To == idempotency.CompletedStatus {
		final.Replayed = false // by our own evidence, whatever attempt the key had come to
		return final, nil
	}
	return answer, nil
}

// unsettled answers where the database does not say whether the step is written. The PSP was asked, the payment is durable, and its outcome is not:
// that is what unknown means, and 503 would say that nothing happened.
func (s *Service) unsettled(ctx context.Context, g gathered, reply Reply, cause error) Answer {
	s.metrics.StoreFailed("settle")
	s.log.ErrorContext(ctx, "outcome not written", slog.String("resource", g.movement.resource().Location()),
		slog.String("outcome", reply.Outcome.Label()), slog.Any("error", cause))
	return pendingFor(g.movement, g.lease.Expires())
}

// standing answers from what the key has become without us.
func (s *Service) standing(ctx context.Context, g gathered, o gateway.Outcome, step Step) Answer {
	l, m := g.lease, g.movement
	row, err := s.durably(ctx, l.Ref(), m)
	ours := err == nil && row.Generation == l.Generation() && row.Subject == l.Subject()
	_, nothing := o.(gateway.NotExecuted)
	switch {
	case ours && row.Status == idempotency.CompletedStatus:
		// Of this very attempt, a webhook was faster than we were: no replay, but the answer to this request.
		return Final{Response: *row.Response, Replayed: row.Attempt != l.Attempt(), Expires: row.Expires}
	case ours && row.Status == idempotency.FailedRetryableStatus && nothing:
		return NotExecuted{Resource: m.resource(), Expires: row.Expires}
	case err != nil && !errors.Is(err, idempotency.ErrNoKey):
		return pendingFor(m, l.Expires()) // what cannot be read is unknown
	case ours && row.Status != idempotency.ExpiredStatus:
		return pendingFor(m, row.Expires)
	}
	return s.gone(ctx, g, step)
}

// gone answers for a key that has expired, or stands for another payment by now. Its own row may have failed for good: then it is not processing. Where the late reply
// says that money has moved, there is a dead letter, and nobody is told that nothing was executed.
func (s *Service) gone(ctx context.Context, g gathered, step Step) Answer {
	l, m := g.lease, g.movement
	if err := m.load(ctx, l.Subject()); err != nil {
		s.log.WarnContext(ctx, "outcome not read", slog.String("resource", m.resource().Location()), slog.Any("error", err))
		return pendingFor(m, l.Expires())
	}
	if m.standing().status == Failed && step.Open == nil {
		return NotExecuted{Resource: m.resource(), Expires: l.Expires()}
	}
	return pendingFor(m, l.Expires())
}
