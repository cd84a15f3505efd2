package pgtest

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"payonce/internal/postgres"
)

// Connect is a connection until the test ends.
func Connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// Open is postgres.Open until the test ends.
func Open(t testing.TB, url string, l postgres.Limits) *postgres.DB {
	t.Helper()
	db, err := postgres.Open(t.Context(), url, l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

// Begin is a transaction that is rolled back when the test ends, if the test has not ended it.
func Begin(t testing.TB, on interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}) pgx.Tx {
	t.Helper()
	tx, err := on.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

// Exec runs a statement straight on the database.
func Exec(t testing.TB, on postgres.DBTX, sql string, args ...any) {
	t.Helper()
	if _, err := on.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// TimePasses runs a statement that no program of ours would, behind the back of the triggers: it plays what time does.
// It waits for no standby: there may be none.
func TimePasses(t testing.TB, on *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	tx := Begin(t, on)
	Exec(t, tx, "SET LOCAL session_replication_role = replica; SET LOCAL synchronous_commit = local")
	Exec(t, tx, sql, args...)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// Value is the one value that a query returns.
func Value[T any](t testing.TB, on postgres.DBTX, sql string, args ...any) (value T) {
	t.Helper()
	if err := on.QueryRow(t.Context(), sql, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

// Values are those of the one column that a query returns.
func Values[T any](t testing.TB, on postgres.DBTX, sql string, args ...any) (values []T) {
	t.Helper()
	rows, err := on.Query(t.Context(), sql, args...)
	if err == nil {
		values, err = pgx.CollectRows(rows, pgx.RowTo[T])
	}
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return values
}

// AwaitLock returns once a session of this database waits for a lock.
func AwaitLock(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for waiting := false; !waiting; {
		if err := pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock')`).Scan(&waiting); err != nil {
			t.Fatalf("nobody waits for a lock: %v", err)
		}
	}
}

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

// WantReturned runs a call whose statement fails, and checks that the call returns the error. An error that a call
// keeps for itself comes out of the commit instead. There, nobody knows whether the transaction was rolled back, and
// judge does not learn which constraint has refused the step.
func WantReturned(t testing.TB, db *postgres.DB, name string, call postgres.Call) {
	t.Helper()
	var returned error
	err := db.Pipeline(t.Context(), func(ctx context.Context, q postgres.Statement) error {
		returned = call(ctx, q)
		return returned
	})
	if returned == nil || !postgres.RolledBack(err) {
		t.Errorf("%s returns %v, the transaction %v", name, returned, err)
	}
}

// Overheard takes the place of a connection of the generated queries, and keeps
// the statement that it was asked, so that a test can explain it. Every answer
// is an error.
type Overheard struct{ SQL string }

var errOnlyListening = errors.New("only listening")

// Exec keeps the statement.
func (o *Overheard) Exec(_ context.Context, sql string, _ ...any) (pgconn.CommandTag, error) {
	o.SQL = sql
	return pgconn.CommandTag{}, errOnlyListening
}

// Query keeps the statement.
func (o *Overheard) Query(_ context.Context, sql string, _ ...any) (pgx.Rows, error) {
	o.SQL = sql
	return nil, errOnlyListening
}

// QueryRow keeps the statement.
func (o *Overheard) QueryRow(_ context.Context, sql string, _ ...any) pgx.Row {
	o.SQL = sql
	return noRow{}
}

type noRow struct{}

func (noRow) Scan(...any) error { return errOnlyListening }
