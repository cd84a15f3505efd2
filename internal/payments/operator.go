package payments

import (
	"context"
	"fmt"
	"regexp"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/postgres"
)

// Inquiry is a decision about a dead letter, with what the PSP has said of the key where the decision needs that.
type Inquiry struct {
	gathered gathered // before the question
	decision Decision
}

// Inquire asks the PSP, if the decision has to be held against its word. No transaction is open.
func (s *Service) Inquire(ctx context.Context, letter deadletters.Letter, d Decision) (Inquiry, error) {
	var g gathered
	if letter.About != nil {
		var err error
		if g, err = s.gatherLetter(ctx, letter); err != nil {
			return Inquiry{}, err
		}
	}
	g.seen.Letter = letterSeen(letter)
	if step := judge(Patience{}, g.seen, d); !step.Ask {
		return Inquiry{gathered: g, decision: d}, nil
	}
	var err error
	d.Answer, d.Others, err = s.ask(ctx, g)
	return Inquiry{gathered: g, decision: d}, err
}

// DecideTx judges a decision, and writes what it comes to in the operator's transaction; closing closes the dead letter there. The key must be locked, so
// that it stays where it is. A step that refuses has written nothing, but the caller must end the transaction without a commit. It fails with ErrMoved when the
// key has moved since the PSP was asked.
func (s *Service) DecideTx(ctx context.Context, tx pgx.Tx, letter deadletters.Letter, i Inquiry, closing func() error) (Step, error) {
	var g gathered
	if letter.About != nil {
		var err error
		if g, err = s.gatherLetterTx(ctx, tx, letter); err != nil {
			return Step{}, err
		}
	}
	g.seen.Letter = letterSeen(letter)
	if i.decision.Answer != nil {
		before := i.gathered
		if g.seen.Status != before.seen.Status || g.seen.Key != before.seen.Key {
			return Step{}, ErrMoved
		}
		// What the PSP says counts by what was known before it was asked.
		g.asked, g.seen.GraceLeft, g.seen.MemoryOver = before.asked, before.seen.GraceLeft, before.seen.MemoryOver
	}
	step := judge(Patience{}, g.seen, i.decision)
	switch {
	case step.Refuse != nil:
		return step, nil
	case step.Ask:
		return step, ErrMoved // it was not asked about, and has become unknown since
	}
	// First of all: the database does not release a key with an open dead letter.
	if err := closing(); err != nil {
		return Step{}, err
	}
	err := s.applyTx(ctx, tx, g, step)
	if BelongsToAnother(err) {
		g.seen.IDTaken = true
		if step = judge(Patience{}, g.seen, i.decision); step.Refuse != nil {
			return step, nil
		}
		err = s.applyTx(ctx, tx, g, step)
	}
	return step, err
}

// gatherLetter reads the key of a dead letter, and what it stands for. Of a key that is gone, or stands for something else, the Seen has no movement.
func (s *Service) gatherLetter(ctx context.Context, letter deadletters.Letter) (gathered, error) {
	var sight idempotency.Sight
	var m movement
	if err := s.db.Pipeline(ctx, s.letterCalls(letter, &sight, &m)...); err != nil {
		return gathered{}, fmt.Errorf("look at key: %w", err)
	}
	return gatheredAbout(letter, sight, m), nil
}

// gatherLetterTx is gatherLetter in the caller's transaction, with the other dead letters of the key.
func (s *Service) gatherLetterTx(ctx context.Context, tx pgx.Tx, letter deadletters.Letter) (gathered, error) {
	var sight idempotency.Sight
	var m movement
	if err := postgres.PipelineTx(ctx, tx, s.letterCalls(letter, &sight, &m)...); err != nil {
		return gathered{}, fmt.Errorf("look at key: %w", err)
	}
	g := gatheredAbout(letter, sight, m)
	other, found, err := deadletters.OtherOpenTx(ctx, tx, letter)
	if found {
		g.seen.OtherHeld = other.String()
	}
	return g, err
}

