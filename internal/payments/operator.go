package payments

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/postgres"
)

// Inquiry is a decision about a dead letter. If the decision needs it, it also holds what the PSP says about the key.
type Inquiry struct {
	gathered gathered // what was read before the PSP was asked
	decision OperatorDecision
}

// Inquire asks the PSP, if the decision must be compared with the PSP's answer. No transaction is open.
func (s *Service) Inquire(ctx context.Context, deadLetter deadletters.DeadLetter, d OperatorDecision) (Inquiry, error) {
	var g gathered
	if deadLetter.About != nil {
		var err error
		g, err = s.gatherDeadLetter(deadLetter,
			func(calls ...postgres.Call) error { return s.db.Pipeline(ctx, calls...) })
		if err != nil {
			return Inquiry{}, err
		}
	}
	g.seen.DeadLetter = deadLetterSeen(deadLetter)
	if step := judge(LookupPolicy{}, g.seen, d); !step.Ask {
		return Inquiry{gathered: g, decision: d}, nil
	}
	var err error
	d.Answer, d.Others, err = s.ask(ctx, g, d.mayEnd(g.seen))
	return Inquiry{gathered: g, decision: d}, err
}

// DecideTx judges a decision, and writes the step in the operator's transaction. closing closes the dead letter in the
// same transaction. The caller must hold the lock of the key's row, so that the key does not move. If the step refuses
// the decision, the caller must roll the transaction back. DecideTx fails with ErrMoved if the key has moved since the
// PSP was asked.
func (s *Service) DecideTx(
	ctx context.Context, tx pgx.Tx, deadLetter deadletters.DeadLetter, i Inquiry, closing func() error,
) (Step, error) {
	var g gathered
	if deadLetter.About != nil {
		var err error
		g, err = s.gatherDeadLetter(deadLetter,
			func(calls ...postgres.Call) error { return postgres.PipelineTx(ctx, tx, calls...) })
		if err != nil {
			return Step{}, err
		}
	}
	g.seen.DeadLetter = deadLetterSeen(deadLetter)
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
		return step, nil
	case step.Ask:
		return step, ErrMoved // The PSP was not asked, because the key was not unknown then.
	}
	// The dead letter is closed first, because the database does not release a key with an open dead letter.
	if err := closing(); err != nil {
		return step, err
	}
	err := s.applyTx(ctx, tx, g, step)
	if BelongsToAnother(err) {
		g.seen.IDTaken = true
		if step = judge(LookupPolicy{}, g.seen, i.decision); step.Refuse != nil {
			return step, nil
		}
		err = s.applyTx(ctx, tx, g, step)
	}
	return step, err
}

// gatherDeadLetter reads the key of a dead letter, the key's movement, and another open dead letter of the key. If the
// key is gone or stands for something else, the result has no movement. run sends the statements.
func (s *Service) gatherDeadLetter(
	deadLetter deadletters.DeadLetter, run func(...postgres.Call) error,
) (gathered, error) {
	var view idempotency.KeyView
	var m movement
	var other *uuid.UUID
	ref := idempotency.StoredRef(deadLetter.About.Tenant, deadLetter.About.Operation, deadLetter.About.Key)
	err := run(s.keys.LookIn(ref, &view), s.movementOf(ref, &m), deadletters.OtherOpen(deadLetter, &other))
	if err != nil {
		return gathered{}, fmt.Errorf("look at key: %w", err)
	}
	g := gatheredAbout(deadLetter, view, m)
	if other != nil {
		g.seen.OtherHeld = other.String()
	}
	return g, nil
}

// gatheredAbout is what was read for a dead letter. A dead letter of an early version of this program names no payment.
// It is about the payment that has its generation of the key.
func gatheredAbout(deadLetter deadletters.DeadLetter, view idempotency.KeyView, m movement) gathered {
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

// deadLetterSeen is a dead letter with the ids that are in its evidence.
func deadLetterSeen(l deadletters.DeadLetter) *DeadLetterSeen {
	var job struct {
		JobID   int64  `json:"jobId"`
		EventID string `json:"eventId"`
		Args    struct {
			EventID string `json:"eventId"`
		} `json:"args"`
	}
	if json.Unmarshal(l.Evidence, &job) != nil {
		job.JobID, job.EventID, job.Args.EventID = 0, "", "" // The evidence has another form.
	}
	if l.Kind == deadletters.JobDiscarded {
		job.EventID = job.Args.EventID
	}
	return &DeadLetterSeen{
		ID: l.ID, Kind: l.Kind, Version: l.Version, Resolution: l.Resolution, AboutKey: l.About != nil,
		JobID: job.JobID, EventID: job.EventID, Record: recordIn(l.Evidence), PSPID: idIn(l),
	}
}

// recordIn finds a record of the PSP's ledger in evidence: the evidence itself, or its member record.
func recordIn(evidence []byte) []byte {
	if _, err := gateway.ParseRecord(evidence); err == nil {
		return evidence
	}
	var e struct {
		Record jsontext.Value `json:"record"`
	}
	if err := json.Unmarshal(evidence, &e); err != nil || e.Record == nil {
		return nil
	}
	if _, err := gateway.ParseRecord(e.Record); err != nil {
		return nil
	}
	return e.Record
}

// pspFields is what evidence may say about a movement: it is a record, or the PSP's answer to a request of ours.
type pspFields struct {
	ID             string `json:"id"`
	Status         string `json:"status"`
	IdempotencyKey string `json:"idempotencyKey"`
	Reference      string `json:"reference"`
}

// idIn finds the PSP's id of the dead letter's movement in its evidence. It ignores the id of a decline, and the id of
// another movement: the evidence may be an answer that was meant for another request.
func idIn(deadLetter deadletters.DeadLetter) string {
	if deadLetter.About == nil {
		return ""
	}
	var e struct {
		Answer *pspFields `json:"answer"`
		Record *pspFields `json:"record"`
	}
	var whole pspFields
	if json.Unmarshal(deadLetter.Evidence, &e) != nil {
		e.Answer, e.Record = nil, nil
	}
	if json.Unmarshal(deadLetter.Evidence, &whole) != nil {
		whole = pspFields{}
	}
	for _, t := range []*pspFields{e.Answer, e.Record, &whole} {
		if t != nil && t.about(deadLetter) {
			return t.ID
		}
	}
	return ""
}

// about reports whether t has the PSP's id of the dead letter's movement, and is not a decline.
func (t pspFields) about(deadLetter deadletters.DeadLetter) bool {
	a := deadLetter.About
	execution := idempotency.Execution{Ref: idempotency.StoredRef(a.Tenant, a.Operation, a.Key),
		Generation: a.Generation}
	ourKey := t.IdempotencyKey == "" || t.IdempotencyKey == execution.PassThroughKey()
	ourReference := t.Reference == "" || deadLetter.Subject == nil ||
		t.Reference == referenceOf(execution.Ref.Operation, *deadLetter.Subject)
	return gateway.IsID(t.ID) && t.Status != string(Declined) && ourKey && ourReference
}

// referenceOf is our id of a movement, in the form in which we send it to the PSP.
func referenceOf(operation idempotency.Operation, subject uuid.UUID) string {
	if operation == RefundOperation {
		return RefundID(subject).String()
	}
	return PaymentID(subject).String()
}
