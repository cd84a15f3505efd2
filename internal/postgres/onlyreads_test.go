package postgres_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

// A session keeps what it was told when it began. So a session from a time when the database only took reads refuses
// writes for as long as it lives, also when the database takes writes again. The pool would keep it for an hour.
func TestSessionThatOnlyReadsIsReplaced(t *testing.T) {
	t.Parallel()
	url := pgtest.NewURL(t)
	outside, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer outside.Close(t.Context())
	set := func(sql string) {
		t.Helper()
		if _, err := outside.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	name := pgx.Identifier{outside.Config().Database}.Sanitize()
	set("CREATE TABLE notes (n int)")
	set("ALTER DATABASE " + name + " SET default_transaction_read_only = on")

	l := limits()
	l.MaxConns = 2
	db, err := postgres.Open(t.Context(), url, l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	write := func() error { return db.Pipeline(t.Context(), calls("INSERT INTO notes VALUES (1)")...) }
	if err := write(); err == nil || !postgres.RolledBack(err) || !postgres.Unavailable(err) ||
		!strings.Contains(err.Error(), "25006") {
		t.Fatalf("written while the database only reads: %v", err)
	}
	if n := notes(t, db); n != 0 { // on a session that is as old
		t.Fatalf("%d notes", n)
	}
	set("ALTER DATABASE " + name + " RESET default_transaction_read_only")
	_ = write() // It may be refused by the session that has read.
	if err := write(); err != nil {
		t.Fatalf("the database takes writes again, and the pool does not: %v", err)
	}
}
