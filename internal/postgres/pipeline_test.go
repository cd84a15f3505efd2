package postgres_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"payonce/internal/postgres"
)

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
			nothing = number(&none, "SELECT 1 WHERE false")(ctx, q)
			return nil
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
	var sent, answered int
	call := func(ctx context.Context, q postgres.Statement) error {
		sent++
		_, err := q.Exec(ctx, "SELECT 1")
		if answered++; sent != 3 {
			t.Errorf("answered when %d of 3 statements were sent", sent)
		}
		return err
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
