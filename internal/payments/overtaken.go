package payments

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
)

// overtaken answers a request whose step was not written: somebody else has moved its key, or a constraint has refused
// the step, or the database does not say. The reply is still evidence, so it is judged and applied again from the key's
// new state.
func (s *Service) overtaken(ctx context.Context, g Gathered, reply judge.Reply, cause error) (Answer, error) {
	switch {
	case errors.Is(cause, errStepInDoubt):
		return s.answerInDoubt(ctx, g, reply, cause), nil
	case cause != nil && !judgeable(cause):
		s.metrics.StoreFailed("apply")
		return nil, fmt.Errorf("apply: %w", cause)
	}
	after, err := s.gatherAgain(ctx, g, cause)
	if err == nil && !after.Seen.InHand(reply) {
		s.metrics.Fenced()
		s.log.WarnContext(ctx, "lease lost", slog.String("outcome", reply.Outcome.Label()),
			slog.Int("attempt", int(g.lease.Attempt)))
	}
	var step judge.Step
	var applied Applied
	if err == nil {
		after, step, applied, err = s.judgeAndApply(ctx, after, reply)
	}
	switch {
	case err != nil:
		// The reply may say that money has moved, and no dead letter says so. The row must not be believed then.
		return s.answerInDoubt(ctx, g, reply, err), nil
	case step.ByOwner():
		return answerFor(after, step, applied), nil
	}
	answer := s.answerFromRow(ctx, g, reply.Outcome, step)
	if final, ok := answer.(Final); ok && step.To() == idempotency.CompletedStatus {
		final.Replayed = false // Our own evidence has completed the key, even if under a later attempt.
		return final, nil
	}
	return answer, nil
}

// answerInDoubt answers if the step is not written, or if the database does not say whether it is. The PSP was asked
// and the payment is stored, but its outcome may not be. That is what unknown means, so the answer is 202. A 503 would
// say that nothing has happened.
func (s *Service) answerInDoubt(ctx context.Context, g Gathered, reply judge.Reply, cause error) Answer {
	s.metrics.StoreFailed("apply")
	s.log.ErrorContext(ctx, "outcome not written", slog.String("resource", g.movement.resource().Location()),
		slog.String("outcome", reply.Outcome.Label()), slog.Any("error", cause))
	return pendingFor(g.movement, g.lease.KeyExpires())
}

// answerFromRow answers from the key's row, which somebody else has moved.
func (s *Service) answerFromRow(ctx context.Context, g Gathered, o gateway.Outcome, step judge.Step) Answer {
	l, m := g.lease, g.movement
	row, err := s.durably(ctx, l.Ref, m)
	ours := err == nil && row.Generation == l.Generation && row.Subject == l.Subject
	_, nothing := o.(gateway.NotExecuted)
	switch {
	case ours && row.Status == idempotency.CompletedStatus:
		// If a webhook has completed this very attempt, the response is not a replay but the answer to this request.
		return Final{Response: *row.Response, Replayed: row.Attempt != l.Attempt, Expires: row.Expires}
	case ours && row.Status == idempotency.FailedRetryableStatus && nothing:
		return NotExecuted{Resource: m.resource(), Expires: row.Expires}
	case err != nil && !errors.Is(err, idempotency.ErrNoKey):
		return pendingFor(m, l.KeyExpires()) // The row cannot be read, so the outcome is unknown.
	case ours && row.Status != idempotency.ExpiredStatus:
		return pendingFor(m, row.Expires)
	}
	return s.answerGone(ctx, g, step)
}

// answerGone answers for a key that has expired, or stands for another payment by now. If the row of this payment has
// failed, the payment is not processing any more. But if the late reply says that money has moved, a dead letter is
// open, and the client is not told that nothing was executed.
func (s *Service) answerGone(ctx context.Context, g Gathered, step judge.Step) Answer {
	l := g.lease
	m, err := s.load(ctx, g.movement, l.Subject)
	if err != nil {
		s.log.WarnContext(ctx, "outcome not read", slog.String("resource", g.movement.resource().Location()),
			slog.Any("error", err))
		return pendingFor(g.movement, l.KeyExpires())
	}
	if m.rowVerdict().Status == payment.Failed && step.Open() == nil {
		return NotExecuted{Resource: m.resource(), Expires: l.KeyExpires()}
	}
	return pendingFor(m, l.KeyExpires())
}
