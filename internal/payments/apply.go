package payments

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"

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

// JudgeAndApplyTx judges evidence and applies the step in the caller's transaction. If a constraint refuses the step,
// it judges once more, with the refusal. It fails with ErrMoved if the key has moved.
func (s *Service) JudgeAndApplyTx(ctx context.Context, tx pgx.Tx, g Gathered, e judge.Evidence) (judge.Step, error) {
	step := judge.Judge(g.Seen, e)
	err := s.applyTx(ctx, tx, g, step)
	if !judgeable(err) {
		return step, err
	}
	g.Seen.IDTaken, g.Seen.ShareGone = g.Seen.IDTaken || BelongsToAnother(err), shareGone(err)
	step = judge.Judge(g.Seen, e) // If it refuses an operator's decision, it writes nothing.
	return step, s.applyTx(ctx, tx, g, step)
}

// Apply writes a step in one transaction. A step that moves the key is written only if the key is still as it was read.
// Only Apply, and applyTx in somebody else's transaction, write outcomes; only Apply handles the lost acknowledgement
// of a step.
//
// The first try may share its transaction with other payments (group commit). A retry runs alone, so that nothing of
// another payment can make it fail. An owner also retries when the database was not available: it has an outcome.
//
// If an acknowledgement is lost, the owner of the lease reads what has become of its lease. If nothing is written, it
// sends the step again. Any other caller gets Doubt. JudgeAndApply reads the key again then; a lookup that has found
// nothing does so in its next run. A step that was written after all is then confirmed.
func (s *Service) Apply(ctx context.Context, g Gathered, step judge.Step) (applied Applied, err error) {
	p, err := s.payloadOf(g, step)
	if err != nil {
		return Applied{}, err
	}
	ctx, span := tracing.Start(ctx, "outcome")
	defer span.End()
	certain := postgres.Recall(ctx, func(try int) (done bool) {
		g.alone = g.alone || try > 1
		applied, err = s.commitStep(ctx, g, step, p)
		if err == nil {
			return true
		}
		if postgres.RolledBack(err) {
			return !step.ByOwner() || !postgres.Unavailable(err)
		}
		s.metrics.CommitAmbiguous()
		if !step.ByOwner() {
			applied, err = Applied{Doubt: true}, nil
			return true
		}
		done, applied = s.readBackStep(ctx, g, step, p)
		if done && applied.Passed {
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

// applyTx writes a step in the caller's transaction, or fails with ErrMoved. A constraint that refuses the step leaves
// the transaction as it was.
func (s *Service) applyTx(ctx context.Context, tx pgx.Tx, g Gathered, step judge.Step) error {
	p, err := s.payloadOf(g, step)
	if err != nil {
		return err
	}
	var applied Applied
	err = pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) error {
		var written bool
		if err := postgres.PipelineTx(ctx, savepoint, s.stepCalls(g, step, p, &applied, &written)...); err != nil {
			return err
		}
		if applied.Passed && !written {
			return fmt.Errorf("apply %s: its row did not follow its key", g.movement.resource().Location())
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case !applied.Passed:
		return ErrMoved
	}
	s.logStep(ctx, g, step, slog.Bool("committed", false)) // that is up to the caller
	return nil
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

// commitStep sends a step as one transaction. The completion of a charge may share it with other charges. A step with a
// dead letter may not: two keys may have the same finding, and then both would lock the same row.
func (s *Service) commitStep(
	ctx context.Context, g Gathered, step judge.Step, p payload,
) (applied Applied, err error) {
	if step.WritesNothing() {
		applied = p.applied
		applied.Passed = true
		return applied, nil
	}
	shared := step.To() == idempotency.CompletedStatus && !g.movement.isRefund() && step.Open() == nil && !g.alone
	// Crash window 16: judged. If the step has a dead letter, neither of the two is written.
	var written bool
	if shared {
		applied, written, err = s.commitTogether(ctx, g, step, p)
	} else {
		err = s.db.Pipeline(ctx, s.stepCalls(g, step, p, &applied, &written)...)
	}
	if err != nil || !applied.Passed {
		return Applied{}, err
	}
	s.checkRow(ctx, g.movement, written)
	s.committed(ctx, g, step)
	return applied, nil
}

// stepCalls are the statements of a step, in their order: the key, the row of the payment or refund, the dead letter.
// All are sent together, in one transaction. If the key's statement did not pass its guard, the others write nothing:
// the row's asks, with EXISTS, for the key in its new status, generation and attempt; the dead letter's, for a key that
// this transaction has written (BehindStep). written is true if there is no row to write.
func (s *Service) stepCalls(g Gathered, step judge.Step, p payload, applied *Applied, written *bool) []postgres.Call {
	*applied, *written = p.applied, true
	key, note, out := g.Seen.Key, step.Note(), &applied.GuardResult
	var calls []postgres.Call
	switch {
	case step.To() == idempotency.CompletedStatus && step.ByOwner():
		calls = append(calls, oneOf(s.keys.Complete, completionOf(g, step, p), out))
	case step.To() == idempotency.CompletedStatus:
		calls = append(calls, oneOf(s.keys.Resolve, resolutionOf(g, step, p), out))
	case step.To() == idempotency.FailedRetryableStatus && step.ByOwner():
		calls = append(calls, s.keys.Release(g.lease, note.Reason, out))
	case step.To() == idempotency.FailedRetryableStatus:
		calls = append(calls, s.keys.ReleaseUnknown(key, g.askedAt, step.Proof(), note, out))
	case step.To() == idempotency.UnknownStatus:
		calls = append(calls, s.keys.Lose(g.lease, note.Reason, note.Evidence, out))
	case step.AskAgain() != nil:
		calls = append(calls, s.keys.Postpone(key, g.due, step.AskAgain().After, step.AskAgain().Failures, note, out))
	default:
		out.Passed = true
		calls = s.unguardedCalls(g, step)
	}
	if step.To() == idempotency.CompletedStatus || step.To() == idempotency.FailedRetryableStatus {
		calls = append(calls, g.movement.updateRow(rowUpdate{key, step.Verdict(), step.To()}, written)...)
	}
	if p.deadLetter != nil {
		calls = append(calls, deadletters.OpenNew(*p.deadLetter, &applied.Opened))
	}
	return calls
}
