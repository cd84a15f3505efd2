package payments

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters"
	"payonce/internal/judge"
	"payonce/internal/postgres"
)

// Inquiry is an operator's decision as package operator has begun it, to be judged and carried out in a transaction.
// The dead letter is closed between the two.
type Inquiry func(ctx context.Context, tx pgx.Tx, closing func() error) (judge.Step, error)

// Inquire begins a decision. It is that of package operator, which imports this one.
var Inquire func(
	context.Context, *postgres.DB, *Service, deadletters.DeadLetter, judge.OperatorDecision,
) (Inquiry, error)

func (s *shop) inquired(
	ctx context.Context, l deadletters.DeadLetter, d judge.OperatorDecision,
) (Inquiry, error) {
	return Inquire(ctx, s.service.db, s.service, l, d)
}

// open are the open dead letters, newest first.
func (s *shop) open() []deadletters.DeadLetter {
	s.t.Helper()
	page, err := deadletters.List(s.t.Context(), s.service.db,
		deadletters.Filter{Status: deadletters.OpenStatus, Limit: 9})
	if err != nil {
		s.t.Fatal(err)
	}
	return page.DeadLetters
}

// resolveDeadLetter closes the only open dead letter as an operator does.
func (s *shop) resolveDeadLetter(action deadletters.Action) {
	s.t.Helper()
	s.resolveDeadLetterThat("true", action)
}

// resolveDeadLetterThat closes the only open dead letter of which a condition is true.
func (s *shop) resolveDeadLetterThat(condition string, action deadletters.Action) {
	s.t.Helper()
	var id uuid.UUID
	var version int32
	if err := s.pool.QueryRow(s.t.Context(), "SELECT id, version FROM dead_letters WHERE status = 'open' AND "+
		condition).Scan(&id, &version); err != nil {
		s.t.Fatal(err)
	}
	err := pgx.BeginFunc(s.t.Context(), s.pool, func(tx pgx.Tx) error {
		_, err := deadletters.ResolveTx(s.t.Context(), tx, deadletters.Decision{DeadLetter: id, Version: version,
			Action: action, Actor: "mallory", Reason: "looked into it"})
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
}
