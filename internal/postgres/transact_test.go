package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

func insert(ctx context.Context, tx pgx.Tx, sql string) error {
	return postgres.PipelineTx(ctx, tx, execute(sql))
}

func TestTransactionCommitsWhenItsWorkIsDone(t *testing.T) {
	t.Parallel()
	db := open(t, limits())
	err := db.Transact(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		if err := insert(ctx, tx, "INSERT INTO notes VALUES (1)"); err != nil {
			return err
		}
		return insert(ctx, tx, "INSERT INTO notes VALUES (2)")
	})
	if err != nil || notes(t, db) != 2 {
		t.Fatalf("%v, %d notes", err, notes(t, db))
	}
}

func TestWorkThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	db := open(t, limits())
	refusal := errors.New("changed our mind")
	err := db.Transact(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		if err := insert(ctx, tx, "INSERT INTO notes VALUES (1)"); err != nil {
			return err
		}
		return refusal
	})
	if !errors.Is(err, refusal) || postgres.Unavailable(err) || notes(t, db) != 0 {
		t.Fatalf("%v, %d notes", err, notes(t, db))
	}
}

func TestRefusalInsideATransactionKeepsItsConstraint(t *testing.T) {
	t.Parallel()
	db := open(t, limits())
	err := db.Transact(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		return insert(ctx, tx, "INSERT INTO notes VALUES (100)")
	})
	if !postgres.Violates(err, "notes_n_small") || !postgres.RolledBack(err) || postgres.Unavailable(err) {
		t.Fatal(err)
	}
}

func TestRefusalByTheCommitIsNoDoubt(t *testing.T) {
	t.Parallel()
	db := open(t, limits())
	err := db.Transact(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		return insert(ctx, tx, "INSERT INTO notes VALUES (1, 7), (2, 7)")
	})
	// Of Citus' commits, no error is a proof, whatever it says: it is read back.
	if !postgres.Violates(err, "notes_late_unique") || postgres.RolledBack(err) == pgtest.OnCitus() ||
		notes(t, db) != 0 {
		t.Fatal(err)
	}
}

func TestSessionThatDiesBeforeTheCommitLeavesNothingAndNoDoubt(t *testing.T) {
	t.Parallel()
	db := open(t, limits())
	err := db.Transact(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		if err := insert(ctx, tx, "INSERT INTO notes VALUES (1)"); err != nil {
			return err
		}
		return insert(ctx, tx, "SELECT pg_terminate_backend(pg_backend_pid())")
	})
	if !postgres.Unavailable(err) || !postgres.RolledBack(err) || notes(t, db) != 0 {
		t.Fatalf("%v, %d notes", err, notes(t, db))
	}
}

func TestTransactionEndsWithItsLimit(t *testing.T) {
	t.Parallel()
	db := open(t, limits())
	err := db.TransactFor(t.Context(), 50*time.Millisecond, func(ctx context.Context, tx pgx.Tx) error {
		if err := insert(ctx, tx, "INSERT INTO notes VALUES (1)"); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	})
	if !postgres.Unavailable(err) || notes(t, db) != 0 {
		t.Fatalf("%v, %d notes", err, notes(t, db))
	}
}

func TestTransactionWaitsNoLongerForAConnectionThanAllowed(t *testing.T) {
	t.Parallel()
	l := limits()
	l.MaxConns, l.Acquire = 1, time.Second // the first needs its connection within it, too
	db := open(t, l)
	err := db.Transact(t.Context(), func(ctx context.Context, _ pgx.Tx) error {
		return db.Transact(ctx, func(context.Context, pgx.Tx) error { return nil })
	})
	if !postgres.Unavailable(err) {
		t.Fatal(err)
	}
}
