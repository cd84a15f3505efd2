package payments

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters"
	"payonce/internal/idempotency"
	"payonce/internal/postgres"
)

// Applied is what came of a step.
type Applied struct {
	// Passage tells whether the step is written. It is not when the key has moved since it was seen, nor when a dead letter has been opened that forbids the step.
	idempotency.Passage

	// Resource and Response are those of a key that the step has completed.
	Resource Resource
	Response idempotency.Response
	// Opened: the step's dead letter is new.
	Opened bool
	// Doubt: the acknowledgement was lost. The step may be written, and a look will tell.
	Doubt bool
}

// ErrMoved says that a key has moved since somebody looked at it: look again.
var ErrMoved = errors.New("the key has moved since")

// errUnsettled says that the database does not tell whether an owner's step is written.
var errUnsettled = errors.New("step not known to be written")

// apply commits a step, and only to the key as it was seen. Nothing else commits an outcome, opens a dead letter about a key, or handles the lost
// acknowledgement of one. The first try may share a transaction with other keys (group commit). A later try is alone: another key's statement may have
// caused the failure.
//
// After a lost acknowledgement an owner asks what has become of its own lease, and sends the step again where nothing has. Everybody else is told that the
// step has not passed, and looks again: a step that was written is then confirmed.
func (s *Service) apply(ctx context.Context, g gathered, step Step, alone bool) (applied Applied, err error) {
	r, err := s.ready(g, step)
	if err != nil {
		return Applied{}, err
	}
	settled := postgres.Recall(ctx, func(try int) (done bool) {
		applied, err = s.commitStep(ctx, g, step, r, alone || try > 1)
		if err == nil {
			return true
		}
		if postgres.RolledBack(err) {
			return !step.ByOwner || !postgres.Unavailable(err)
		}
		s.metrics.CommitAmbiguous()
		if !step.ByOwner {
			applied, err = Applied{Doubt: true}, nil
			return true
		}
		done, applied = s.recall(ctx, g, step, r)
		if done && applied.Through {
			err = nil
		}
		return done
	})
	if err != nil && (!settled || !postgres.RolledBack(err)) {
		err = fmt.Errorf("%w: %w", errUnsettled, err)
	}
	return applied, err
}

// recall asks, after a lost acknowledgement, whether an owner's step is written. done is false where it is not, or not yet: then it is sent again. A
// database that does not answer in time is not asked again.
func (s *Service) recall(ctx context.Context, g gathered, step Step, r ready) (done bool, applied Applied) {
	l, applied := g.lease, r.applied
	applied.Passage = idempotency.Passage{Through: true, Expires: l.Expires()}
	switch {
	case step.Open != nil:
		return false, Applied{} // others may have brought the key there, without the dead letter
	case step.To != idempotency.CompletedStatus:
		row, err := s.keys.Find(ctx, l.Ref()) // nothing final is said: what a failover undoes is resolved
		return err == nil && row.LeaseID == l.ID() && row.Status == step.To, applied
	}
	row, err := s.durably(ctx, l.Ref(), g.movement)
	switch {
	case postgres.GaveUp(err):
		return true, Applied{} // written or not, nothing is acknowledged for now
	case err != nil || row.LeaseID != l.ID() || row.Status != step.To:
		return false, Applied{}
	}
	// Not ours: with the same verdict, another version of this program may have written other bytes.
	applied.Response, applied.Expires = *row.Response, row.Expires
	return true, applied
}

// durably reads what a key has become, for an answer that is final: a client that was told it must never hear another, so what is read must be such that a
// failover cannot undo it.
func (s *Service) durably(ctx context.Context, ref idempotency.Ref, m movement) (idempotency.Record, error) {
	row, err := s.keys.FindDurably(ctx, ref)
	if err != nil {
		s.metrics.StoreFailed("find")
		s.log.WarnContext(ctx, "outcome not read durably", slog.String("resource", m.resource().Location()), slog.Any("error", err))
	}
	return row, err
}

