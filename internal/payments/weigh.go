package payments

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/postgres"
)

// weighed is what a testimony comes to, given what the key is: what to write, under which condition, and what to say when it is
// written. Without a queue there is nothing to write.
type weighed struct {
	label   string
	guarded bool // what it writes, it writes only to the key as it was seen
	queue   func(b *pgx.Batch, out *written)
	finding func(idempotency.Passage) Finding
}

// written is what came of a batch. A batch without a guard passes always.
type written struct {
	passage idempotency.Passage
	rows    int64
}

// weigh holds a testimony against the key as it was seen.
func (s *Service) weigh(ctx context.Context, c *caseFile, k keyState, t testimony) (weighed, error) {
	v, isVerdict := verdictOf(t.outcome)
	ours := k.execution.Generation == c.execution.Generation && k.execution.Subject == c.execution.Subject &&
		k.status != idempotency.ExpiredStatus
	switch {
	case !isVerdict && ours && k.status != idempotency.CompletedStatus:
		return s.toOperator(c, deadletters.PSPContradicts, t, "the PSP's record contradicts the request: "+reasonOf(t.outcome))
	case ours && k.status != idempotency.CompletedStatus:
		if t.excess {
			return s.toOperator(c, deadletters.RefundExceeds, t, "a refund came to light whose share of the payment another one has claimed")
		}
		if t.source == SourceOwner && k.execution.Attempt != c.execution.Attempt && k.status != idempotency.FailedRetryableStatus {
			return nothing(LeftAlone{}), nil // a later attempt is under way, and the PSP tells it the same
		}
		c.execution = k.execution
		if v.status == Refused {
			charged, err := deadletters.SaysCharged(ctx, s.db, aboutKey(c.movement, c.execution), c.execution.Subject)
			if err != nil {
				return weighed{}, err
			}
			if charged {
				return s.toOperator(c, deadletters.PSPContradicts, t, "the PSP says declined, and an open dead letter of the key says that money moved")
			}
		}
		return s.settlement(c, k.status, v, t)
	}

	// Whatever it was, it is over: the row alone says what came of it.
	known := c.movement.standing()
	if known.status != Success && known.status != Refused {
		if err := c.movement.load(ctx, c.execution.Subject); err != nil {
			return weighed{}, err
		}
		known = c.movement.standing()
	}
	switch {
	case isVerdict && known.confirmedBy(v):
		return s.confirmation(c, ours, v, t), nil
	case isVerdict && v.status == Refused && known.status == Failed:
		return nothing(Confirmed{}), nil // neither of the two has moved any money
	case known.status == Success && v.status == Success:
		return s.toOperator(c, deadletters.DuplicateMovement, t, "the PSP has executed it twice, the second time as "+v.pspID)
	case known.status == Success || known.status == Refused:
		return s.toOperator(c, deadletters.ContradictsCompleted, t, "the PSP's record contradicts the result that was answered: "+reasonOf(t.outcome))
	}
	return s.toOperator(c, deadletters.LateAfterExpiry, t, "it came to light when its key had expired unexecuted")
}

// confirmedBy reports whether a verdict says what is known. Where an operator has vouched for an execution without knowing the
// PSP's id of it, the first execution that comes to light will do.
func (v verdict) confirmedBy(other verdict) bool {
	return v.status == other.status && (v.pspID == other.pspID || strings.HasPrefix(v.pspID, OperatorPSPID))
}

// settlement completes the key, and settles the row, from the status in which the key was seen.
func (s *Service) settlement(c *caseFile, seen idempotency.Status, v verdict, t testimony) (weighed, error) {
	resource, response, err := c.movement.conclude(v)
	if err != nil {
		return weighed{}, fmt.Errorf("build response: %w", err)
	}
	execution := c.execution
	note := idempotency.Note{Actor: string(t.source), Reason: "the PSP says " + t.outcome.Label(), Evidence: t.evidence}
	if t.source == SourceOperator && t.id == "" {
		note.Reason = "an operator says: executed"
	}
	return weighed{
		label: string(v.status), guarded: true,
		queue: func(b *pgx.Batch, out *written) {
			s.keys.QueueSettle(b, execution, seen, v.status == Refused, note, response, &out.passage)
			c.movement.queueSettle(b, execution, v, idempotency.CompletedStatus, &out.rows)
		},
		finding: func(p idempotency.Passage) Finding {
			return Settled{Resource: resource, Response: response, Expires: p.Expires}
		},
	}, nil
}

