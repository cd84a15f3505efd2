package pgtest

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// RefusedBy names the constraint that has refused a statement. It is empty if there is no error. An error of another
// kind fails the test.
func RefusedBy(t testing.TB, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.ConstraintName == "" {
		t.Fatalf("refused by no constraint: %v", err)
	}
	return pg.ConstraintName
}

// TryRolledBack runs a statement in a transaction that never commits.
func TryRolledBack(t testing.TB, pool *pgxpool.Pool, sql string, args ...any) error {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	_, err = tx.Exec(t.Context(), sql, args...)
	return err
}
