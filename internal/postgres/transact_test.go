package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

func insert(ctx context.Context, tx pgx.Tx, sql string) error {
	return postgres.PipelineTx(ctx, tx, execute(sql))
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
	pgtest.NeedsOneServer(t, "one of several cannot say so for the others")
	db := open(t, limits())
	err := db.Transact(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		return insert(ctx, tx, "INSERT INTO notes VALUES (1, 7), (2, 7)")
	})
	if !postgres.Violates(err, "notes_late_unique") || !postgres.RolledBack(err) || notes(t, db) != 0 {
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

// number is a call for one number, as a generated :one method sends it.
func number(out *int, sql string, args ...any) postgres.Call {
	return func(ctx context.Context, q postgres.Statement) error { return q.QueryRow(ctx, sql, args...).Scan(out) }
}

// numbers is a call for many, as a generated :many method sends it.
func numbers(out *[]int, sql string) postgres.Call {
	return func(ctx context.Context, q postgres.Statement) error {
		rows, err := q.Query(ctx, sql)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var n int
			if err := rows.Scan(&n); err != nil {
				return err
			}
			*out = append(*out, n)
		}
		return rows.Err()
	}
}

// affected is a call for the number of rows written, as a generated :execrows method sends it.
func affected(out *int64, sql string) postgres.Call {
	return func(ctx context.Context, q postgres.Statement) error {
		tag, err := q.Exec(ctx, sql)
		*out = tag.RowsAffected()
		return err
	}
}

func TestEachCallHasTheRowsOfItsOwnStatement(t *testing.T) {
	t.Parallel()
	db := open(t, limits())
	var one, none int
	var many []int
	var written int64
	var nothing error
	err := db.Pipeline(t.Context(),
		number(&one, "SELECT $1::int", 7),
		numbers(&many, "SELECT generate_series(1, 3)"),
		affected(&written, "INSERT INTO notes SELECT generate_series(1, 3)"),
		func(ctx context.Context, q postgres.Statement) error {
			if nothing = number(&none, "SELECT 1 WHERE false")(ctx, q); errors.Is(nothing, pgx.ErrNoRows) {
				return nil
			}
			return nothing
		},
		number(&none, "SELECT 8"),
	)
	if err != nil || one != 7 || written != 3 || !errors.Is(nothing, pgx.ErrNoRows) || none != 8 {
		t.Fatalf("%v: %d, %d written, %v, %d", err, one, written, nothing, none)
	}
	if diff := cmp.Diff([]int{1, 2, 3}, many); diff != "" {
		t.Fatal(diff)
	}
}

func TestCallsHaveTheirRowsInOneRoundTrip(t *testing.T) {
	t.Parallel()
	db := open(t, limits())
	var queued, answered int
	call := func(ctx context.Context, q postgres.Statement) error {
		_, err := q.Exec(ctx, "SELECT 1")
		if err != nil {
			queued++
			return err
		}
		if answered++; queued != 3 {
			t.Errorf("answered when %d of 3 statements were queued", queued)
		}
		return nil
	}
	if err := db.Pipeline(t.Context(), call, call, call); err != nil || answered != 3 {
		t.Fatalf("%v, %d answered", err, answered)
	}
}

func TestCallsInsideATransactionSeeIt(t *testing.T) {
	t.Parallel()
	db := open(t, limits())
	var seen, then int
	err := db.Transact(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		if err := postgres.PipelineTx(ctx, tx, execute("INSERT INTO notes VALUES (1)"),
			number(&seen, "SELECT count(*) FROM notes")); err != nil {
			return err
		}
		return tx.QueryRow(ctx, "SELECT count(*) FROM notes").Scan(&then)
	})
	if err != nil || seen != 1 || then != 1 {
		t.Fatalf("%v: %d and %d seen", err, seen, then)
	}
}

func TestCallsAreAnsweredInOrderUntilOneFails(t *testing.T) {
	t.Parallel()
	db := open(t, limits())
	var got []string
	call := func(name, sql string) postgres.Call {
		return func(ctx context.Context, q postgres.Statement) error {
			_, err := q.Exec(ctx, sql)
			if err == nil {
				got = append(got, name)
			}
			return err
		}
	}
	err := db.Pipeline(t.Context(), call("first", "INSERT INTO notes VALUES (1)"),
		call("second", "INSERT INTO notes VALUES (100)"), call("third", "SELECT 1"))
	if !postgres.Violates(err, "notes_n_small") {
		t.Fatalf("the error is %v", err)
	}
	if diff := cmp.Diff([]string{"first"}, got); diff != "" {
		t.Fatal(diff)
	}
}

// What the rows mean must not depend on which call reads which.
func TestCallThatLeavesItsRowsDoesNotShiftThoseOfTheNext(t *testing.T) {
	t.Parallel()
	db := open(t, limits())
	var n int
	err := db.Pipeline(t.Context(), func(ctx context.Context, q postgres.Statement) error {
		_, err := q.Query(ctx, "SELECT generate_series(1, 3)") //nolint:sqlclosecheck // the point of the test
		return err
	}, number(&n, "SELECT 7"))
	if err != nil || n != 7 {
		t.Fatalf("%v, %d", err, n)
	}
}

