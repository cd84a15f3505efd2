package payments

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/internal/payments/internal/dbsqlc"
	"payonce/internal/postgres"
)

// Inquiry is a decision about a dead letter. If the decision needs it, it also holds what the PSP says about the key.
type Inquiry struct {
	deadLetter deadletters.DeadLetter
	decision   judge.OperatorDecision
	gathered   Gathered     // what was read before the PSP was asked
	record     *recordAgain // nil if the decision judges no record in its own transaction
}

// Inquire asks the PSP, if the decision must be compared with the PSP's answer, and may have it cancel the request. No
// transaction is open.
func (s *Service) Inquire(
	ctx context.Context, deadLetter deadletters.DeadLetter, d judge.OperatorDecision,
) (Inquiry, error) {
	g, err := s.gatherDeadLetter(ctx, deadLetter, d, s.db.Pipeline)
	if err != nil {
		return Inquiry{}, err
	}
	i := Inquiry{deadLetter: deadLetter, decision: d, gathered: g}
	if step := judge.Judge(g.Seen, d); step.Ask() {
		i.decision.Answer, i.decision.Others, i.decision.Unbooked, err = s.Ask(ctx, g, d.MayEnd(g.Seen))
	} else {
		i.record, err = s.gatherAgainFor(ctx, g.Seen, step)
	}
	return i, err
}

// Decided is what judge says of a decision, and what it was judged by. It may refuse the decision.
type Decided struct {
	Step     judge.Step
	inquiry  Inquiry
	gathered Gathered // at that moment
}

// Preview judges a decision, and writes nothing. It fails with ErrMoved as JudgeTx does.
func (s *Service) Preview(ctx context.Context, i Inquiry) (judge.Step, error) {
	d, err := s.decided(ctx, i, s.db.Pipeline)
	return d.Step, err
}

// JudgeTx judges a decision in the operator's transaction. The caller must hold the lock of the key's row, so that the
// key does not move before CarryOutTx. It fails with ErrMoved if the key has moved since the PSP was asked.
func (s *Service) JudgeTx(ctx context.Context, tx pgx.Tx, i Inquiry) (Decided, error) {
	return s.decided(ctx, i, sendIn(tx))
}

func (s *Service) decided(ctx context.Context, i Inquiry, send sender) (Decided, error) {
	g, err := s.gatherDeadLetter(ctx, i.deadLetter, i.decision, send)
	if err != nil {
		return Decided{}, err
	}
	if i.decision.Answer != nil {
		before := i.gathered
		if g.Seen.Status != before.Seen.Status || g.Seen.Key != before.Seen.Key {
			return Decided{}, ErrMoved
		}
		// The PSP's answer is judged by what was known before the PSP was asked.
		g.askedAt, g.Seen.GraceLeft, g.Seen.MemoryOver = before.askedAt, before.Seen.GraceLeft, before.Seen.MemoryOver
	}
	r := Decided{Step: judge.Judge(g.Seen, i.decision), inquiry: i, gathered: g}
	// Inquire has prepared neither: the key was not unknown then, or the retry freed no key.
	if r.Step.Ask() || g.Seen.FreedByRetry(r.Step) && i.record == nil {
		return Decided{}, ErrMoved
	}
	return r, nil
}

// CarryOutTx writes the step of a decision that is not refused, and returns the step. The caller has closed the dead
// letter in the same transaction before: the database does not release a key with an open dead letter. A constraint may
// make judge refuse the decision here. Then the caller must roll the transaction back, as for an error.
func (s *Service) CarryOutTx(ctx context.Context, tx pgx.Tx, r Decided) (judge.Step, error) {
	if r.gathered.Seen.FreedByRetry(r.Step) {
		again := r.inquiry.record
		_, err := s.judgeAndApplyTx(ctx, tx, again.gathered, again.evidence)
		return judge.Step{}, err // Nothing is left to do: the record is judged.
	}
	return s.judgeAndApplyTx(ctx, tx, r.gathered, r.inquiry.decision)
}

// gatherDeadLetter reads the key of a dead letter, the key's movement, another open dead letter of the key, and whether
// the id that the operator names is another movement's. The result has no movement if the dead letter names no key, or
// if the key is gone or stands for something else.
func (b *Books) gatherDeadLetter(
	ctx context.Context, deadLetter deadletters.DeadLetter, d judge.OperatorDecision, send sender,
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
		idTaken(ref, d.PSPID, &taken))
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

// A retry closes the dead letter, and so ends its hold. If nothing else keeps the key from being executed, the record
// must be judged in the same transaction: a job would come later, and meanwhile the client could charge again. If the
// record is still the same case, that opens it again.

// recordAgain is a dead letter's record, and what was read of the payment or refund that it is about now.
type recordAgain struct {
	gathered Gathered
	evidence judge.Record
}

// gatherAgainFor reads what the record of a step is about, or returns nil if its retry frees no key. No transaction is
// open. The key does not move before the retry, because the dead letter holds it.
func (b *Books) gatherAgainFor(ctx context.Context, seen judge.Seen, step judge.Step) (*recordAgain, error) {
	if !seen.FreedByRetry(step) {
		return nil, nil
	}
	r, err := gateway.ParseRecord(step.Again().Record)
	if err != nil {
		return nil, fmt.Errorf("read the record: %w", err)
	}
	e := judge.Record{Source: judge.SourceOperator, Record: r}
	g, err := b.gatherFor(ctx, e)
	return &recordAgain{gathered: g, evidence: e}, err
}
