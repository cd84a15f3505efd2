package payments

import (
	"context"

	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/postgres"
)

// OperatorPSPID begins the id of a movement for which an operator vouches and the PSP gives no name.
const OperatorPSPID = "operator:"

// Inquiry is what is known of a key that lies on an operator's desk, with the PSP's word of just now.
type Inquiry struct {
	file   *caseFile
	sight  idempotency.Sight
	answer gateway.Lookup
}

// Status is where the key stands.
func (i Inquiry) Status() idempotency.Status { return i.sight.Status }

// Answer is what the PSP says of it.
func (i Inquiry) Answer() gateway.Lookup { return i.answer }

// WindowOver reports whether the settle window was over when the PSP was asked.
func (i Inquiry) WindowOver() bool { return i.sight.WindowLeft <= 0 }

// Verdict reads the PSP's record as a verdict: Succeeded, Declined, or Indeterminate for one that contradicts the request. It is nil
// when there is no record.
func (i Inquiry) Verdict() gateway.Outcome {
	found, ok := i.answer.(gateway.Found)
	if !ok {
		return nil
	}
	return i.file.movement.judge(i.file.execution.PassThroughKey(), found.Records[0])
}

// Inquire looks at a key and asks the PSP for it. It fails with idempotency.ErrNoKey when the key is gone, or stands for something else
// by now.
func (s *Service) Inquire(ctx context.Context, about deadletters.About) (Inquiry, error) {
	sight, c, err := s.look(ctx, idempotency.StoredRef(about.Scope, about.Key), about.Generation)
	if err != nil {
		return Inquiry{}, err
	}
	return Inquiry{file: c, sight: sight, answer: s.ask(ctx, c)}, nil
}

// RuleExecutedTx completes an unknown key as executed, in the operator's transaction. pspID is the PSP's id of the movement. It fails
// with ErrMoved when the key is not unknown any more.
func (s *Service) RuleExecutedTx(ctx context.Context, tx pgx.Tx, i Inquiry, pspID string) error {
	if i.sight.Status != idempotency.UnknownStatus {
		return ErrMoved
	}
	outcome := gateway.Succeeded{ID: pspID}
	v, _ := verdictOf(outcome)
	w, err := s.settlement(i.file, i.sight.Status, v, testimony{source: SourceOperator, outcome: outcome})
	if err != nil {
		return err
	}
	return writeTx(ctx, tx, i.file, w)
}

// RuleNotExecutedTx releases an unknown key as not executed, in the operator's transaction. The inquiry must have found nothing, after
// the settle window. It fails with ErrMoved when the key is not unknown any more, or has another open dead letter.
func (s *Service) RuleNotExecutedTx(ctx context.Context, tx pgx.Tx, i Inquiry) error {
	if _, nothingThere := i.answer.(gateway.NotFound); !nothingThere {
		return ErrMoved
	}
	note := idempotency.Note{Actor: string(SourceOperator), Reason: "an operator says, and the PSP with him: not executed"}
	return writeTx(ctx, tx, i.file, s.release(i.file, i.sight, note, s.keys.QueueReleaseByOperator))
}

// WakeTx has an unknown key looked up at once, with a fresh budget. A key that is not unknown needs none.
func (s *Service) WakeTx(ctx context.Context, tx pgx.Tx, about deadletters.About) error {
	sight, err := s.keys.LookTx(ctx, tx, idempotency.StoredRef(about.Scope, about.Key))
	if err != nil {
		return err
	}
	if sight.Execution.Generation != about.Generation {
		return idempotency.ErrNoKey
	}
	b := &pgx.Batch{}
	s.keys.QueuePostpone(b, sight.Execution, 0, 0, idempotency.Note{Actor: string(SourceOperator), Reason: "an operator has it looked up again"},
		new(idempotency.Passage))
	return postgres.SendTx(ctx, tx, b)
}