func (s *Service) letterCalls(letter deadletters.Letter, sight *idempotency.Sight, m *movement) []postgres.Call {
	ref := idempotency.StoredRef(letter.About.Tenant, letter.About.Operation, letter.About.Key)
	return []postgres.Call{s.keys.LookIn(ref, sight), s.movementOf(ref, m)}
}

// gatheredAbout is what was read for a dead letter. One of an early version of this program names no payment: it is about whatever has its generation of the key.
func gatheredAbout(letter deadletters.Letter, sight idempotency.Sight, m movement) gathered {
	if !letter.Concerns(sight.Execution.Generation, sight.Execution.Subject) || m == nil || m.subject() != sight.Execution.Subject {
		own := idempotency.Execution{Ref: idempotency.StoredRef(letter.About.Tenant, letter.About.Operation, letter.About.Key), Generation: letter.About.Generation}
		if letter.Subject != nil {
			own.Subject = *letter.Subject
		}
		return gathered{seen: Seen{Own: own}}
	}
	return gatheredOf(m, sight.Execution, sight)
}

// letterSeen is a dead letter with what its evidence names.
func letterSeen(l deadletters.Letter) *LetterSeen {
	var job struct {
		JobID   int64  `json:"jobId"`
		EventID string `json:"eventId"`
		Args    struct {
			EventID string `json:"eventId"`
		} `json:"args"`
	}
	if json.Unmarshal(l.Evidence, &job) != nil {
		job.JobID, job.EventID, job.Args.EventID = 0, "", "" // evidence of another form
	}
	if l.Kind == deadletters.JobDiscarded {
		job.EventID = job.Args.EventID
	}
	return &LetterSeen{
		ID: l.ID, Kind: l.Kind, Version: l.Version, Resolution: l.Resolution, AboutKey: l.About != nil,
		JobID: job.JobID, EventID: job.EventID, Record: recordIn(l.Evidence), PSPID: idIn(l),
	}
}

// recordIn finds the record of the PSP's ledger that evidence is, or holds as its member record.
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

// traces is what evidence may say of a movement: a record, or an answer to a request of ours.
type traces struct {
	ID             string `json:"id"`
	Status         string `json:"status"`
	IdempotencyKey string `json:"idempotencyKey"`
	Reference      string `json:"reference"`
}

// idIn finds the PSP's id of the dead letter's movement in its evidence. One of a refusal is none, nor is one of something else: an answer that went
// astray is evidence, too.
func idIn(letter deadletters.Letter) string {
	if letter.About == nil {
		return ""
	}
	var e struct {
		Answer *traces `json:"answer"`
		Record *traces `json:"record"`
	}
	var whole traces
	if json.Unmarshal(letter.Evidence, &e) != nil {
		e.Answer, e.Record = nil, nil
	}
	if json.Unmarshal(letter.Evidence, &whole) != nil {
		whole = traces{}
	}
	for _, t := range []*traces{e.Answer, e.Record, &whole} {
		if t != nil && t.about(letter) {
			return t.ID
		}
	}
	return ""
}

// pspIDForm is what the PSP's ids look like, as package gateway takes them.
var pspIDForm = regexp.MustCompile(`^[!-~]{1,255}$`)

func (t traces) about(letter deadletters.Letter) bool {
	a := letter.About
	execution := idempotency.Execution{Ref: idempotency.StoredRef(a.Tenant, a.Operation, a.Key), Generation: a.Generation}
	ourKey := t.IdempotencyKey == "" || t.IdempotencyKey == execution.PassThroughKey()
	ourReference := t.Reference == "" || letter.Subject == nil || t.Reference == referenceOf(execution.Ref.Operation, *letter.Subject)
	return pspIDForm.MatchString(t.ID) && t.Status != string(Refused) && ourKey && ourReference
}

// referenceOf is our id of a movement, as the PSP is told it.
func referenceOf(operation idempotency.Operation, subject uuid.UUID) string {
	if operation == RefundOperation {
		return RefundID(subject).String()
	}
	return PaymentID(subject).String()
}