// confirmation leaves a trace of a webhook in the key's timeline. A scan would leave one for every movement there is. What an operator has
// vouched for gets the id that the PSP knows it by; the stored response stays as it is.
func (s *Service) confirmation(c *caseFile, ours bool, v verdict, t testimony) weighed {
	note := t.source == SourceWebhook && ours
	name := c.movement.standing().pspID != v.pspID
	if !note && !name {
		return nothing(Confirmed{})
	}
	line := idempotency.Note{Actor: string(t.source), Reason: "the PSP confirms: " + t.outcome.Label(), Evidence: t.evidence}
	return weighed{
		label: "confirmed",
		queue: func(b *pgx.Batch, _ *written) {
			if note {
				s.keys.QueueNote(b, c.execution, line)
			}
			if name {
				c.movement.queueName(b, v.pspID)
			}
		},
		finding: func(idempotency.Passage) Finding { return Confirmed{} },
	}
}

// toOperator opens a dead letter and moves nothing.
func (s *Service) toOperator(c *caseFile, kind deadletters.Kind, t testimony, reason string) (weighed, error) {
	letter, err := s.keyLetter(kind, c.execution, c.movement, reason, evidenceOf(t))
	if err != nil {
		return weighed{}, err
	}
	switch {
	case t.id == "":
	case kind == deadletters.PSPContradicts:
		letter.Finding = contradictionFinding(letter, t.id)
	default:
		letter.Finding = recordFinding(c.movement.onBehalfOf().PSPAccount, t.id) // two records that contradict one result are two cases
	}
	var opened bool
	return weighed{
		label: "dead_letter",
		queue: func(b *pgx.Batch, _ *written) {
			s.keys.QueueHold(b, c.execution.Ref)
			deadletters.QueueOpenNew(b, letter, &opened)
		},
		finding: func(idempotency.Passage) Finding { return Lettered{Kind: kind, New: opened} },
	}, nil
}

func nothing(f Finding) weighed {
	return weighed{finding: func(idempotency.Passage) Finding { return f }}
}

// write commits what a testimony was weighed to, as one transaction.
func (s *Service) write(ctx context.Context, c *caseFile, w weighed, alone bool) (idempotency.Passage, error) {
	var out written
	queue := func(b *pgx.Batch) {
		out = written{passage: idempotency.Passage{Through: true}, rows: 1}
		w.queue(b, &out)
	}
	var err error
	if w.guarded {
		err = s.commit(ctx, c.execution.Ref, c.movement, alone, queue)
	} else {
		b := &pgx.Batch{} // alone: two keys may have the same finding
		queue(b)
		err = s.db.Send(ctx, b)
	}
	if err != nil {
		return idempotency.Passage{}, err
	}
	if out.passage.Through {
		s.checkRows(ctx, c.movement, out.rows)
	}
	return out.passage, nil
}

// ErrMoved says that a key has moved since somebody looked at it: look again.
var ErrMoved = errors.New("the key has moved since")

// writeTx writes in the caller's transaction what was weighed, or fails with ErrMoved.
func writeTx(ctx context.Context, tx pgx.Tx, c *caseFile, w weighed) error {
	b := &pgx.Batch{}
	out := written{passage: idempotency.Passage{Through: true}, rows: 1}
	w.queue(b, &out)
	if err := postgres.SendTx(ctx, tx, b); err != nil {
		return err
	}
	if !out.passage.Through {
		return ErrMoved
	}
	if out.rows != 1 {
		return fmt.Errorf("settle %s: its row did not follow its key", c.movement.resource().Location())
	}
	return nil
}

func reasonOf(o gateway.Outcome) string {
	if i, ok := o.(gateway.Indeterminate); ok {
		return i.Reason
	}
	return "it says " + o.Label()
}
