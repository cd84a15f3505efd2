package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"payonce/db/migrations"
	"payonce/internal/postgres"
	"payonce/test/pgproxy"
	"payonce/test/pgtest"
)

// empty is the connection string of a database without anything in it.
func empty(t *testing.T) string {
	t.Helper()
	server := pgtest.Server(t)
	// Everything of the test's name that a name in SQL cannot have is a hyphen or a slash.
	name := strings.ToLower(strings.NewReplacer("/", "_", "-", "_").Replace(t.Name()))
	admin := func(sql string) {
		conn, err := pgx.Connect(context.Background(), server.URL("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		if _, err := conn.Exec(context.Background(), sql); err != nil {
			t.Fatal(err)
		}
	}
	admin("CREATE DATABASE " + name)
	t.Cleanup(func() { admin("DROP DATABASE " + name + " WITH (FORCE)") })
	return server.URL(name)
}

func migrate(t *testing.T, url string) error {
	return postgres.Migrate(t.Context(), url, slog.New(slog.DiscardHandler))
}

// current checks that the database has every migration once.
func current(t *testing.T, url string) {
	t.Helper()
	newest, err := postgres.SchemaVersion()
	if err != nil {
		t.Fatal(err)
	}
	db, err := postgres.Open(t.Context(), url, limits())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	applied, err := db.AppliedVersion(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if applied != newest || newest == 0 {
		t.Errorf("schema is at version %d, the newest is %d", applied, newest)
	}
	files, err := fs.Glob(migrations.FS(), "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	if n := read[int64](t, db, "SELECT count(*) FROM goose_db_version WHERE version_id > 0"); n != int64(len(files)) {
		t.Errorf("%d migrations were applied, want %d", n, len(files))
	}
}

func TestManyMayMigrateAtOnce(t *testing.T) {
	t.Parallel()
	url := empty(t)
	failed := make([]error, 4)
	var all sync.WaitGroup
	for i := range failed {
		all.Go(func() { failed[i] = migrate(t, url) })
	}
	all.Wait()
	for i, err := range failed {
		if err != nil {
			t.Errorf("replica %d: %v", i, err)
		}
	}
	current(t, url)
	if err := migrate(t, url); err != nil {
		t.Errorf("again: %v", err)
	}
}

func TestMigrationGoesOnAfterALostAcknowledgement(t *testing.T) {
	t.Parallel()
	for name, action := range map[string]pgproxy.Action{"happened": pgproxy.DropAcknowledgement,
		"did_not": pgproxy.CutBefore} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := empty(t)
			proxy := pgproxy.Start(t, url)
			proxy.OnNext(5, "commit", pgproxy.HoldBefore).Release() // after these
			lost := proxy.On("commit", action)
			if err := migrate(t, proxy.URL()); err == nil {
				t.Fatal("a migration without an acknowledgement counts as done")
			}
			lost.Await(t)
			if err := migrate(t, proxy.URL()); err != nil {
				t.Fatal(err)
			}
			current(t, url)
		})
	}
}

// What the development versions left: River's tables, ours by 18 other files, and goose's list of them.
func TestDatabaseOfADevelopmentVersionIsRefusedInOneSentence(t *testing.T) {
	t.Parallel()
	url := empty(t)
	if err := migrate(t, url); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for _, sql := range []string{
		"DELETE FROM goose_db_version WHERE version_id > 8",
		"INSERT INTO goose_db_version (version_id, is_applied) SELECT v, true FROM generate_series(9, 26) AS v",
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if err := migrate(t, url); !errors.Is(err, postgres.ErrDevelopmentVersion) ||
		strings.Contains(err.Error(), "goose") {
		t.Errorf("refused with %v", err)
	}
	if _, err := conn.Exec(t.Context(), "DELETE FROM goose_db_version WHERE version_id > 9"); err != nil {
		t.Fatal(err)
	}
	if err := migrate(t, url); !errors.Is(err, postgres.ErrDevelopmentVersion) {
		t.Errorf("one that stopped half way is refused with %v", err)
	}
	if _, err := conn.Exec(t.Context(), "UPDATE goose_db_version SET version_id = 101 WHERE version_id = 9"); err != nil {
		t.Fatal(err)
	}
	if err := migrate(t, url); !errors.Is(err, postgres.ErrDevelopmentVersion) {
		t.Errorf("one that was squashed once is refused with %v", err)
	}
}

// A later release adds files behind ours. Its database is left as it is.
func TestDatabaseOfALaterReleaseIsLeftAlone(t *testing.T) {
	t.Parallel()
	url := empty(t)
	if err := migrate(t, url); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(),
		"INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, true)"); err != nil {
		t.Fatal(err)
	}
	if err := migrate(t, url); err != nil {
		t.Error(err)
	}
}

// All the way down leaves nothing of ours, and the way up is open again.
func TestMigrationsGoDownAndUpAgain(t *testing.T) {
	t.Parallel()
	url := empty(t)
	if err := migrate(t, url); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	db := stdlib.OpenDB(*conn.Config())
	defer db.Close()
	schema, err := goose.NewProvider(goose.DialectPostgres, db, migrations.FS(), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := schema.DownTo(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	var left []string
	if err := conn.QueryRow(t.Context(), `SELECT array_agg(name ORDER BY name) FROM (
		SELECT relname::text AS name FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'v')
		UNION ALL SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace) AS things`).Scan(&left); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(left, []string{"goose_db_version"}) {
		t.Errorf("the way down leaves %q", left)
	}
	if err := migrate(t, url); err != nil {
		t.Error(err)
	}
	current(t, url)
}

func TestDatabaseWithoutASchemaHasNoVersion(t *testing.T) {
	t.Parallel()
	db, err := postgres.Open(t.Context(), empty(t), limits())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if v, err := db.AppliedVersion(t.Context()); err == nil {
		t.Fatalf("version %d of nothing", v)
	}
}

func TestMigrateSaysWhatFailed(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"postgres://u:secret@host:notaport/db": "DATABASE_URL cannot be read",
		"postgres://nobody@127.0.0.1:1/none":   "migrate",
	} {
		err := migrate(t, url)
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(fmt.Sprint(err), "secret") {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestOneServerIsNotDistributed(t *testing.T) {
	t.Parallel()
	if pgtest.OnCitus() {
		t.Skip("it is several")
	}
	err := postgres.Distribute(t.Context(), pgtest.NewURL(t), slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "there is nothing to distribute over") {
		t.Error(err)
	}
}

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
