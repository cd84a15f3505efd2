package payments

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
	"payonce/internal/payments/internal/dbsqlc"
	"payonce/internal/postgres"
)

// Inquiry is a decision about a dead letter. If the decision needs it, it also holds what the PSP says about the key.
type Inquiry struct {
	gathered gathered // what was read before the PSP was asked
	decision OperatorDecision
	record   *recordAgain // nil if the decision judges no record in its own transaction
}

// Inquire asks the PSP, if the decision must be compared with the PSP's answer. No transaction is open.
func (s *Service) Inquire(ctx context.Context, deadLetter deadletters.DeadLetter, d OperatorDecision) (Inquiry, error) {
	g, err := s.gatherDeadLetter(ctx, deadLetter, d, s.db.Pipeline)
	if err != nil {
		return Inquiry{}, err
	}
	step := judge(LookupPolicy{}, g.seen, d)
	if !step.Ask {
		record, err := s.gatherAgainFor(ctx, g.seen, step)
		return Inquiry{gathered: g, decision: d, record: record}, err
	}
	d.Answer, d.Others, d.Unbooked, err = s.ask(ctx, g, d.mayEnd(g.seen))
	return Inquiry{gathered: g, decision: d}, err
}

// DecideTx judges a decision, and writes the step in the operator's transaction. closing closes the dead letter in the
// same transaction. The caller must hold the lock of the key's row, so that the key does not move. If the step refuses
// the decision, the caller must roll the transaction back. DecideTx fails with ErrMoved if the key has moved since the
// PSP was asked.
func (s *Service) DecideTx(
	ctx context.Context, tx pgx.Tx, deadLetter deadletters.DeadLetter, i Inquiry, closing func() error,
) (Step, error) {
	g, err := s.gatherDeadLetter(ctx, deadLetter, i.decision, sendIn(tx))
	if err != nil {
		return Step{}, err
	}
	if i.decision.Answer != nil {
		before := i.gathered
		if g.seen.Status != before.seen.Status || g.seen.Key != before.seen.Key {
			return Step{}, ErrMoved
		}
		// The PSP's answer is judged by what was known before the PSP was asked.
		g.askedAt, g.seen.GraceLeft, g.seen.MemoryOver = before.askedAt, before.seen.GraceLeft, before.seen.MemoryOver
	}
	step := judge(LookupPolicy{}, g.seen, i.decision)
	switch {
	case step.Refuse != nil:
		return step, nil //nolint:nilerr // a refusal is what was decided, and the caller rolls back for it
	case step.Ask:
		return step, ErrMoved // The PSP was not asked, because the key was not unknown then.
	case g.seen.freedByRetry(step) && i.record == nil:
		return step, ErrMoved
	}
	// The dead letter is closed first, because the database does not release a key with an open dead letter.
	if err := closing(); err != nil {
		return step, err
	}
	if g.seen.freedByRetry(step) {
		step.Again = nil
		_, err := s.judgeAndApplyTx(ctx, tx, i.record.gathered, i.record.evidence)
		return step, err
	}
	return s.judgeAndApplyTx(ctx, tx, g, i.decision)
}

