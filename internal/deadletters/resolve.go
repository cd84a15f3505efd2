package deadletters

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters/internal/dbsqlc"
	"payonce/internal/postgres"
)

// Action is what an operator decides.
type Action string

// The four decisions.
const (
	Retry       Action = "retry"        // find out once more
	Executed    Action = "executed"     // the money has moved
	NotExecuted Action = "not_executed" // it has not, and the client may try again
	Dismiss     Action = "dismiss"      // there is nothing to do
)

// Limits of what an operator writes, in characters.
const (
	MaxReason = 500
	MaxActor  = 150
	maxDetail = 500
)

// ErrConflict says that a letter was resolved, or is of another version than the operator has seen: somebody else was first.
var ErrConflict = errors.New("dead letter has another version")

// Resolution is how a letter was closed.
type Resolution struct {
	At     time.Time
	Action Action
	Actor  string
	Reason string
}

// ResolveTx closes the letter, writes its audit row, and takes from its key what this letter alone forbade, in the caller's transaction. Or it fails with
// ErrConflict or ErrNoLetter. A rival's open resolution of the same letter is waited for. The caller has locked the letter's key: a letter that somebody
// opens about the key meanwhile would otherwise be left out.
func ResolveTx(
	ctx context.Context, tx pgx.Tx, id uuid.UUID, version int32, action Action, actor, reason string,
) (Letter, error) {
	q := dbsqlc.New(tx)
	row, err := q.ResolveLetter(ctx, dbsqlc.ResolveLetterParams{
		ID: id, Version: version, Action: string(action), Actor: actor, Reason: reason,
	})
	if !errors.Is(err, pgx.ErrNoRows) {
		if err != nil {
			return Letter{}, fmt.Errorf("resolve dead letter: %w", err)
		}
		letter := letterOf(dbsqlc.GetLetterRow(row))
		return letter, recomputeHold(ctx, q, letter)
	}
	exists, err := q.LetterExists(ctx, id)
	switch {
	case err != nil:
		return Letter{}, fmt.Errorf("find dead letter: %w", err)
	case !exists:
		return Letter{}, ErrNoLetter
	}
	return Letter{}, ErrConflict
}

// recomputeHold writes to the key's row what the letters about it that are still open forbid.
func recomputeHold(ctx context.Context, q *dbsqlc.Queries, l Letter) error {
	if l.About == nil {
		return nil
	}
	err := q.RecomputeHold(ctx, dbsqlc.RecomputeHoldParams{
		TenantID: l.About.Tenant, Operation: l.About.Operation, Key: l.About.Key, Generation: l.About.Generation, Subject: l.Subject,
	})
	if err != nil {
		return fmt.Errorf("recompute hold of key: %w", err)
	}
	return nil
}

// Refusal is an action that was not taken.
type Refusal struct {
	Letter  uuid.UUID
	Version int32 // the one that the operator named
	Action  Action
	Actor   string
	Reason  string // the operator's
	Detail  string // why not; cut at 500 characters
}

// AuditRefusalTx writes a refused action to the letter's audit trail. The letter must exist.
func AuditRefusalTx(ctx context.Context, tx pgx.Tx, r Refusal) error {
	err := dbsqlc.New(tx).AuditRefusal(ctx, dbsqlc.AuditRefusalParams{
		LetterID: r.Letter, LetterVersion: r.Version, Actor: r.Actor, Action: string(r.Action), Reason: r.Reason,
		Detail: cut(r.Detail, maxDetail),
	})
	if err != nil {
		return fmt.Errorf("audit refusal: %w", err)
	}
	return nil
}

// cut keeps the first limit characters.
func cut(s string, limit int) string {
	for i := range s {
		if limit == 0 {
			return s[:i]
		}
		limit--
	}
	return s
}

// Deed is one row of a letter's audit trail.
type Deed struct {
	At      time.Time
	Version int32 // of the letter, as the operator named it
	Actor   string
	Action  Action
	Reason  string
	Done    bool   // or refused
	Detail  string // why it was refused
}

// maxTrail bounds an audit trail. One that is longer is shown from its start.
const maxTrail = 200

// Trail reads what operators did about a letter, and what they were refused, oldest first.
func Trail(ctx context.Context, db *postgres.DB, id uuid.UUID) ([]Deed, error) {
	rows, err := dbsqlc.New(db.Reader()).ListActions(ctx, dbsqlc.ListActionsParams{LetterID: id, MaxRows: maxTrail})
	if err != nil {
		return nil, fmt.Errorf("read audit trail: %w", err)
	}
	var trail []Deed
	for _, r := range rows {
		trail = append(trail, Deed{
			At: r.At, Version: r.LetterVersion, Actor: r.Actor, Action: Action(r.Action), Reason: r.Reason,
			Done: r.Outcome == "done", Detail: r.Detail,
		})
	}
	return trail, nil
}

// OtherOpenTx names another open letter about the same key and subject, if there is one: while it is open, the database does not let the
// key be released. The letter must be about a key.
func OtherOpenTx(ctx context.Context, tx pgx.Tx, l Letter) (id uuid.UUID, found bool, err error) {
	id, err = dbsqlc.New(tx).OtherOpenLetter(ctx, dbsqlc.OtherOpenLetterParams{
		TenantID: &l.About.Tenant, Operation: &l.About.Operation, Key: &l.About.Key, Generation: &l.About.Generation,
		Subject: l.Subject, ID: l.ID,
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return uuid.UUID{}, false, nil
	}
	if err != nil {
		return uuid.UUID{}, false, fmt.Errorf("find other dead letters: %w", err)
	}
	return id, true, nil
}
