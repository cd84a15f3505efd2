package operator

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/judge"
	"payonce/internal/payments"
	"payonce/internal/postgres"
)

// Inquiry is a decision about a dead letter, and what was learned for it before its transaction began.
type Inquiry struct {
	payments   *payments.Service
	deadLetter deadletters.DeadLetter
	decision   judge.OperatorDecision // with the PSP's answer, if the decision needs it
	gathered   payments.Gathered      // what was read before the PSP was asked
	again      *recordAgain           // nil if the decision judges no record in its own transaction
}

// recordAgain is a dead letter's record, and what was read of the payment or refund that it is about now.
//
// A retry closes the dead letter, and so ends its hold. If nothing else keeps the key from being executed, the record
// must be judged in the same transaction: a job would come later, and meanwhile the client could charge again. If the
// record is still the same case, that opens it again.
type recordAgain struct {
	gathered payments.Gathered
	record   judge.Record
}

// Inquire asks the PSP, if the decision must be compared with the PSP's answer, and may have it cancel the request. No
// transaction is open.
func Inquire(
	ctx context.Context, db *postgres.DB, p *payments.Service, l deadletters.DeadLetter, d judge.OperatorDecision,
) (Inquiry, error) {
	g, err := p.GatherDeadLetter(ctx, l, d.PSPID, db.Pipeline)
	if err != nil {
		return Inquiry{}, err
	}
	i := Inquiry{payments: p, deadLetter: l, decision: d, gathered: g}
	switch step := judge.Judge(g.Seen, d); {
	case step.Ask():
		i.decision.Answer, i.decision.Others, i.decision.Unbooked, err = p.Ask(ctx, g, d.MayEnd(g.Seen))
	case g.Seen.FreedByRetry(step):
		i.again, err = gatherAgain(ctx, p, step.Again().Record)
	}
	return i, err
}

// gatherAgain reads what a record is about. The key does not move before the retry, because the dead letter holds it.
func gatherAgain(ctx context.Context, p *payments.Service, raw []byte) (*recordAgain, error) {
	r, err := gateway.ParseRecord(raw)
	if err != nil {
		return nil, fmt.Errorf("read the record: %w", err)
	}
	again := recordAgain{record: judge.Record{Source: judge.SourceOperator, Record: r}}
	again.gathered, err = p.GatherRecord(ctx, again.record)
	return &again, err
}

// Decided is what judge says of a decision, and what it was judged by. Judge may refuse the decision.
type Decided struct {
	Step     judge.Step
	inquiry  Inquiry
	gathered payments.Gathered
}

// Judge judges the decision by what is known now. A caller that wants to write the step sends in the operator's
// transaction, and holds the lock of the key's row, so that the key does not move before CarryOutTx. It fails with
// payments.ErrMoved if the key has moved since the PSP was asked.
func (i Inquiry) Judge(ctx context.Context, send postgres.Sender) (Decided, error) {
	g, err := i.payments.GatherDeadLetter(ctx, i.deadLetter, i.decision.PSPID, send)
	if err == nil && i.decision.Answer != nil {
		g, err = g.AskedAs(i.gathered)
	}
	if err != nil {
		return Decided{}, err
	}
	d := Decided{Step: judge.Judge(g.Seen, i.decision), inquiry: i, gathered: g}
	// Inquire has prepared neither: the key was not unknown then, or the retry freed no key.
	if d.Step.Ask() || g.Seen.FreedByRetry(d.Step) && i.again == nil {
		return Decided{}, payments.ErrMoved
	}
	return d, nil
}

// CarryOutTx writes the step of a decision that is not refused, and returns the step. The caller has closed the dead
// letter in the same transaction before: the database does not release a key with an open dead letter. A constraint may
// make judge refuse the decision here. Then the caller must roll the transaction back, as for an error.
func (d Decided) CarryOutTx(ctx context.Context, tx pgx.Tx) (judge.Step, error) {
	i := d.inquiry
	if d.gathered.Seen.FreedByRetry(d.Step) {
		_, err := i.payments.JudgeAndApplyTx(ctx, tx, i.again.gathered, i.again.record)
		return judge.Step{}, err // Nothing is left to do: the record is judged.
	}
	return i.payments.JudgeAndApplyTx(ctx, tx, d.gathered, i.decision)
}
