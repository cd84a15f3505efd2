package admin

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

func TestInstallationKeepsItsIDUntilItIsRenewed(t *testing.T) {
	t.Parallel()
	url := emptyDatabase(t)
	run := func(args string) string {
		t.Helper()
		out, err := command(t, environment("DATABASE_URL", url), strings.Fields(args)...)
		if err != nil {
			t.Fatalf("api %s: %v", args, err)
		}
		return out
	}
	run("migrate")
	first := run("installation show")
	run("migrate")
	if again := run("installation show"); again != first || !idForm.MatchString(first) {
		t.Fatalf("the id is %q, and then %q", first, again)
	}
	said := run("installation renew")
	renewed := run("installation show")
	if renewed == first || !strings.HasPrefix(said, "This installation was "+strings.TrimSpace(first)+", and is "+
		strings.TrimSpace(renewed)+".") {
		t.Fatalf("the id was %q, and is %q; the command says %s", first, renewed, said)
	}
	run("migrate")
	if again := run("installation show"); again != renewed {
		t.Errorf("a migration has changed the id to %q", again)
	}
	run("installation set " + first)
	if said := run("installation set " + first); !strings.HasSuffix(said, " already.\n") {
		t.Errorf("the same id once more: %s", said)
	}
	if again := run("installation show"); again != first {
		t.Errorf("the id that was set is %q, want %q", again, first)
	}
	_, err := command(t, environment("DATABASE_URL", url), "installation", "set", "production")
	if err == nil || !strings.Contains(err.Error(), `"production" is no id of an installation`) {
		t.Errorf("an id that is none: %v", err)
	}
}

func TestDatabaseIsOneInstallation(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for _, second := range []string{"true", "false"} {
		_, err := pool.Exec(t.Context(), "INSERT INTO installation (one) VALUES ($1)", second)
		if refused, ok := errors.AsType[*pgconn.PgError](err); !ok || !strings.HasPrefix(refused.Code, "23") {
			t.Errorf("%s is a second installation: %v", second, err)
		}
	}
}

// Two databases that are made by themselves are two installations.
func TestEachMigratedDatabaseIsAnotherInstallation(t *testing.T) {
	t.Parallel()
	var ids []string
	for range 2 {
		getenv := environment("DATABASE_URL", emptyDatabase(t))
		if _, err := command(t, getenv, "migrate"); err != nil {
			t.Fatal(err)
		}
		id, err := command(t, getenv, "installation", "show")
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if ids[0] == ids[1] {
		t.Errorf("both are %s", ids[0])
	}
}

// The processes read who they are. Only the owner of the tables decides it.
func TestInstallationIsForTheProcessesToReadAlone(t *testing.T) {
	t.Parallel()
	url := pgtest.NewURL(t)
	for _, role := range []postgres.Role{postgres.API, postgres.Reconciler} {
		own := pgtest.As(t, url, role)
		if id, err := command(t, environment("DATABASE_URL", own), "installation", "show"); err != nil || id == "" {
			t.Errorf("%s: %q, %v", role, id, err)
		}
		out, err := command(t, environment("DATABASE_URL", own), "installation", "renew")
		if err == nil || !strings.Contains(err.Error(), "DATABASE_URL must be that of payonce_migrator") || out != "" {
			t.Errorf("%s renews: %v\n%s", role, err, out)
		}
		for _, change := range []string{"DELETE FROM installation", "INSERT INTO installation DEFAULT VALUES",
			"UPDATE installation SET one = true"} {
			_, err := pgtest.Connect(t, own).Exec(t.Context(), change)
			if refused, ok := errors.AsType[*pgconn.PgError](err); !ok || refused.Code != "42501" {
				t.Errorf("%s: %s: %v", role, change, err)
			}
		}
	}
}
