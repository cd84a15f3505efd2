package payments

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payments/internal/dbsqlc"
	"payonce/internal/postgres"
)

// BreakTx judges a break, and writes the step in the statement's transaction. completed reports whether the step has
// completed a key.
func (s *Service) BreakTx(ctx context.Context, tx pgx.Tx, b judge.Break) (completed bool, err error) {
	for read := 1; ; read++ {
		var step judge.Step
		g, err := s.gatherBreakTx(ctx, tx, b)
		if err == nil {
			step, err = s.JudgeAndApplyTx(ctx, tx, g, b)
		}
		switch {
		case err == nil:
			return step.To() == idempotency.CompletedStatus, nil
		case !errors.Is(err, ErrMoved) || read == maxReads:
			return false, fmt.Errorf("resolve by statement: %w", err)
		}
	}
}

// gatherBreakTx reads the movement that a break is about, and its key. For a break about nothing of ours, the result
// has no movement.
func (b *Books) gatherBreakTx(ctx context.Context, tx pgx.Tx, e judge.Break) (g Gathered, err error) {
	if e.Subject == nil {
		return Gathered{}, nil
	}
	object := e.Object
	if e.Kind == judge.BreakMissingHere { // The line is about a payment, whatever it says about it.
		object = gateway.ChargeObject
	}
	own, err := executionBy(ctx, dbsqlc.New(tx), e.Account, *e.Subject, object)
	if err == nil {
		g, err = b.gatherBy(ctx, own, postgres.In(tx))
	}
	if err == nil {
		g, err = withStored(ctx, dbsqlc.New(tx), g, e.Object, e.PSPID)
	}
	if errors.Is(err, errNotOurs) {
		return Gathered{}, nil
	}
	return g, err
}
