package payments

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/internal/payments/internal/dbsqlc"
	"payonce/internal/postgres"
)

// GatherDeadLetter reads the key of a dead letter, the key's movement, another open dead letter of the key, and whether
// the id that the operator names is another movement's. The result has no movement if the dead letter names no key, or
// if the key is gone or stands for something else.
func (b *Books) GatherDeadLetter(
	ctx context.Context, deadLetter deadletters.DeadLetter, pspID string, send postgres.Sender,
) (Gathered, error) {
	if deadLetter.About == nil {
		return Gathered{Seen: judge.Seen{DeadLetter: judge.DeadLetterOf(deadLetter)}}, nil
	}
	var view idempotency.KeyView
	var m *movement
	var open deadletters.OnKey
	var taken bool
	ref := idempotency.StoredRef(deadLetter.About.Tenant, deadLetter.About.Operation, deadLetter.About.Key)
	err := send(ctx, b.keys.LookIn(ref, &view), b.findMovement(ref, nil, &m), deadletters.OpenOnKey(deadLetter, &open),
		idTaken(ref, pspID, &taken))
	if err != nil {
		return Gathered{}, fmt.Errorf("look at key: %w", err)
	}
	g := gatheredAbout(deadLetter, view, m)
	g.Seen.DeadLetter, g.Seen.Charged, g.Seen.IDTaken = judge.DeadLetterOf(deadLetter), open.Charged, taken
	if open.Other != nil {
		g.Seen.OtherHeld = open.Other.String()
	}
	return g, nil
}

// AskedAs is g, gathered again after the PSP was asked, for its answer to be judged by what was known before it was
// asked. It fails with ErrMoved if the key has moved since.
func (g Gathered) AskedAs(before Gathered) (Gathered, error) {
	if g.Seen.Status != before.Seen.Status || g.Seen.Key != before.Seen.Key {
		return Gathered{}, ErrMoved
	}
	g.askedAt, g.Seen.GraceLeft, g.Seen.MemoryOver = before.askedAt, before.Seen.GraceLeft, before.Seen.MemoryOver
	return g, nil
}

// idTaken is the call that reads whether a payment or refund of the tenant has the id that an operator names. The
// constraint does not tell: the id is written as one of our own until the PSP shows it.
func idTaken(ref idempotency.Ref, id string, out *bool) postgres.Call {
	return func(ctx context.Context, q postgres.Statement) (err error) {
		*out, err = dbsqlc.New(q).PSPIDTaken(ctx, dbsqlc.PSPIDTakenParams{TenantID: ref.Tenant, PspID: id,
			Object: string(payment.ObjectOf(ref.Operation))})
		return err
	}
}

// gatheredAbout is what was read for a dead letter. A dead letter that names no payment is about none of ours, also if
// a payment has its generation of the key.
func gatheredAbout(deadLetter deadletters.DeadLetter, view idempotency.KeyView, m *movement) Gathered {
	if !deadLetter.Concerns(view.Execution.Generation, view.Execution.Subject) || m == nil ||
		m.subject() != view.Execution.Subject {
		own := idempotency.Execution{Ref: idempotency.StoredRef(deadLetter.About.Tenant, deadLetter.About.Operation,
			deadLetter.About.Key), Generation: deadLetter.About.Generation}
		if deadLetter.Subject != nil {
			own.Subject = *deadLetter.Subject
		}
		return Gathered{Seen: judge.Seen{Own: own}}
	}
	return gatheredOf(m, view.Execution, view)
}

// ErrMoved says that a key has moved since it was read. Read it again.
var ErrMoved = errors.New("the key has moved since")

// JudgeAndApplyTx judges evidence and applies the step in the caller's transaction. If a constraint refuses the step,
// it judges once more, with the refusal. It fails with ErrMoved if the key has moved.
func (s *Service) JudgeAndApplyTx(ctx context.Context, tx pgx.Tx, g Gathered, e judge.Evidence) (judge.Step, error) {
	step := judge.Judge(g.Seen, e)
	err := s.applyTx(ctx, tx, g, step)
	if !judgeable(err) {
		return step, err
	}
	g.Seen.IDTaken, g.Seen.ShareGone = BelongsToAnother(err), shareGone(err)
	step = judge.Judge(g.Seen, e) // If it refuses an operator's decision, it writes nothing.
	return step, s.applyTx(ctx, tx, g, step)
}

// applyTx writes a step in the caller's transaction, or fails with ErrMoved. A constraint that refuses the step leaves
// the transaction as it was.
func (s *Service) applyTx(ctx context.Context, tx pgx.Tx, g Gathered, step judge.Step) error {
	p, err := s.payloadOf(g, step)
	if err != nil {
		return err
	}
	var came []written
	err = pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) (err error) {
		came, err = s.writeSteps(ctx, []sentStep{{gathered: g, step: step, payload: p}}, postgres.In(savepoint))
		if err == nil && came[0].Passed && !came[0].row {
			return fmt.Errorf("apply %s: its row did not follow its key", g.movement.resource().Location())
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case !came[0].Passed:
		return ErrMoved
	}
	s.logStep(ctx, g, step, slog.Bool("committed", false)) // that is up to the caller
	return nil
}
