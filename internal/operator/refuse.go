package operator

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters"
	"payonce/internal/payments"
)

// Ruling is what became of a decision: one of Done, Refused.
//
//sumtype:decl
type Ruling interface{ ruling() }

// Done: the letter is resolved, and what the decision asks for has happened.
type Done struct{ Entry Entry }

// Refused: nothing has moved.
type Refused struct {
	Ground payments.Ground
	Detail string // for the operator's eyes
}

func (Done) ruling()    {}
func (Refused) ruling() {}

// refusal carries a Refused through a transaction, which it ends.
type refusal struct{ why Refused }

func (r refusal) Error() string { return r.why.Detail }

func refuse(g payments.Ground, detail string) error {
	return refusal{Refused{Ground: g, Detail: detail}}
}

// audit writes a refused decision down, in a transaction of its own. A refusal that cannot be audited is an error: the operator asks
// again.
func (d *Desk) audit(ctx context.Context, asked Decision, r Refused) error {
	err := d.db.Transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return deadletters.AuditRefusalTx(ctx, tx, deadletters.Refusal{
			Letter: asked.Letter, Version: asked.Version, Action: asked.Action, Actor: asked.Actor, Reason: asked.Reason,
			Detail: r.Detail,
		})
	})
	if err != nil {
		return fmt.Errorf("write refusal: %w", err)
	}
	return nil
}
