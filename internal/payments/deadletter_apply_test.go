package payments

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"payonce/internal/gateway"
	"payonce/internal/judge"
)

// applies writes a step of evidence in a transaction of the caller's.
func (s *stage) applies(seen Gathered, r gateway.Record) error {
	step := judge.Judge(seen.Seen, judge.Record{Source: judge.SourceWebhook, Record: r})
	return pgx.BeginFunc(s.t.Context(), s.pool, func(tx pgx.Tx) error {
		return s.service.applyTx(s.t.Context(), tx, seen, step)
	})
}

// An operator is told if a decision was not written, and the key and its payment are written together or not at all.
func TestStepInAnothersTransactionIsWrittenWholeOrRefused(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001").lost()
	seen := g.gathers()
	g.windowPasses().proven()
	log := s.logged()
	before := s.everything()
	if err := g.applies(seen, g.record); !errors.Is(err, ErrMoved) || log.Len() > 0 || s.everything() != before {
		t.Errorf("a key that has moved: %v, logged %s", err, log)
	}
	seen = g.gathers()
	s.timePasses("UPDATE payments SET status = 'declined', psp_charge_id = NULL WHERE idempotency_key = $1",
		g.key.Key.String())
	before = s.everything()
	if err := g.applies(seen, g.record); err == nil || errors.Is(err, ErrMoved) || s.everything() != before {
		t.Errorf("a payment that has an outcome: %v", err)
	}

	g = s.charging("order-0000000002").lost()
	seen, s.service.newID = g.gathers(), noID
	if err := g.applies(seen, otherAmount.record(g)); err == nil {
		t.Error("a dead letter without an id is no error")
	}
	s.wantDeadLetters()
}
