package postgres_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"payonce/db/migrations"
	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

// A migration waits for a transaction that has written a table, such as a job of an hour, and everybody who comes after
// the migration waits behind it. So the migration must give up before the payments do. It tries again, and passes when
// the job is over.
func TestMigrationThatWaitsStopsNoPayment(t *testing.T) {
	t.Parallel()
	url := pgtest.NewURL(t)
	goBack(t, url)
	job, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer job.Close(t.Context())
	if _, err := job.Exec(t.Context(), "BEGIN; LOCK TABLE payments IN ROW EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	migrated := make(chan error, 1)
	go func() { migrated <- postgres.Migrate(t.Context(), url, slog.New(slog.DiscardHandler)) }()

	db, err := postgres.Open(t.Context(), url, postgres.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	deadline := time.Now().Add(time.Minute)
	for !read[bool](t, db, `SELECT EXISTS (SELECT FROM pg_locks AS l JOIN pg_database AS d ON d.oid = l.database
		WHERE d.datname = current_database() AND l.relation = 'payments'::regclass AND NOT l.granted)`) {
		if time.Now().After(deadline) {
			t.Fatal("no migration waits for the table")
		}
	}
	if err := db.Pipeline(t.Context(), calls("UPDATE payments SET status = status WHERE false")...); err != nil {
		t.Errorf("a payment waits behind the migration: %v", err)
	}
	if _, err := job.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	if err := <-migrated; err != nil {
		t.Fatalf("the job is over, and the migration has failed: %v", err)
	}
	current(t, url)
}

// goBack takes the newest migration back.
func goBack(t *testing.T, url string) {
	t.Helper()
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	cfg.RuntimeParams["citus.multi_shard_modify_mode"] = "sequential" // or Citus refuses to go on after the first table
	db := stdlib.OpenDB(*cfg)
	defer db.Close()
	provider, err := goose.NewProvider(goose.DialectPostgres, db, migrations.FS(),
		goose.WithDisableGlobalRegistry(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.Down(t.Context()); err != nil {
		t.Fatal(err)
	}
}
