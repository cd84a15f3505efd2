package postgres_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"payonce/internal/postgres"
)

type pair struct {
	A int
	B string
}

// queued is a batch on which generated code has put one query.
func queued(sql string, args ...any) (*pgx.Batch, postgres.Queue) {
	b := &pgx.Batch{}
	q := postgres.On(b)
	var discarded pair
	// As a generated :one method does: what it scans means nothing.
	if err := q.QueryRow(context.Background(), sql, args...).Scan(&discarded.A, &discarded.B); err != nil {
		panic(err)
	}
	return b, q
}

func TestOneGivesTheRow(t *testing.T) {
	t.Parallel()
	db := open(t, limits())
	b, q := queued("SELECT $1::int, $2::text", 1, "x")
	var got *pair
	postgres.One(q, func(row *pair) error { got = row; return nil })
	if err := db.Send(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&pair{1, "x"}, got); diff != "" {
		t.Fatal(diff)
	}
}

func TestOneGivesNilForNoRow(t *testing.T) {
	t.Parallel()
	db := open(t, limits())
	b, q := queued("SELECT 1, 'x' WHERE false")
	called := false
	postgres.One(q, func(row *pair) error { called = row == nil; return nil })
	if err := db.Send(t.Context(), b); err != nil || !called {
		t.Fatalf("told of no row: %v, %v", called, err)
	}
}

func TestOneRefusesASecondRow(t *testing.T) {
	t.Parallel()
	db := open(t, limits())
	b, q := queued("SELECT n, 'x' FROM generate_series(1, 2) AS n")
	postgres.One(q, func(*pair) error { t.Error("called with one of two rows"); return nil })
	if err := db.Send(t.Context(), b); err == nil {
		t.Fatal("two rows were taken for one")
	}
}

func TestScalarGivesTheValueOrNil(t *testing.T) {
	t.Parallel()
	db := open(t, limits())
	var got []*int
	b := &pgx.Batch{}
	q := postgres.On(b)
	for _, sql := range []string{"SELECT 7", "SELECT 7 WHERE false"} {
		_ = q.QueryRow(context.Background(), sql)
		postgres.Scalar(q, func(value *int) error { got = append(got, value); return nil })
	}
	if err := db.Send(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0] == nil || *got[0] != 7 || got[1] != nil {
		t.Fatalf("got %v", got)
	}
}

func TestAffectedCountsTheRowsWritten(t *testing.T) {
	t.Parallel()
	db := open(t, limits())
	var got []int64
	b := &pgx.Batch{}
	q := postgres.On(b)
	for _, sql := range []string{"INSERT INTO notes SELECT generate_series(1, 3)", "DELETE FROM notes WHERE n > 50"} {
		if _, err := q.Exec(context.Background(), sql); err != nil {
			t.Fatal(err)
		}
		postgres.Affected(q, func(rows int64) error { got = append(got, rows); return nil })
	}
	if err := db.Send(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int64{3, 0}, got); diff != "" {
		t.Fatal(diff)
	}
}

// Each callback belongs to the query queued last, whoever queues before and after.
func TestCallbacksRunInOrderAndStopAtAnError(t *testing.T) {
	t.Parallel()
	db := open(t, limits())
	var got []string
	note := func(what string) func(int64) error {
		return func(int64) error { got = append(got, what); return nil }
	}
	b := &pgx.Batch{}
	q := postgres.On(b)
	for _, s := range [][2]string{{"first", "INSERT INTO notes VALUES (1)"}, {"second", "INSERT INTO notes VALUES (100)"}, {"third", "SELECT 1"}} {
		_, _ = q.Exec(context.Background(), s[1])
		postgres.Affected(q, note(s[0]))
	}
	if err := db.Send(t.Context(), b); !postgres.Violates(err, "notes_n_small") {
		t.Fatalf("the error is %v", err)
	}
	if diff := cmp.Diff([]string{"first"}, got); diff != "" {
		t.Fatal(diff)
	}
}

func TestQueryOfManyRowsCannotBeQueued(t *testing.T) {
	t.Parallel()
	b := &pgx.Batch{}
	rows, err := postgres.On(b).Query(context.Background(), "SELECT 1") //nolint:sqlclosecheck // there are none
	if err == nil || rows != nil || b.Len() != 0 {
		t.Fatalf("%d queries queued, %v", b.Len(), err)
	}
}
