package operator

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters"
)

// Ruling is what became of a decision: one of Done, Refused.
//
//sumtype:decl
type Ruling interface{ ruling() }

// Done: the letter is resolved, and what the decision asks for has happened.
type Done struct{ Entry Entry }

// Refused: nothing has moved.
type Refused struct {
	Ground Ground
	Detail string // for the operator's eyes
}

func (Done) ruling()    {}
func (Refused) ruling() {}

// Ground is why a decision was refused.
type Ground string

// The grounds of refusals.
const (
	// Conflict: the letter, or its key, is not what the operator has seen any more.
	Conflict Ground = "conflict"
	// ContradictsPSP: the PSP says the opposite.
	ContradictsPSP Ground = "contradicts_psp"
	// NoFreshProof: the PSP does not answer, and the decision needs its word.
	NoFreshProof Ground = "no_fresh_proof"
	// WindowOpen: the PSP finds nothing yet, and what was sent may still arrive there.
	WindowOpen Ground = "settle_window_open"
	// NeedsDecision: the key is open, so that doing nothing is no answer.
	NeedsDecision Ground = "needs_decision"
	// NotApplicable: the action makes no sense for this letter.
	NotApplicable Ground = "not_applicable"
)

// refusal carries a Refused through a transaction, which it ends.
type refusal struct{ why Refused }

func (r refusal) Error() string { return r.why.Detail }

func refuse(g Ground, format string, args ...any) error {
	return refusal{Refused{Ground: g, Detail: fmt.Sprintf(format, args...)}}
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
