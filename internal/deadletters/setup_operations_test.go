package deadletters

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

func (f fixture) list(by Filter) Page {
	f.t.Helper()
	page, err := List(f.t.Context(), f.db, by)
	if err != nil {
		f.t.Fatal(err)
	}
	return page
}

// resolve closes a dead letter in a transaction of its own.
func (f fixture) resolve(id uuid.UUID, version int32, action Action) (DeadLetter, error) {
	f.t.Helper()
	var resolved DeadLetter
	err := f.db.Transact(f.t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		var err error
		resolved, err = ResolveTx(ctx, tx, Decision{DeadLetter: id, Version: version, Action: action, Actor: "ann",
			Reason: "seen to it"})
		return err
	})
	return resolved, err
}

func (f fixture) trail(id uuid.UUID) []AuditEntry {
	f.t.Helper()
	trail, err := AuditTrail(f.t.Context(), f.db, id)
	if err != nil {
		f.t.Fatal(err)
	}
	return trail
}
