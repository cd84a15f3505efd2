package supervisor

import (
	"context"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"payonce/demo/embeddedpg"
	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

// before makes the data directory of a demo from before there were roles, and changes it as statements say.
func before(t *testing.T, statements ...string) (dir string) {
	t.Helper()
	server, err := embeddedpg.Start(t.Context(), embeddedpg.Options{DataDir: pgtest.DataDir(t), Durable: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	if err := createDatabase(t.Context(), server.URL("postgres"), databaseName); err != nil {
		t.Fatal(err)
	}
	if err := postgres.Migrate(t.Context(), server.URL(databaseName), slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	conn := pgtest.Connect(t, server.URL(databaseName))
	for _, sql := range statements {
		pgtest.Exec(t, conn, sql)
	}
	if err := conn.Close(t.Context()); err != nil { // An older demo has ended before its server.
		t.Fatal(err)
	}
	return server.DataDir()
}

func TestDemoRunsAsTheRolesAlsoOnOlderData(t *testing.T) {
	if testing.Short() {
		t.Skip("long: one more demo")
	}
	t.Parallel()
	dir := before(t)
	d := startDemo(t, dir)
	if res := sendOnce(t, d.public, survivor, "pm_ok"); res.status != http.StatusCreated {
		t.Fatalf("status %d: %s", res.status, res.body)
	}
	admin := pgtest.Connect(t, "postgres://payonce@/payonce?sslmode=disable&port=5432&host="+
		filepath.Join(dir, "run"))
	want := []string{"payonce_api", "payonce_reconciler"}
	var users []string
	for deadline := time.Now().Add(time.Minute); !slices.Equal(users, want); {
		users = pgtest.Value[[]string](t, admin, `SELECT coalesce(array_agg(DISTINCT usename::text ORDER BY usename::text), '{}') FROM pg_stat_activity
			WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()`)
		if time.Now().After(deadline) {
			t.Fatalf("connected are %q, want %q", users, want)
		}
	}
	owner := pgtest.Value[string](t, admin, "SELECT tableowner FROM pg_tables WHERE tablename = 'payments'")
	if owner != "payonce_migrator" {
		t.Fatalf("payments belong to %s", owner)
	}
}

func TestDataOfADevelopmentVersionNamesTheFolderToRemove(t *testing.T) {
	t.Parallel()
	dir := before(t, "DELETE FROM goose_db_version WHERE version_id > 8",
		"INSERT INTO goose_db_version (version_id, is_applied) SELECT v, true FROM generate_series(9, 26) AS v")
	err := try(t, map[string]string{"DEMO_DATA_DIR": dir})
	want := "the demo's data are of an older development version of Payonce: remove the folder " + dir +
		" and start the demo again"
	if err == nil || err.Error() != want {
		t.Fatalf("refused with %v, want %s", err, want)
	}
}
