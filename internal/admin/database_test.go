package admin

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

func TestRolesThenMigrateThenKeysAsTheMigrator(t *testing.T) {
	t.Parallel()
	url := emptyDatabase(t)
	migrator := pgtest.As(t, url, postgres.Migrator)
	for _, step := range []struct{ args, url string }{
		{"roles", url}, {"migrate", migrator}, {"roles", url}, {"migrate", migrator},
		{"keys create --tenant acme", migrator},
		{"keys list", pgtest.As(t, url, postgres.API)},
	} {
		if _, err := command(t, environment("DATABASE_URL", step.url), strings.Fields(step.args)...); err != nil {
			t.Fatalf("api %s: %v", step.args, err)
		}
	}
}

func TestKeysAreNotForTheRoleThatServes(t *testing.T) {
	t.Parallel()
	getenv := environment("DATABASE_URL", pgtest.As(t, pgtest.NewURL(t), postgres.API))
	for _, args := range []string{"keys create --tenant acme", "keys create --operator"} {
		out, err := command(t, getenv, strings.Fields(args)...)
		if err == nil || !strings.Contains(err.Error(), "DATABASE_URL must be that of payonce_migrator") || out != "" {
			t.Errorf("api %s as payonce_api: %v\n%s", args, err, out)
		}
	}
}

func TestPasswordOfARoleIsASettingOfRolesAlone(t *testing.T) {
	t.Parallel()
	server := pgtest.OwnServer(t, false) // a password is the whole server's
	settings := []string{"DATABASE_URL", server.URL("postgres"), "API_PASSWORD", "one", "RECONCILER_PASSWORD", "two"}
	if _, err := command(t, environment(settings...), "roles"); err != nil {
		t.Fatal(err)
	}
	admin := pgtest.Connect(t, server.URL("postgres"))
	with := pgtest.Values[string](t, admin,
		"SELECT rolname::text FROM pg_authid WHERE rolname LIKE 'payonce_%' AND rolpassword IS NOT NULL ORDER BY rolname")
	if strings.Join(with, " ") != "payonce_api payonce_reconciler" {
		t.Fatalf("passwords were set for %q", with)
	}
	if out, err := command(t, environment(append(settings, "MIGRATOR_PASSWORD", "schlüssel")...),
		"roles"); err == nil || strings.Contains(err.Error()+out, "schl") {
		t.Fatalf("a password that PostgreSQL would have to normalise: %v", err)
	}
}

func TestMigrateBringsAnEmptyDatabaseUpToDateOnceAndAgain(t *testing.T) {
	t.Parallel()
	url := emptyDatabase(t)
	newest, err := postgres.SchemaVersion()
	if err != nil {
		t.Fatal(err)
	}
	var replicas sync.WaitGroup
	for range 3 { // as replicas do that start together
		replicas.Go(func() {
			if _, err := command(t, environment("DATABASE_URL", url), "migrate"); err != nil {
				t.Error(err)
			}
		})
	}
	replicas.Wait()
	out, err := command(t, environment("DATABASE_URL", url), "migrate")
	if want := fmt.Sprintf("The schema is at version %d.\n", newest); err != nil || out != want {
		t.Fatalf("%v\n%s", err, out)
	}
	applied, err := pgtest.Open(t, url, pgtest.Limits()).AppliedVersion(t.Context())
	if err != nil || applied != newest {
		t.Fatalf("schema is at %d, %v; want %d", applied, err, newest)
	}
}

func TestMigrateSaysThatItChangesNothingOfALaterRelease(t *testing.T) {
	t.Parallel()
	url := pgtest.NewURL(t)
	pgtest.Exec(t, pgtest.Connect(t, url), "INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, true)")
	out, err := command(t, environment("DATABASE_URL", url), "migrate")
	if err != nil || out != "The schema is at version 9999, that of a later release. Nothing was changed.\n" {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestMigrateWithoutADatabaseFails(t *testing.T) {
	t.Parallel()
	_, err := command(t, environment("DATABASE_URL", "postgres://u:canary@127.0.0.1:1/none"), "migrate")
	if err == nil || strings.Contains(err.Error(), "canary") {
		t.Fatal(err)
	}
}
