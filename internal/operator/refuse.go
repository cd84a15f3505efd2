package operator

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters"
	"payonce/internal/payments"
)

// Result is the result of a decision: one of Done, Refused.
//
//sumtype:decl
type Result interface{ result() }

// Done says that the dead letter is resolved and the decision is carried out.
type Done struct{ Entry Entry }

// Refused says that the decision was refused. Nothing was changed.
type Refused struct {
	Ground payments.Ground
	Detail string // for the operator
}

func (Done) result()    {}
func (Refused) result() {}

// refusedError is a Refused as an error, so that the transaction is rolled back.
type refusedError struct{ why Refused }

func (r refusedError) Error() string { return r.why.Detail }

func refuse(g payments.Ground, detail string) error {
	return refusedError{Refused{Ground: g, Detail: detail}}
}

// audit stores a refused decision, in a transaction of its own. If that fails, the operator gets an error and asks
// again.
func (d *Service) audit(ctx context.Context, asked Decision, r Refused) error {
	err := d.db.Transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return deadletters.AuditRefusedTx(ctx, tx, deadletters.RefusedDecision{
			DeadLetter: asked.DeadLetter, Version: asked.Version, Action: asked.Action, Actor: asked.Actor,
			Reason: asked.Reason,
			Detail: r.Detail,
		})
	})
	if err != nil {
		return fmt.Errorf("write refusal: %w", err)
	}
	return nil
}