// applyTx writes a step in the caller's transaction, or fails with ErrMoved. A constraint that refuses the step leaves the transaction as it was.
func (s *Service) applyTx(ctx context.Context, tx pgx.Tx, g gathered, step Step) error {
	r, err := s.ready(g, step)
	if err != nil {
		return err
	}
	applied := r.applied
	err = pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) error { return s.writeTx(ctx, savepoint, g, step, r, &applied) })
	switch {
	case err != nil:
		return err
	case !applied.Through:
		return ErrMoved
	}
	s.logStep(ctx, g, step)
	return nil
}

// ready is what a step needs that is made before it is sent.
type ready struct {
	applied Applied // what came of the step, if it passes
	letter  *deadletters.Letter
}

func (s *Service) ready(g gathered, step Step) (r ready, err error) {
	if step.To == idempotency.CompletedStatus {
		if r.applied.Resource, r.applied.Response, err = g.movement.conclude(step.Verdict); err != nil {
			return ready{}, fmt.Errorf("build response: %w", err)
		}
	}
	if step.Open != nil {
		letter, err := s.letter(g, *step.Open)
		if err != nil {
			return ready{}, err
		}
		letter.BehindStep = step.guarded()
		r.letter = &letter
	}
	return r, nil
}

// commitStep sends a step as one transaction. The completion of a charge may share it with other payments.
func (s *Service) commitStep(ctx context.Context, g gathered, step Step, r ready, alone bool) (applied Applied, err error) {
	if step.writesNothing() {
		applied = r.applied
		applied.Through = true
		return applied, nil
	}
	_, charged := g.movement.(*charge)
	shared := charged && step.To == idempotency.CompletedStatus && step.Open == nil && !alone // two keys may have the same finding
	// Crash window 16: judged, neither the step nor its dead letter is written.
	var written bool
	if shared {
		applied, written, err = s.commitTogether(ctx, g, step, r)
	} else {
		err = s.db.Pipeline(ctx, s.stepCalls(g, step, r, &applied, &written)...)
	}
	if err != nil || !applied.Through {
		return Applied{}, err
	}
	s.checkRow(ctx, g.movement, written)
	s.logStep(ctx, g, step)
	return applied, nil
}

// writeTx writes a step in the caller's transaction.
func (s *Service) writeTx(ctx context.Context, tx pgx.Tx, g gathered, step Step, r ready, applied *Applied) error {
	var written bool
	if err := postgres.PipelineTx(ctx, tx, s.stepCalls(g, step, r, applied, &written)...); err != nil {
		return err
	}
	if applied.Through && !written {
		return fmt.Errorf("settle %s: its row did not follow its key", g.movement.resource().Location())
	}
	return nil
}

// stepCalls are the calls of a step. The row of the movement is written behind the key's own statement, and only where that has passed; written is true
// where there is nothing to write.
func (s *Service) stepCalls(g gathered, step Step, r ready, applied *Applied, written *bool) []postgres.Call {
	*applied, *written = r.applied, true
	key, note, out := g.seen.Key, step.note(), &applied.Passage
	var calls []postgres.Call
	switch {
	case step.To == idempotency.CompletedStatus && step.ByOwner:
		calls = append(calls, onePassage(s.keys.Complete, s.completionOf(g, step, r), out))
	case step.To == idempotency.CompletedStatus:
		calls = append(calls, onePassage(s.keys.Resolve, s.resolutionOf(g, step, r), out))
	case step.To == idempotency.FailedRetryableStatus && step.ByOwner:
		calls = append(calls, s.keys.Release(g.lease, note.Reason, out))
	case step.To == idempotency.FailedRetryableStatus:
		calls = append(calls, s.keys.ReleaseUnknown(key, g.asked, step.ByOperator, note, out))
	case step.To == idempotency.UnknownStatus:
		calls = append(calls, s.keys.Lose(g.lease, note.Reason, note.Evidence, out))
	case step.AskAgain != nil:
		calls = append(calls, s.keys.Postpone(key, g.due, step.AskAgain.After, step.AskAgain.Failures, note, out))
	default:
		out.Through = true
		calls = s.remarks(g, step)
	}
	if step.To == idempotency.CompletedStatus || step.To == idempotency.FailedRetryableStatus {
		calls = append(calls, g.movement.record(outcome{key, step.Verdict, step.To}, written)...)
	}
	if r.letter != nil {
		calls = append(calls, deadletters.OpenNew(*r.letter, &applied.Opened))
	}
	return calls
}

