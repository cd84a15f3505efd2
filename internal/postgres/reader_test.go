package postgres_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"payonce/internal/postgres"
)

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
