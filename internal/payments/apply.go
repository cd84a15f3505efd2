package payments

import (
	"context"
	"fmt"

	"payonce/internal/deadletters"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/postgres"
	"payonce/internal/tracing"
)

// JudgeAndApply judges a record and applies the step. If the key has moved in between, or a constraint has refused the
// step, it gathers and judges again. It returns the Gathered from which the last step was judged.
func (s *Service) JudgeAndApply(
	ctx context.Context, g Gathered, e judge.Record,
) (Gathered, judge.Step, Applied, error) {
	return s.judgeAndApply(ctx, g, e)
}

// judgeAndApply is for a Reply, too, and for no other evidence: that the PSP has found nothing is judged by what was
// read before the PSP was asked.
func (s *Service) judgeAndApply(
	ctx context.Context, g Gathered, e judge.Evidence,
) (Gathered, judge.Step, Applied, error) {
	for range maxReads {
		step := judge.Judge(g.Seen, e)
		applied, err := s.Apply(ctx, g, step)
		if applied.Passed {
			return g, step, applied, nil
		}
		if err != nil && !judgeable(err) {
			return g, step, applied, fmt.Errorf("apply: %w", err)
		}
		if g, err = s.gatherAgain(ctx, g, err); err != nil {
			return g, step, applied, err
		}
	}
	return g, judge.Step{}, Applied{}, &postgres.UnavailableError{Op: "apply",
		Err: fmt.Errorf("the key has moved %d times under our eyes", maxReads)}
}

// apply writes a step in one transaction. A step that moves the key is written only if the key is still as it was read.
// Only apply, and applyTx in somebody else's transaction, write outcomes; only apply handles the lost acknowledgement
// of a step.
//
// The first try may share its transaction with other payments (group commit). A retry runs alone, so that nothing of
// another payment can make it fail. An owner also retries when the database was not available: it has an outcome.
//
// If an acknowledgement is lost, the owner of the lease reads what has become of its lease. If nothing is written, it
// sends the step again. Any other caller gets Doubt. JudgeAndApply reads the key again then; a lookup that has found
// nothing does so in its next run. A step that was written after all is then confirmed.
func (s *Service) apply(ctx context.Context, g Gathered, step judge.Step) (applied Applied, err error) {
	p, err := s.payloadOf(g, step)
	if err != nil {
		return Applied{}, err
	}
	certain := postgres.Recall(ctx, func(try int) (done bool) {
		g.alone = g.alone || try > 1
		applied, err = s.commitStep(ctx, g, step, p)
		if err == nil {
			return true
		}
		if postgres.RolledBack(err) {
			return !step.ByOwner() || !postgres.Unavailable(err)
		}
		if !step.ByOwner() {
			applied, err = Applied{Doubt: true}, nil
			return true
		}
		done, applied = s.readBackStep(ctx, g, step, p)
		if applied.Passed {
			err = nil
		}
		return done
	})
	if err != nil && (!certain || !postgres.RolledBack(err)) {
		err = fmt.Errorf("%w: %w", errStepInDoubt, err)
	}
	return applied, err
}

// readBackStep reads, after a lost acknowledgement, whether an owner's step is written. If it is not, or not yet, done
// is false and the step is sent again. If the answer would be final and the database does not answer in time, nothing
// is sent any more.
func (s *Service) readBackStep(
	ctx context.Context, g Gathered, step judge.Step, p payload,
) (done bool, applied Applied) {
	l, applied := g.lease, p.applied
	applied.GuardResult = idempotency.GuardResult{Passed: true, Expires: l.KeyExpires()}
	switch {
	case step.Open() != nil:
		return false, Applied{} // Somebody else may have made the key unknown, without our dead letter.
	case step.To() != idempotency.CompletedStatus:
		// The answer is not final, so this read need not be durable. If a failover undoes the write, the lease ends.
		row, err := s.keys.Find(ctx, l.Ref)
		if err != nil || row.LeaseID != l.LeaseID || row.Status != step.To() {
			return false, Applied{}
		}
		return true, applied
	}
	row, err := s.durably(ctx, l.Ref, g.movement)
	switch {
	case postgres.GaveUp(err):
		return true, Applied{} // Written or not: nothing can be acknowledged now.
	case err != nil || row.LeaseID != l.LeaseID || row.Status != step.To():
		return false, Applied{}
	}
	// The stored bytes count, not ours: another version of this program may have written the same verdict in other
	// bytes.
	applied.Response, applied.Expires = *row.Response, row.Expires
	return true, applied
}

