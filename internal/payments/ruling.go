package payments

import (
	"context"
	"slices"

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
	others []gateway.Record // of earlier payments of the key, which say nothing of this one
}

// Status is where the key stands.
func (i Inquiry) Status() idempotency.Status { return i.sight.Status }

// Answer is what the PSP says of it.
func (i Inquiry) Answer() gateway.Lookup { return i.answer }

// WindowOver reports whether the settle window was over when the PSP was asked.
func (i Inquiry) WindowOver() bool { return i.sight.WindowLeft <= 0 }

// Own are the PSP's records under the key that refer to this movement, or to nothing. A record that refers to something else says nothing of it to
// an operator, who has to be able to close the case.
func (i Inquiry) Own() []gateway.Record {
	found, _ := i.answer.(gateway.Found)
	return slices.DeleteFunc(slices.Clone(found.Records), i.foreign)
}

// Knows gives the record by which the PSP says that it knows this movement. What it has declined does not count where it also lists under this key
// something executed that refers to something else: then it contradicts itself, and an operator has to decide.
func (i Inquiry) Knows() (r gateway.Record, known bool) {
	own := i.Own()
	for _, r := range own {
		if r.Executed() {
			return r, true
		}
	}
	if len(own) == 0 || i.executedElsewhere() {
		return gateway.Record{}, false
	}
	return own[0], true
}

// executedElsewhere reports whether the PSP lists, under this key, money that moved for something else.
func (i Inquiry) executedElsewhere() bool {
	found, _ := i.answer.(gateway.Found)
	return slices.ContainsFunc(found.Records, func(r gateway.Record) bool { return r.Executed() && i.foreign(r) })
}

func (i Inquiry) foreign(r gateway.Record) bool {
	id, ok := subjectOf(r)
	return r.Reference != "" && (!ok || id != i.file.execution.Subject)
}

// Foreign tells what the PSP's record of that id refers to, if that is something else than this movement.
func (i Inquiry) Foreign(id string) (reference string, foreign bool) {
	found, _ := i.answer.(gateway.Found)
	for _, r := range slices.Concat(found.Records, i.others) {
		if r.ID == id && i.foreign(r) {
			return r.Reference, true
		}
	}
	return "", false
}

// Verdict reads the PSP's own record as a verdict: Succeeded, Declined, or Indeterminate for one that contradicts the request. It is nil
// when there is no record.
func (i Inquiry) Verdict() gateway.Outcome {
	own := i.Own()
	if len(own) == 0 {
		return nil
	}
	return i.file.movement.judge(i.file.execution.PassThroughKey(), own[0])
}

// Inquire looks at the key of a letter and asks the PSP for it. It fails with idempotency.ErrNoKey when the key is gone, or stands for something
// else by now. The letter must be about a key.
func (s *Service) Inquire(ctx context.Context, about deadletters.Letter) (Inquiry, error) {
	due := idempotency.Due{Ref: idempotency.StoredRef(about.About.Scope, about.About.Key), Generation: about.About.Generation}
	if about.Subject != nil {
		due.Subject = *about.Subject
	}
	sight, c, err := s.look(ctx, due)
	if err != nil {
		return Inquiry{}, err
	}
	answer, others, err := s.ask(ctx, c)
	return Inquiry{file: c, sight: sight, answer: answer, others: others}, err
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

// RuleNotExecutedTx releases an unknown key as not executed, in the operator's transaction. The inquiry must have found nothing of this movement,
// after the settle window. It fails with ErrMoved when the key is not unknown any more, or has another open dead letter.
func (s *Service) RuleNotExecutedTx(ctx context.Context, tx pgx.Tx, i Inquiry) error {
	_, silent := i.answer.(gateway.LookupFailed)
	if _, known := i.Knows(); known || silent || i.answer == nil {
		return ErrMoved
	}
	note := idempotency.Note{Actor: string(SourceOperator), Reason: "an operator says, and the PSP with him: not executed"}
	return writeTx(ctx, tx, i.file, s.release(i.file, i.sight, note, s.keys.QueueReleaseByOperator))
}

// WakeTx has the unknown key of a letter looked up at once, with a fresh budget. A key that is not unknown needs none.
func (s *Service) WakeTx(ctx context.Context, tx pgx.Tx, about deadletters.Letter) error {
	sight, err := s.keys.LookTx(ctx, tx, idempotency.StoredRef(about.About.Scope, about.About.Key))
	if err != nil {
		return err
	}
	if !about.Concerns(sight.Execution.Generation, sight.Execution.Subject) {
		return idempotency.ErrNoKey
	}
	b := &pgx.Batch{}
	s.keys.QueuePostpone(b, sight.Execution, 0, 0, idempotency.Note{Actor: string(SourceOperator), Reason: "an operator has it looked up again"},
		new(idempotency.Passage))
	return postgres.SendTx(ctx, tx, b)
}