func TestCallSendsExactlyOneStatement(t *testing.T) {
	t.Parallel()
	db := open(t, limits())
	for name, call := range map[string]postgres.Call{
		"none": func(context.Context, postgres.Statement) error { return nil },
		"two": func(ctx context.Context, q postgres.Statement) error {
			if _, err := q.Exec(ctx, "SELECT 1"); err != nil {
				return err
			}
			_, err := q.Exec(ctx, "INSERT INTO notes VALUES (2)")
			return err
		},
	} {
		if err := db.Pipeline(t.Context(), execute("SELECT 1"), call, execute("SELECT 2")); err == nil ||
			notes(t, db) != 0 {
			t.Errorf("%s: %v, %d notes", name, err, notes(t, db))
		}
	}
}

func TestCallThatFailsBeforeItsStatementHasNothingSent(t *testing.T) {
	t.Parallel()
	db := open(t, limits())
	unwilling := errors.New("unwilling")
	var after error
	err := db.Pipeline(t.Context(), func(ctx context.Context, q postgres.Statement) error {
		_, after = q.Exec(ctx, "INSERT INTO notes VALUES (1)")
		return after
	}, func(context.Context, postgres.Statement) error { return unwilling })
	if !errors.Is(err, unwilling) || after == nil || notes(t, db) != 0 {
		t.Fatalf("%v; the other call: %v; %d notes", err, after, notes(t, db))
	}
}

// A connection that did not come back would be missed by the next reading.
func TestReaderGivesEachConnectionBack(t *testing.T) {
	t.Parallel()
	l := limits()
	l.MaxConns = 1
	db := open(t, l)
	r := db.Reader()
	var n int
	for name, read := range map[string]func() error{
		"row":          func() error { return r.QueryRow(t.Context(), "SELECT 1").Scan(&n) },
		"no row":       func() error { return r.QueryRow(t.Context(), "SELECT 1 WHERE false").Scan(&n) },
		"of many rows": func() error { return r.QueryRow(t.Context(), "SELECT generate_series(1, 9)").Scan(&n) },
		"another type": func() error { return r.QueryRow(t.Context(), "SELECT 'x'").Scan(&n) },
		"no SQL":       func() error { return r.QueryRow(t.Context(), "SELEC").Scan(&n) },
		"fails later": func() error {
			return r.QueryRow(t.Context(), "SELECT 1/(2-i) FROM generate_series(1, 9) AS i").Scan(&n)
		},
		"rows":          func() error { return walkRows(t, r, "SELECT generate_series(1, 9)", 100) },
		"some rows":     func() error { return walkRows(t, r, "SELECT generate_series(1, 9)", 2) },
		"rows and fail": func() error { return walkRows(t, r, "SELECT 1/(5-i) FROM generate_series(1, 9) AS i", 100) },
	} {
		if err := read(); postgres.Unavailable(err) != (name == "another type") {
			t.Errorf("%s: %v", name, err)
		}
		if held := db.Stat().AcquiredConns(); held != 0 {
			t.Errorf("%s: %d connections are held", name, held)
		}
	}
}

// walkRows reads at most so many rows, as generated code does.
func walkRows(t *testing.T, r postgres.Reader, sql string, most int) error {
	t.Helper()
	rows, err := r.Query(t.Context(), sql)
	if err != nil {
		return err
	}
	defer rows.Close()
	var n int
	for ; most > 0 && rows.Next(); most-- {
		if err := rows.Scan(&n); err != nil {
			return err
		}
	}
	return rows.Err()
}

func TestReaderNamesItsFailures(t *testing.T) {
	t.Parallel()
	db := open(t, limits())
	var n int
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx         context.Context //nolint:containedctx // a case of the table
		sql         string
		unavailable bool
	}{
		"refused":   {t.Context(), "SELECT 1/0", false},
		"ended":     {t.Context(), "SELECT pg_terminate_backend(pg_backend_pid())", true},
		"given up":  {gone, "SELECT 1", true},
		"no schema": {t.Context(), "SELECT 1 FROM nowhere", true},
	} {
		err := db.Reader().QueryRow(c.ctx, c.sql).Scan(&n)
		if err == nil || postgres.Unavailable(err) != c.unavailable || !postgres.RolledBack(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := db.Reader().QueryRow(t.Context(), "SELECT n FROM notes").Scan(&n); !errors.Is(err, pgx.ErrNoRows) ||
		postgres.Unavailable(err) {
		t.Errorf("without a row: %v", err)
	}
}

func TestReaderExecutesNothing(t *testing.T) {
	t.Parallel()
	db := open(t, limits())
	if _, err := db.Reader().Exec(t.Context(), "INSERT INTO notes VALUES (1)"); err == nil || notes(t, db) != 0 {
		t.Fatalf("%d notes, %v", notes(t, db), err)
	}
}
