package deadletters

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters/internal/dbsqlc"
	"payonce/internal/postgres"
)

// ErrConflict says that a dead letter was resolved in the meantime, or has another version than the operator has seen.
var ErrConflict = errors.New("dead letter has another version")

// Decision is what somebody decides about a dead letter, as the audit trail has it.
type Decision struct {
	DeadLetter uuid.UUID
	Version    int32 // the version of the dead letter that the operator has seen
	Action     Action
	Actor      string
	Reason     string
}

// ResolveTx closes the dead letter, writes its audit row, and recomputes the hold of its key, in the caller's
// transaction. It fails with ErrConflict or ErrNoDeadLetter. If another operator is resolving the same dead letter, it
// waits for that transaction. The caller must have locked the row of the dead letter's key. Otherwise a dead letter
// that is opened about the key meanwhile would be missing in the hold.
func ResolveTx(ctx context.Context, tx pgx.Tx, d Decision) (DeadLetter, error) {
	row, err := dbsqlc.New(tx).ResolveDeadLetter(ctx, dbsqlc.ResolveDeadLetterParams{
		ID: d.DeadLetter, Version: d.Version, Action: string(d.Action), Actor: d.Actor, Reason: d.Reason,
	})
	if !errors.Is(err, pgx.ErrNoRows) {
		if err != nil {
			return DeadLetter{}, fmt.Errorf("resolve dead letter: %w", err)
		}
		deadLetter := deadLetterOf(dbsqlc.GetDeadLetterRow(row))
		if deadLetter.About == nil {
			return deadLetter, nil
		}
		calls := Rehold(*deadLetter.About, deadLetter.Subject)
		if deadLetter.Kind == JobDiscarded || deadLetter.Kind == MovedOutside {
			calls = calls[:1] // These hold no other payment than their own, so they free none.
		}
		if err := postgres.PipelineTx(ctx, tx, calls...); err != nil {
			return DeadLetter{}, fmt.Errorf("write hold of key: %w", err)
		}
		return deadLetter, nil
	}
	_, err = Get(ctx, tx, d.DeadLetter)
	return DeadLetter{}, cmp.Or(err, ErrConflict)
}

// AuditRefusedTx writes a refused decision to the dead letter's audit trail. The dead letter must exist. detail says
// why it was refused, and is cut at 500 characters.
func AuditRefusedTx(ctx context.Context, tx pgx.Tx, d Decision, detail string) error {
	err := dbsqlc.New(tx).AuditRefused(ctx, dbsqlc.AuditRefusedParams{
		DeadLetterID: d.DeadLetter, DeadLetterVersion: d.Version, Actor: d.Actor, Action: string(d.Action),
		Reason: d.Reason,
		Detail: Clip(detail),
	})
	if err != nil {
		return fmt.Errorf("audit refusal: %w", err)
	}
	return nil
}

// AuditEntry is one row of a dead letter's audit trail. The operator's API shows it.
type AuditEntry struct {
	At      time.Time `json:"at"`
	Actor   string    `json:"actor"`
	Action  Action    `json:"action"`
	Reason  string    `json:"reason"`
	Version int32     `json:"version"` // the version of the dead letter that the operator has sent
	Outcome string    `json:"outcome"` // done, or refused
	Detail  string    `json:"detail,omitempty"`
}

// maxAuditTrail bounds the entries that are read. Of a longer audit trail, the oldest entries are read.
const maxAuditTrail = 200

// AuditTrail reads the operators' decisions about a dead letter, with those that were refused, oldest first.
func AuditTrail(ctx context.Context, db *postgres.DB, id uuid.UUID) ([]AuditEntry, error) {
	rows, err := dbsqlc.New(db.Reader()).ListActions(ctx,
		dbsqlc.ListActionsParams{DeadLetterID: id, MaxRows: maxAuditTrail})
	if err != nil {
		return nil, fmt.Errorf("read audit trail: %w", err)
	}
	var trail []AuditEntry
	for _, r := range rows {
		trail = append(trail, AuditEntry{
			At: r.At, Version: r.DeadLetterVersion, Actor: r.Actor, Action: Action(r.Action), Reason: r.Reason,
			Outcome: r.Outcome, Detail: r.Detail,
		})
	}
	return trail, nil
}

// OnKey is what open dead letters say about the key of a dead letter.
type OnKey struct {
	// Other is another open dead letter that holds the key, if there is one. While it is open, the database does not
	// release the key.
	Other *uuid.UUID
	// Charged: money has moved for the dead letter's own payment or refund.
	Charged bool
}

// OpenOnKey is the call that reads what open dead letters say about the key of l, which must be about a key.
func OpenOnKey(l DeadLetter, out *OnKey) postgres.Call {
	p := dbsqlc.OpenOnKeyParams{
		TenantID: &l.About.Tenant, Operation: &l.About.Operation, Key: &l.About.Key, Generation: &l.About.Generation,
		Subject: l.Subject, ID: l.ID,
	}
	return func(ctx context.Context, q postgres.Statement) error {
		row, err := dbsqlc.New(q).OpenOnKey(ctx, p)
		if err != nil {
			return fmt.Errorf("find other dead letters: %w", err)
		}
		*out = OnKey{Charged: row.Charged}
		if len(row.Others) > 0 {
			out.Other = &row.Others[0]
		}
		return nil
	}
}

// Concerns reports whether the dead letter is about this generation of its key, and about this subject. A finding about
// an earlier payment says nothing about the payment that has the key now. It only holds the key, if money moved.
func (l DeadLetter) Concerns(generation int32, subject uuid.UUID) bool {
	return l.About != nil && l.About.Generation == generation && l.Subject != nil &&
		*l.Subject == subject
}

// The reasons why the work of a dead letter cannot be tried again. After ErrQueued, the transaction can only be rolled
// back.
var (
	ErrGone   = errors.New("there is nothing left to try again") // for example, the queue has deleted the job
	ErrQueued = errors.New("an equal job is in the queue")
)
