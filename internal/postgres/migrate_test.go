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

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"payonce/db/migrations"
	"payonce/internal/postgres"
	"payonce/test/pgproxy"
	"payonce/test/pgtest"
	"payonce/test/wait"
)

// empty is the connection string of a database without anything in it.
func empty(t *testing.T) string {
	t.Helper()
	server := pgtest.Server(t)
	// Everything of the test's name that a name in SQL cannot have is a hyphen or a slash.
	name := strings.ToLower(strings.NewReplacer("/", "_", "-", "_").Replace(t.Name()))
	admin := pgtest.Connect(t, server.URL("postgres"))
	pgtest.Exec(t, admin, "CREATE DATABASE "+name)
	t.Cleanup(func() {
		if _, err := admin.Exec(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Error(err)
		}
	})
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
	db := pgtest.Open(t, url, limits())
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
	if testing.Short() {
		t.Skip("long: it migrates databases of its own")
	}
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
	conn := pgtest.Connect(t, url)
	for _, sql := range []string{
		"DELETE FROM goose_db_version WHERE version_id > 8",
		"INSERT INTO goose_db_version (version_id, is_applied) SELECT v, true FROM generate_series(9, 26) AS v",
	} {
		pgtest.Exec(t, conn, sql)
	}
	if err := migrate(t, url); !errors.Is(err, postgres.ErrDevelopmentVersion) ||
		strings.Contains(err.Error(), "goose") {
		t.Errorf("refused with %v", err)
	}
	pgtest.Exec(t, conn, "DELETE FROM goose_db_version WHERE version_id > 9")
	if err := migrate(t, url); !errors.Is(err, postgres.ErrDevelopmentVersion) {
		t.Errorf("one that stopped half way is refused with %v", err)
	}
	pgtest.Exec(t, conn, "UPDATE goose_db_version SET version_id = 101 WHERE version_id = 9")
	if err := migrate(t, url); !errors.Is(err, postgres.ErrDevelopmentVersion) {
		t.Errorf("one that was squashed once is refused with %v", err)
	}
}

// A later release adds files behind ours. Its database is left as it is, also the rights: its processes run.
func TestDatabaseOfALaterReleaseIsLeftAlone(t *testing.T) {
	t.Parallel()
	url := empty(t)
	if err := postgres.CreateRoles(t.Context(), url, nil, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if err := migrate(t, url); err != nil {
		t.Fatal(err)
	}
	conn := pgtest.Connect(t, url)
	pgtest.Exec(t, conn, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, true)")
	pgtest.Exec(t, conn, "GRANT DELETE ON payments TO payonce_api") // what the later release may do
	said := func() string {
		var said strings.Builder
		if err := postgres.Migrate(t.Context(), url, slog.New(slog.NewTextHandler(&said, nil))); err != nil {
			t.Error(err)
		}
		return said.String()
	}
	text := said()
	if !strings.Contains(text, "later release; nothing was changed") || strings.Contains(text, "no rights") {
		t.Errorf("it says %s", text)
	}
	if kept := pgtest.Values[bool](t, conn, "SELECT has_table_privilege('payonce_api', 'payments', 'DELETE')"); !kept[0] {
		t.Error("the later release has lost a right")
	}
	pgtest.Exec(t, conn, "REVOKE ALL ON payments FROM payonce_api") // as after api roles alone, of an older release
	text = said()
	if !strings.Contains(text, "no rights") || !strings.Contains(text, "role=payonce_api") ||
		strings.Contains(text, "role=payonce_reconciler") {
		t.Errorf("payonce_api has no rights, and it says %s", text)
	}
	pgtest.Exec(t, conn, "REVOKE ALL ON SCHEMA public FROM payonce_api") // as where the role is another installation's
	if text := said(); strings.Contains(text, "no rights") {
		t.Errorf("payonce_api does not use this database, and it says %s", text)
	}
}

// All the way down leaves nothing of ours, and the way up is open again.
func TestMigrationsGoDownAndUpAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("long: it migrates databases of its own")
	}
	t.Parallel()
	url := empty(t)
	if err := migrate(t, url); err != nil {
		t.Fatal(err)
	}
	conn := pgtest.Connect(t, url)
	db := stdlib.OpenDB(*conn.Config())
	defer db.Close()
	schema, err := goose.NewProvider(goose.DialectPostgres, db, migrations.FS(), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := schema.DownTo(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	left := pgtest.Value[[]string](t, conn, `SELECT array_agg(name ORDER BY name) FROM (
		SELECT relname::text AS name FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'v')
		UNION ALL SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace) AS things`)
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
	db := pgtest.Open(t, empty(t), limits())
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

// A migration waits for a transaction that has written a table, such as a job of an hour, and everybody who comes after
// the migration waits behind it. So the migration must give up before the payments do. It tries again, and passes when
// the job is over.
func TestMigrationThatWaitsStopsNoPayment(t *testing.T) {
	t.Parallel()
	url := pgtest.NewURL(t)
	goBack(t, url)
	job := pgtest.Connect(t, url)
	pgtest.Exec(t, job, "BEGIN; LOCK TABLE payments IN ROW EXCLUSIVE MODE")
	migrated := make(chan error, 1)
	go func() { migrated <- postgres.Migrate(t.Context(), url, slog.New(slog.DiscardHandler)) }()

	db := pgtest.Open(t, url, postgres.DefaultLimits())
	wait.Until(t, "a migration that waits for the table", func() bool {
		return read[bool](t, db, `SELECT EXISTS (SELECT FROM pg_locks AS l JOIN pg_database AS d ON d.oid = l.database
			WHERE d.datname = current_database() AND l.relation = 'payments'::regclass AND NOT l.granted)`)
	})
	if err := db.Pipeline(t.Context(), calls("UPDATE payments SET status = status WHERE false")...); err != nil {
		t.Errorf("a payment waits behind the migration: %v", err)
	}
	pgtest.Exec(t, job, "COMMIT")
	if err := <-migrated; err != nil {
		t.Fatalf("the job is over, and the migration has failed: %v", err)
	}
	current(t, url)
}

// goBack takes the newest migrations back. The first of them is of a table with a foreign key to payments.
func goBack(t *testing.T, url string) {
	t.Helper()
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	db := stdlib.OpenDB(*cfg)
	defer db.Close()
	provider, err := goose.NewProvider(goose.DialectPostgres, db, migrations.FS(),
		goose.WithDisableGlobalRegistry(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.DownTo(t.Context(), 116); err != nil {
		t.Fatal(err)
	}
}
