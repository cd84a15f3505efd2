package payments

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/test/pgtest"
)

// An operator has judged one attempt of a key. The next one is lost as well: without a dead letter of its own, nobody
// would look at it.
func TestJudgementOfAnAttemptDoesNotCoverTheNext(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	g := s.charging("order-0000000001").lost().windowPasses()
	exhaust := func() {
		for range 3 {
			g.resolves(Scheduled)
		}
		g.resolves(ToOperator)
	}
	exhaust()
	psp.onLookup(finds())
	s.notExecuted(g)
	g.wantStatus(idempotency.FailedRetryableStatus, 1)

	psp.onLookup(nil)
	is[Pending](t, s.create("order-0000000001", order()))
	g.wantStatus(idempotency.UnknownStatus, 2)
	exhaust()
	if n := s.count("SELECT count(*) FROM dead_letters WHERE status = 'open' AND kind = 'lookups_exhausted'"); n != 1 {
		t.Fatalf("%d open dead letters about an unknown key that nobody else will decide about", n)
	}
}

// notExecuted resolves the one open dead letter, about the given key, as an operator does.
func (s *shop) notExecuted(g *stage) {
	s.t.Helper()
	id := pgtest.Value[uuid.UUID](s.t, s.pool, "SELECT id FROM dead_letters WHERE status = 'open'")
	deadLetter := g.about(1)
	deadLetter.ID = id
	inquiry, err := s.service.Inquire(s.t.Context(), deadLetter,
		judge.OperatorDecision{Action: deadletters.NotExecuted})
	if err != nil {
		s.t.Fatal(err)
	}
	err = s.service.db.Transact(s.t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		_, err := s.decideTx(ctx, tx, inquiry, &deadletters.Decision{DeadLetter: id, Version: 1,
			Action: deadletters.NotExecuted, Actor: "ann", Reason: "the PSP says no"})
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
}