// gatherDeadLetter reads the key of a dead letter, the key's movement, another open dead letter of the key, and whether
// the id that the operator names is another movement's. The result has no movement if the dead letter names no key, or
// if the key is gone or stands for something else.
func (s *Service) gatherDeadLetter(
	ctx context.Context, deadLetter deadletters.DeadLetter, d OperatorDecision, send sender,
) (gathered, error) {
	if deadLetter.About == nil {
		return gathered{seen: Seen{DeadLetter: deadLetterSeen(deadLetter)}}, nil
	}
	var view idempotency.KeyView
	var m *movement
	var open deadletters.OnKey
	var taken bool
	ref := idempotency.StoredRef(deadLetter.About.Tenant, deadLetter.About.Operation, deadLetter.About.Key)
	err := send(ctx, s.keys.LookIn(ref, &view), s.findMovement(ref, nil, &m), deadletters.OpenOnKey(deadLetter, &open),
		idTaken(ref, d.PSPID, &taken))
	if err != nil {
		return gathered{}, fmt.Errorf("look at key: %w", err)
	}
	g := gatheredAbout(deadLetter, view, m)
	g.seen.DeadLetter, g.seen.Charged, g.seen.IDTaken = deadLetterSeen(deadLetter), open.Charged, taken
	if open.Other != nil {
		g.seen.OtherHeld = open.Other.String()
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
func gatheredAbout(deadLetter deadletters.DeadLetter, view idempotency.KeyView, m *movement) gathered {
	if !deadLetter.Concerns(view.Execution.Generation, view.Execution.Subject) || m == nil ||
		m.subject() != view.Execution.Subject {
		own := idempotency.Execution{Ref: idempotency.StoredRef(deadLetter.About.Tenant, deadLetter.About.Operation,
			deadLetter.About.Key), Generation: deadLetter.About.Generation}
		if deadLetter.Subject != nil {
			own.Subject = *deadLetter.Subject
		}
		return gathered{seen: Seen{Own: own}}
	}
	return gatheredOf(m, view.Execution, view)
}

// deadLetterSeen is a dead letter with the ids that are in its evidence. Evidence of another form has none of them.
func deadLetterSeen(l deadletters.DeadLetter) *DeadLetterSeen {
	parts := in[map[string]jsontext.Value](l.Evidence)
	job := in[struct {
		JobID   int64  `json:"jobId"`
		EventID string `json:"eventId"`
		Args    struct {
			EventID string `json:"eventId"`
		} `json:"args"`
	}](l.Evidence)
	if l.Kind == deadletters.JobDiscarded {
		job.EventID = job.Args.EventID
	}
	seen := &DeadLetterSeen{
		ID: l.ID, Kind: l.Kind, Version: l.Version, Resolution: l.Resolution, AboutKey: l.About != nil,
		JobID: job.JobID, EventID: job.EventID,
	}
	for _, raw := range []jsontext.Value{parts["record"], l.Evidence} {
		if _, err := gateway.ParseRecord(raw); err == nil {
			seen.Record = raw
		}
	}
	if l.About != nil {
		seen.readPSP(l, parts["answer"], parts["record"], l.Evidence)
	}
	return seen
}

// in reads a part of evidence. If it is not there, or has another form, in returns the zero value.
func in[T any](raw jsontext.Value) T {
	var v, none T
	if raw == nil || json.Unmarshal(raw, &v) != nil {
		return none
	}
	return v
}

// pspFields is what evidence may say about a movement: it is a record, or the PSP's answer to a request of ours.
type pspFields struct {
	ID             string `json:"id"`
	Object         string `json:"object"`
	Status         string `json:"status"`
	IdempotencyKey string `json:"idempotencyKey"`
	Reference      string `json:"reference"`
}

// readPSP finds in parts of the evidence what the PSP says about the dead letter's movement: its answer to a request of
// ours, or a record. It takes no id of a decline, and no id of another movement: the answer may be meant for another
// request.
func (d *DeadLetterSeen) readPSP(l deadletters.DeadLetter, parts ...jsontext.Value) {
	key := idempotency.Execution{Generation: l.About.Generation,
		Ref: idempotency.StoredRef(l.About.Tenant, l.About.Operation, l.About.Key)}.PassThroughKey()
	reference := ""
	if l.Subject != nil {
		reference = payment.ReferenceOf(payment.ObjectOf(idempotency.Operation(l.About.Operation)), *l.Subject)
	}
	for _, raw := range parts {
		t := in[pspFields](raw)
		if !gateway.IsID(t.ID) || t.Status == string(payment.Declined) {
			continue
		}
		if t.Object != "" && string(payment.OperationOf(gateway.Object(t.Object))) != l.About.Operation {
			continue // It is what others have done to the payment.
		}
		byKey, byReference := t.IdempotencyKey == key, t.Reference != "" && t.Reference == reference
		if d.Executed == "" && byReference && t.Status == string(payment.Succeeded) {
			d.Executed = t.ID
		}
		if d.PSPID == "" && (byKey || t.IdempotencyKey == "") &&
			(byReference || t.Reference == "" || reference == "") {
			d.PSPID, d.ByMark = t.ID, byKey || byReference
		}
	}
}

// A retry closes the dead letter, and so ends its hold. If nothing else keeps the key from being executed, the record
// must be judged in the same transaction: a job would come later, and meanwhile the client could charge again. If the
// record is still the same case, that opens it again.

// recordAgain is a dead letter's record, and what was read of the payment or refund that it is about now.
type recordAgain struct {
	gathered gathered
	evidence Record
}

// freedByRetry reports whether the step of a retry ends a hold of a key that may be executed.
func (s Seen) freedByRetry(step Step) bool {
	return step.Again != nil && step.Again.Record != nil && s.DeadLetter.AboutKey &&
		(!s.stands() || s.Status != idempotency.CompletedStatus)
}

// gatherAgainFor reads what the record of a step is about, or returns nil if its retry frees no key. No transaction is
// open. The key does not move before the retry, because the dead letter holds it.
func (s *Service) gatherAgainFor(ctx context.Context, seen Seen, step Step) (*recordAgain, error) {
	if !seen.freedByRetry(step) {
		return nil, nil
	}
	r, err := gateway.ParseRecord(step.Again.Record)
	if err != nil {
		return nil, fmt.Errorf("read the record: %w", err)
	}
	e := Record{Source: SourceOperator, Record: r}
	g, err := s.gatherFor(ctx, e)
	return &recordAgain{gathered: g, evidence: e}, err
}
