package operator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters"
	"payonce/internal/idempotency"
	"payonce/internal/operator/internal/dbsqlc"
)

// reconcilerActor is named in the audit trail for a dead letter that no operator has closed.
const reconcilerActor = "reconciler"

// answer is a kind of dead letters and a status of its key that answers the question of the dead letter.
type answer struct {
	kind   deadletters.Kind
	status idempotency.Status
}

// answers are all such pairs. The first two kinds ask whether a key was executed: a completed key says so. A failed job
// about a key asks that the key be resolved: other work has done it. No other kind is answered by its key: for example,
// a movement that contradicts the request is still there.
func answers() []answer {
	return []answer{
		{deadletters.LookupsExhausted, idempotency.CompletedStatus},
		{deadletters.PSPMemoryOver, idempotency.CompletedStatus},
		{deadletters.JobDiscarded, idempotency.CompletedStatus},
		{deadletters.JobDiscarded, idempotency.FailedRetryableStatus},
	}
}

// Answered reports whether the present status of its key answers what the dead letter asks. Then it is closed soon.
func (e Entry) Answered() bool {
	return e.Resolution == nil && slices.Contains(answers(), answer{e.Kind, e.Key})
}

// CloseAnswered closes up to limit dead letters whose question is answered because their key was resolved meanwhile,
// and returns how many it has closed. Each is audited, with the reconciler as the actor.
func (s *Service) CloseAnswered(ctx context.Context, limit int32) (closed int, err error) {
	p := dbsqlc.AnsweredDeadLettersParams{MaxRows: limit}
	for _, a := range answers() {
		p.Kinds, p.Statuses = append(p.Kinds, string(a.kind)), append(p.Statuses, string(a.status))
	}
	ids, err := dbsqlc.New(s.config.DB.Reader()).AnsweredDeadLetters(ctx, p)
	if err != nil {
		return 0, fmt.Errorf("find answered dead letters: %w", err)
	}
	for _, id := range ids {
		done, failed := s.closeAnswered(ctx, id)
		if done {
			closed++
		}
		err = errors.Join(err, failed) // One key that somebody has locked does not stop the others.
	}
	return closed, err
}

// closeAnswered closes one dead letter, if its key, which it locks, still answers it.
func (s *Service) closeAnswered(ctx context.Context, id uuid.UUID) (closed bool, err error) {
	deadLetter, err := deadletters.Get(ctx, s.config.DB.Reader(), id)
	if err != nil {
		return false, err
	}
	err = s.config.DB.Transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		status, err := s.lockKeyTx(ctx, tx, deadLetter)
		if closed = err == nil && slices.Contains(answers(), answer{deadLetter.Kind, status}); !closed {
			return err
		}
		_, err = deadletters.ResolveTx(ctx, tx, deadletters.Decision{DeadLetter: id, Version: deadLetter.Version,
			Action: deadletters.Answered, Actor: reconcilerActor,
			Reason: fmt.Sprintf("The key is %s, so there is nothing left to decide.", status)})
		return err
	})
	switch {
	case errors.Is(err, deadletters.ErrConflict):
		return false, nil // An operator was faster.
	case err != nil:
		// The commit may have happened if its acknowledgement was lost. The next run finds what is still open.
		return false, fmt.Errorf("close answered dead letter: %w", err)
	}
	if closed {
		s.config.Log.InfoContext(ctx, "dead letter closed: its key was resolved meanwhile",
			slog.String("dead_letter", id.String()), slog.String("kind", string(deadLetter.Kind)))
	}
	return closed, nil
}
