package postgres_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

// Roles belong to a server, and a server has more than one database, and processes that are running.

func TestRolesOfAnotherInstallationAreNotLetIn(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.exec("postgres", "CREATE DATABASE staging", "CREATE DATABASE production", "CREATE ROLE owner LOGIN",
		"ALTER DATABASE production OWNER TO owner")
	url := c.server.URLAs("owner", "production")
	if err := migrate(t, url); err != nil {
		t.Fatal(err)
	}
	if err := c.create("payonce", "staging"); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	if err := postgres.Migrate(t.Context(), url, slog.New(slog.NewTextHandler(&said, nil))); err != nil {
		t.Fatal(err)
	}
	const rights = `SELECT count(*) FROM (
		SELECT relacl AS acl FROM pg_class UNION ALL SELECT attacl FROM pg_attribute UNION ALL SELECT nspacl FROM pg_namespace
	) AS x, aclexplode(acl) AS a WHERE pg_get_userbyid(a.grantee) LIKE 'payonce\_%'`
	if n := ask[int](c, "payonce", "production", rights); n != 0 {
		t.Errorf("staging's roles have %d rights in production", n)
	}
	if strings.Contains(said.String(), "api roles") {
		t.Errorf("who uses no roles is told to hand over to those of staging: %s", &said)
	}
	c.ready("staging")
	// Until somebody lets them in.
	if err := c.create("payonce", "production"); err != nil {
		t.Fatal(err)
	}
	c.ready("production")
}

// The way that docs/adr/0021 gives to a database with processes that must not stop.
func TestFormerOwnerGoesOnOnlyAsAMemberOfTheMigrator(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.exec("postgres", "CREATE ROLE owner LOGIN")
	const look = "SELECT count(*) FROM payments"
	for _, live := range []string{"cut_off", "goes_on"} {
		c.exec("postgres", "CREATE DATABASE "+live+" OWNER owner")
		if err := migrate(t, c.server.URLAs("owner", live)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.create("payonce", "cut_off"); err != nil {
		t.Fatal(err)
	}
	conn := c.connect(c.server.URLAs("owner", "cut_off"))
	if got := sqlstate(t, conn, look); !strings.HasPrefix(got, "42501 ") {
		t.Errorf("who owned the tables is answered %s", got)
	}
	// The roles exist by now, as if made by hand.
	c.exec("postgres", "GRANT payonce_migrator TO owner")
	if err := c.create("payonce", "goes_on"); err != nil {
		t.Fatal(err)
	}
	ask[int](c, "owner", "goes_on", look)
	// by processes of the former owner's that are started again
	if err := migrate(t, c.server.URLAs("owner", "goes_on")); err != nil {
		t.Fatal(err)
	}
	c.ready("goes_on")
	c.exec("postgres", "REVOKE payonce_migrator FROM owner")
	if got := sqlstate(t, c.connect(c.server.URLAs("owner", "goes_on")), look); !strings.HasPrefix(got, "42501 ") {
		t.Errorf("who is no member any more is answered %s", got)
	}
}

func TestCopyHasTheRightsOfTheDatabase(t *testing.T) {
	t.Parallel()
	url := empty(t)
	name := strings.ToLower(t.Name())
	if err := (&cluster{t, pgtest.Server(t)}).create("payonce", name); err != nil {
		t.Fatal(err)
	}
	const rights = "SELECT datacl::text FROM pg_database WHERE datname = current_database()"
	var made, copied string
	for into, at := range map[*string]string{&made: url, &copied: pgtest.NewURL(t)} {
		conn, err := pgx.Connect(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.QueryRow(t.Context(), rights).Scan(into); err != nil {
			t.Fatal(err)
		}
		_ = conn.Close(t.Context())
	}
	if made != copied {
		t.Errorf("CreateRoles has given %s, DatabaseRights %s", made, copied)
	}
}