// payload is what a step stores besides what judge has decided.
type payload struct {
	applied    Applied // the result of the step, if it passes
	deadLetter *deadletters.DeadLetter
}

func (s *Service) payloadOf(g Gathered, step judge.Step) (p payload, err error) {
	if step.To() == idempotency.CompletedStatus {
		if p.applied.Response, err = g.movement.resource().Response(step.Verdict(), s.publicURL); err != nil {
			return payload{}, fmt.Errorf("build response: %w", err)
		}
	}
	if step.Open() != nil {
		p.deadLetter, err = s.deadLetter(g, step)
	}
	return p, err
}

// commitStep sends a step as one transaction.
func (s *Service) commitStep(
	ctx context.Context, g Gathered, step judge.Step, p payload,
) (applied Applied, err error) {
	applied = p.applied
	if step.WritesNothing() {
		applied.Passed = true
		return applied, nil
	}
	group := s.groups.resolutions
	if step.ByOwner() {
		group = s.groups.completions
	}
	// Crash window 16: judged. If the step has a dead letter, neither of the two is written.
	came, err := group.Do(ctx, sentStep{g, step, p, tracing.Current(ctx)})
	s.countLost(err)
	if err != nil || !came.Passed {
		return Applied{}, err
	}
	applied.GuardResult, applied.Opened = came.GuardResult, came.opened
	s.committed(ctx, g, step, came.row)
	return applied, nil
}

// writeSteps sends the statements of steps, in their order: the key, the row of the payment or refund, the dead letter.
// Only steps that complete a charge come together. If the key's statement did not pass its guard, the others write
// nothing: the row's asks, with EXISTS, for the key in its new status, generation and attempt; the dead letter's, for a
// key that this transaction has written (BehindStep).
func (s *Service) writeSteps(ctx context.Context, members []sentStep, send postgres.Sender) ([]written, error) {
	out := make([]written, len(members))
	var guards []idempotency.GuardResult
	g, step, first := members[0].gathered, members[0].step, &out[0]
	key, note := g.Seen.Key, step.Note()
	completed, released := step.To() == idempotency.CompletedStatus, step.To() == idempotency.FailedRetryableStatus
	var calls []postgres.Call
	switch {
	case completed && step.ByOwner():
		calls = append(calls, s.keys.Complete(each(members, sentStep.completion), &guards))
	case completed:
		calls = append(calls, s.keys.Resolve(each(members, sentStep.resolution), &guards))
	case released && step.ByOwner():
		calls = append(calls, s.keys.Release(g.lease, note.Reason, members[0].tells(), &first.GuardResult))
	case released:
		calls = append(calls, s.keys.ReleaseUnknown(key, g.askedAt, step.Proof(), note, &first.GuardResult))
	case step.To() == idempotency.UnknownStatus:
		calls = append(calls, s.keys.Lose(g.lease, note.Reason, note.Evidence, members[0].tells(),
			&first.GuardResult))
	case step.AskAgain() != nil:
		calls = append(calls, s.keys.Postpone(key, g.due, step.AskAgain().After, step.AskAgain().Failures, note,
			&first.GuardResult))
	default:
		first.Passed = true
		calls = s.unguardedCalls(g, step)
	}
	switch {
	case !completed && !released:
		first.row = true
	case g.movement.isRefund():
		calls = append(calls, g.movement.recordRefund(members[0].rowUpdate(), first)...)
	default:
		calls = append(calls, s.recordPayments(each(members, sentStep.rowUpdate), out))
	}
	calls = append(calls, eventsOf(members)...)
	if l := members[0].payload.deadLetter; l != nil {
		calls = append(calls, deadletters.OpenNew(*l, &first.opened))
	}
	if err := send(ctx, calls...); err != nil {
		return nil, err
	}
	for i := range guards {
		out[i].GuardResult = guards[i]
	}
	return out, nil
}

// each converts all members.
func each[In, Out any](members []In, convert func(In) Out) []Out {
	out := make([]Out, len(members))
	for i, m := range members {
		out[i] = convert(m)
	}
	return out
}
