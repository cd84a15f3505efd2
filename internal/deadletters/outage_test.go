package deadletters

import (
	"context"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

// An operator who is told of a decision that is not stored leaves the customer's payment as it is.
func TestStatementThatFailsIsNoDecisionAndNoEmptyList(t *testing.T) {
	t.Parallel()
	o := setup(t)
	l := aDeadLetter()
	o.keyAsIs(*l.About, *l.Subject, "unknown")
	o.put(l)
	pool, outage := pgtest.WithOutage(t, o.pool)
	o.db = postgres.Wrap(pool, 0)
	for statement, c := range map[string]struct {
		says string
		ask  func() error
	}{
		"ResolveDeadLetter": {"resolve dead letter", func() error { return o.decide(l.ID, 1) }},
		"RecomputeHold":     {"recompute hold of key", func() error { return o.decide(l.ID, 1) }},
		"WakeFreed":         {"wake key", func() error { return o.decide(l.ID, 1) }},
		"AuditRefused":      {"audit refusal", func() error { return o.refuse(l.ID) }},
		"ListActions": {"read audit trail", func() error {
			_, err := AuditTrail(t.Context(), o.db, l.ID)
			return err
		}},
		"GetDeadLetter": {"read dead letter", func() error { _, err := Get(t.Context(), o.db, l.ID); return err }},
		"CountOpen": {"count open dead letters", func() error {
			_, err := Summarize(t.Context(), o.db)
			return err
		}},
		"ListDeadLetters": {"list dead letters", func() error {
			_, err := List(t.Context(), o.db, Filter{})
			return err
		}},
	} {
		outage.On("name: "+statement, 1)
		if err := c.ask(); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", statement, err)
		}
	}
	outage.Over()
	if trail := o.trail(l.ID); len(trail) != 0 || len(o.open()) != 1 || o.hold() != "release" {
		t.Errorf("after the failures, the hold is %s, the trail %v", o.hold(), trail)
	}
}

func (o fixture) decide(id uuid.UUID, version int32) error {
	_, err := o.resolve(id, version, Executed)
	return err
}

func (o fixture) refuse(id uuid.UUID) error {
	return o.db.Transact(o.t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		return AuditRefusedTx(ctx, tx, RefusedDecision{DeadLetter: id, Version: 1, Action: Executed, Actor: "ann",
			Reason: "seen to it", Detail: "too late"})
	})
}