// onePassage is the call of a step over many keys, for one.
func onePassage[Key any](step func([]Key, *[]idempotency.Passage) postgres.Call, key Key, out *idempotency.Passage) postgres.Call {
	var all []idempotency.Passage
	call := step([]Key{key}, &all)
	return func(ctx context.Context, q postgres.Statement) error {
		err := call(ctx, q)
		if err == nil {
			*out = all[0]
		}
		return err
	}
}

// remarks are the calls of what leaves the key where it is, and needs no guard.
func (s *Service) remarks(g gathered, step Step) (calls []postgres.Call) {
	if step.Note != nil {
		calls = append(calls, s.keys.Note(g.seen.Own, *step.Note))
	}
	if step.Named != "" {
		calls = append(calls, g.movement.name(step.Named))
	}
	if step.Open != nil && step.Open.AboutKey {
		calls = append(calls, s.keys.Hold(g.seen.Own.Ref))
	}
	return calls
}

// judgeable reports whether err is the refusal of a step by a constraint that judge can take into account.
func judgeable(err error) bool {
	return BelongsToAnother(err) || shareGone(err)
}

// BelongsToAnother reports whether a verdict was refused for its id, which another payment or refund of ours has.
func BelongsToAnother(err error) bool {
	return postgres.Violates(err, "payments_psp_charge_unique") || postgres.Violates(err, "refunds_psp_refund_unique")
}

func shareGone(err error) bool { return postgres.Violates(err, "payments_refunds_within_amount") }

// guarded reports whether the step passes only where the key is as it was seen.
func (s Step) guarded() bool { return s.To != "" || s.AskAgain != nil }

func (s Step) writesNothing() bool {
	return !s.guarded() && s.Note == nil && s.Named == "" && s.Open == nil
}

// note is what the timeline says of the step.
func (s Step) note() idempotency.Note {
	if s.Note == nil {
		return idempotency.Note{}
	}
	return *s.Note
}

// checkRow reports a key that has gone on without its payment. It should never be seen; a ledger scan would find it.
func (s *Service) checkRow(ctx context.Context, m movement, written bool) {
	if !written {
		s.metrics.StoreFailed("settle_row")
		s.log.ErrorContext(ctx, "key settled, its row was not", slog.String("resource", m.resource().Location()))
	}
}

// logStep tells of every step but an owner's verdict: that is in the line of the request, by its status.
func (s *Service) logStep(ctx context.Context, g gathered, step Step) {
	if step.writesNothing() || step.ByOwner && step.To == idempotency.CompletedStatus {
		return
	}
	attributes := []any{slog.String("to", string(step.To)), slog.Int("attempt", int(g.seen.Key.Attempt)), slog.Int("generation", int(g.seen.Key.Generation))}
	if g.movement != nil {
		attributes = append(attributes, slog.String("resource", g.movement.resource().Location()))
	}
	if step.Note != nil {
		attributes = append(attributes, slog.String("actor", step.Note.Actor))
	}
	if step.Open != nil {
		attributes = append(attributes, slog.String("dead_letter", string(step.Open.Kind)))
	}
	s.log.InfoContext(ctx, "step", attributes...)
}
