package deadletters

import (
	"context"
	"time"

	"github.com/google/uuid"

	"payonce/internal/deadletters/internal/dbsqlc"
	"payonce/internal/postgres"
)

// Action is what an operator decides.
type Action string

// The four decisions.
const (
	Retry       Action = "retry"        // find out again
	Executed    Action = "executed"     // the money has moved
	NotExecuted Action = "not_executed" // the money has not moved, and the client may try again
	Dismiss     Action = "dismiss"      // there is nothing to do
)

// Answered is no decision of an operator: the key was completed meanwhile, or evidence has answered what the dead
// letter asks. So there is nothing left to decide.
const Answered Action = "answered"

// MaxReason is the limit of every reason, in characters: of a dead letter, of a decision, and of a refusal.
const MaxReason = 500

// Resolution is how a dead letter was closed. The operator's API shows it.
type Resolution struct {
	At     time.Time `json:"at"`
	Action Action    `json:"action"`
	Actor  string    `json:"actor"`
	Reason string    `json:"reason"`
}

// Rehold are the calls that write to a key's row what its open dead letters forbid now, and wake the key if it is free
// of them. The caller must have locked the row.
func Rehold(a About, subject *uuid.UUID) []postgres.Call {
	recompute := dbsqlc.RecomputeHoldParams{TenantID: a.Tenant, Operation: a.Operation, Key: a.Key}
	wake := dbsqlc.WakeFreedParams{TenantID: a.Tenant, Operation: a.Operation, Key: a.Key, Generation: a.Generation,
		Subject: subject}
	return []postgres.Call{
		func(ctx context.Context, q postgres.Statement) error {
			return dbsqlc.New(q).RecomputeHold(ctx, recompute)
		},
		func(ctx context.Context, q postgres.Statement) error { return dbsqlc.New(q).WakeFreed(ctx, wake) },
	}
}

// Answer is the call that closes the open dead letter of a finding, with its audit row, because evidence has answered
// what it asks. Without an open dead letter it does nothing. Rehold must follow if the dead letter is about a key, and
// an earlier call of the same transaction must lock the key's row.
func Answer(kind Kind, finding, actor, reason string) postgres.Call {
	return func(ctx context.Context, q postgres.Statement) error {
		return dbsqlc.New(q).AnswerDeadLetter(ctx, dbsqlc.AnswerDeadLetterParams{
			Kind: string(kind), Finding: finding, Action: string(Answered), Actor: actor, Reason: reason,
		})
	}
}

// Clip cuts a reason to its column.
func Clip(s string) string {
	if r := []rune(s); len(r) > MaxReason {
		return string(r[:MaxReason])
	}
	return s
}
