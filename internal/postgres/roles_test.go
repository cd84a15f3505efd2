package postgres_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"payonce/demo/embeddedpg"
	"payonce/internal/postgres"
	"payonce/test/pgtest"
	"payonce/test/wait"
)

// cluster is a server of the test's own, without roles: those are a server's, not a database's.
type cluster struct {
	t      *testing.T
	server *embeddedpg.Server
}

func newCluster(t *testing.T) *cluster { return &cluster{t, pgtest.OwnServer(t, false)} }

// exec runs statements one by one as the superuser.
func (c *cluster) exec(database string, statements ...string) {
	c.t.Helper()
	conn := pgtest.Connect(c.t, c.server.URL(database))
	for _, sql := range statements {
		pgtest.Exec(c.t, conn, sql)
	}
}

func (c *cluster) create(role, database string) error {
	return postgres.CreateRoles(c.t.Context(), c.server.URLAs(role, database), nil, slog.New(slog.DiscardHandler))
}

// ask reads one value as a role.
func ask[T any](c *cluster, role, database, sql string) T {
	c.t.Helper()
	return pgtest.Value[T](c.t, pgtest.Connect(c.t, c.server.URLAs(role, database)), sql)
}

// ready migrates as the migrator and checks that both processes' roles can look.
func (c *cluster) ready(database string) {
	c.t.Helper()
	if err := migrate(c.t, c.server.URLAs(string(postgres.Migrator), database)); err != nil {
		c.t.Fatal(err)
	}
	for _, role := range []postgres.Role{postgres.API, postgres.Reconciler} {
		ask[int](c, string(role), database, "SELECT count(*) FROM payments")
	}
	if owners := ask[string](c, "payonce", database, owners); owners != string(postgres.Migrator) {
		c.t.Fatalf("the schema belongs to %s", owners)
	}
}

// owners of all that is in the schema.
const owners = `SELECT string_agg(DISTINCT pg_get_userbyid(o), ' ') FROM (
	SELECT relowner AS o FROM pg_class WHERE relnamespace = 'public'::regnamespace
	UNION SELECT proowner FROM pg_proc WHERE pronamespace = 'public'::regnamespace
	UNION SELECT typowner FROM pg_type WHERE typnamespace = 'public'::regnamespace) AS x`

func TestDatabaseOfOneUserNeedsNoRolesAndCanHaveThemLater(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.exec("postgres", "CREATE DATABASE plain")
	if err := migrate(t, c.server.URL("plain")); err != nil {
		t.Fatal(err)
	}
	current(t, c.server.URL("plain"))
	if n := ask[int](c, "payonce", "plain", "SELECT count(*) FROM pg_roles WHERE rolname LIKE 'payonce_%'"); n != 0 {
		t.Fatalf("migrating has made %d roles", n)
	}
	// What belongs to an extension, or to a user who never migrated, stays where it is.
	c.exec("plain", "CREATE TABLE theirs ()", "ALTER EXTENSION plpgsql ADD TABLE theirs", "CREATE ROLE other",
		"CREATE TABLE others ()", "ALTER TABLE others OWNER TO other")
	for range 2 {
		if err := c.create("payonce", "plain"); err != nil {
			t.Fatal(err)
		}
	}
	kept := ask[string](c, "payonce", "plain",
		"SELECT string_agg(tableowner, ' ' ORDER BY tablename) FROM pg_tables WHERE tablename IN ('theirs', 'others')")
	if kept != "other payonce" {
		t.Errorf("others and theirs belong to %s", kept)
	}
	c.exec("plain", "ALTER EXTENSION plpgsql DROP TABLE theirs", "DROP TABLE theirs, others")
	c.ready("plain")
}

func TestMigrationByAnotherRoleIsReportedAndRepaired(t *testing.T) {
	if testing.Short() {
		t.Skip("long: it migrates databases of its own")
	}
	t.Parallel()
	url := empty(t)
	name := strings.ToLower(t.Name())
	c := &cluster{t, pgtest.Server(t)}
	if err := c.create("payonce", name); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	if err := postgres.Migrate(t.Context(), url, slog.New(slog.NewTextHandler(&said, nil))); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(said.String(), "run api roles to hand it over") {
		t.Errorf("it said %s", &said)
	}
	ask[int](c, "payonce_api", name, "SELECT count(*) FROM payments") // the rights are there, whichever role migrates
	// A superuser could take a right on anything from everybody. What is not of who made our tables is none of its
	// business.
	c.exec(name, "SET ROLE payonce_migrator", "CREATE VIEW theirs AS SELECT 1 AS one",
		"GRANT SELECT ON theirs TO PUBLIC")
	if err := migrate(t, url); err != nil {
		t.Fatal(err)
	}
	ask[int](c, "payonce_api", name, "SELECT one FROM theirs")
	if err := c.create("payonce", name); err != nil {
		t.Fatal(err)
	}
	c.ready(name)
}

func TestRolesMayBeMadeInManyDatabasesAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("long: it migrates databases of its own")
	}
	t.Parallel()
	c := newCluster(t)
	var all sync.WaitGroup
	failed := make([]error, 16)
	for i := range failed {
		if i < 4 {
			c.exec("postgres", fmt.Sprintf("CREATE DATABASE many_%d", i))
		}
	}
	c.exec("many_1", "CREATE TABLE not_ours ()")
	for i := range failed {
		all.Go(func() { failed[i] = c.create("payonce", fmt.Sprintf("many_%d", i%4)) })
	}
	all.Wait()
	if err := errors.Join(failed...); err != nil {
		t.Fatal(err)
	}
	// A database without our schema is not taken over, whatever is in it.
	if owner := ask[string](c, "payonce", "many_1",
		"SELECT tableowner FROM pg_tables WHERE tablename = 'not_ours'"); owner != "payonce" {
		t.Errorf("somebody else's table belongs to %s", owner)
	}
	c.ready("many_0")
}

// As managed servers have it: an administrator who is no superuser.
func TestAdministratorNeedNotBeSuperuser(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.exec("postgres", "CREATE ROLE admin LOGIN CREATEROLE CREATEDB", "CREATE DATABASE managed OWNER admin")
	if err := migrate(t, c.server.URLAs("admin", "managed")); err != nil {
		t.Fatal(err)
	}
	if err := c.create("admin", "managed"); err != nil {
		t.Fatal(err)
	}
	c.ready("managed")
}

// As others have it: the roles come from elsewhere, and nobody here may make any.
func TestRolesThatExistNeedNobodyWhoMayMakeThem(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.exec("postgres", "CREATE ROLE payonce_migrator LOGIN", "CREATE ROLE payonce_api LOGIN",
		"CREATE ROLE payonce_reconciler LOGIN",
		"CREATE ROLE owner LOGIN", "CREATE DATABASE given OWNER owner")
	if err := c.create("payonce_migrator", "given"); err == nil ||
		!strings.Contains(err.Error(), "must own database given") {
		t.Fatalf("who owns nothing has given the database away: %v", err)
	}
	if err := c.create("owner", "given"); err != nil {
		t.Fatal(err)
	}
	c.ready("given")
}

func TestRoleWithMoreThanItsRightsIsRefused(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.exec("postgres", "CREATE DATABASE mine")
	if err := c.create("payonce", "mine"); err != nil {
		t.Fatal(err)
	}
	for _, each := range [][2]string{
		{"ALTER ROLE payonce_api SUPERUSER", "ALTER ROLE payonce_api NOSUPERUSER"},
		{"ALTER ROLE payonce_reconciler BYPASSRLS", "ALTER ROLE payonce_reconciler NOBYPASSRLS"},
		{"ALTER ROLE payonce_migrator CREATEROLE", "ALTER ROLE payonce_migrator NOCREATEROLE"},
		{"GRANT payonce_migrator TO payonce_api", "REVOKE payonce_migrator FROM payonce_api"},
		{"GRANT payonce TO payonce_reconciler", "REVOKE payonce FROM payonce_reconciler"},
		{"GRANT pg_write_all_data TO payonce_reconciler", "REVOKE pg_write_all_data FROM payonce_reconciler"},
		{"GRANT pg_signal_backend TO payonce_api", "REVOKE pg_signal_backend FROM payonce_api"},
		{"GRANT pg_write_server_files TO payonce_api", "REVOKE pg_write_server_files FROM payonce_api"},
		{"CREATE ROLE lent; GRANT pg_read_all_data TO lent; GRANT lent TO payonce_api", "REVOKE lent FROM payonce_api"},
		{"CREATE ROLE copier REPLICATION; GRANT copier TO payonce_api", "REVOKE copier FROM payonce_api"},
		{"ALTER DATABASE mine OWNER TO payonce_api", "ALTER DATABASE mine OWNER TO payonce"},
	} {
		widen, narrow := each[0], each[1]
		c.exec("mine", widen)
		if err := c.create("payonce", "mine"); err == nil ||
			!strings.Contains(err.Error(), "more is granted to payonce_") {
			t.Errorf("%s: %v", widen, err)
		}
		c.exec("mine", narrow)
	}
	c.exec("mine", "CREATE ROLE landlord", "ALTER DATABASE mine OWNER TO landlord", "GRANT landlord TO payonce_api")
	if err := c.create("payonce", "mine"); err == nil ||
		!strings.Contains(err.Error(), "more is granted to payonce_api") {
		t.Errorf("a member of the database's owner: %v", err)
	}
	// such as rds_iam
	c.exec("mine", "REVOKE landlord FROM payonce_api", "CREATE ROLE cloud_login",
		"GRANT cloud_login, pg_monitor TO payonce_api",
		"ALTER DATABASE mine OWNER TO payonce_migrator")
	if err := c.create("payonce", "mine"); err != nil {
		t.Errorf("memberships that widen nothing, and a migrator that owns the database: %v", err)
	}
}

func TestMigrationTakesBackWhatIsNotInTheFiles(t *testing.T) {
	t.Parallel()
	url := empty(t)
	name := strings.ToLower(t.Name())
	c := &cluster{t, pgtest.Server(t)}
	if err := c.create("payonce", name); err != nil {
		t.Fatal(err)
	}
	c.ready(name)
	c.exec(name, "GRANT DELETE ON payments TO payonce_api", "GRANT UPDATE (amount_minor) ON payments TO payonce_api",
		"GRANT ALL ON tenants TO payonce_reconciler",
		"GRANT SELECT ON api_keys TO PUBLIC", "GRANT UPDATE (amount_minor) ON refunds TO PUBLIC",
		// Somebody else's; and an extension's, even if it is ours.
		"CREATE VIEW theirs AS SELECT 1 AS one", "GRANT SELECT ON theirs TO payonce_api, PUBLIC",
		"SET ROLE payonce_migrator", "CREATE VIEW added AS SELECT 1 AS one",
		"GRANT SELECT ON added TO payonce_api, PUBLIC", "RESET ROLE",
		"ALTER EXTENSION plpgsql ADD VIEW added")
	if err := migrate(t, pgtest.As(t, url, postgres.Migrator)); err != nil {
		t.Fatal(err)
	}
	for sql, want := range map[string]bool{
		"SELECT has_table_privilege('payonce_api', 'payments', 'DELETE')":                        false,
		"SELECT has_column_privilege('payonce_api', 'payments', 'amount_minor', 'UPDATE')":       false,
		"SELECT has_column_privilege('payonce_api', 'payments', 'status', 'UPDATE')":             true,
		"SELECT has_table_privilege('payonce_reconciler', 'tenants', 'INSERT')":                  false,
		"SELECT has_table_privilege('payonce_reconciler', 'tenants', 'SELECT')":                  true,
		"SELECT has_table_privilege('payonce_api', 'theirs', 'SELECT')":                          true,
		"SELECT has_table_privilege('payonce_reconciler', 'theirs', 'SELECT')":                   true,
		"SELECT has_table_privilege('payonce_api', 'added', 'SELECT')":                           true,
		"SELECT has_table_privilege('payonce_reconciler', 'added', 'SELECT')":                    true,
		"SELECT has_any_column_privilege('public', 'api_keys', 'SELECT')":                        false,
		"SELECT has_any_column_privilege('public', 'refunds', 'UPDATE')":                         false,
		"SELECT has_database_privilege('payonce_api', current_database(), 'TEMPORARY')":          false,
		"SELECT has_sequence_privilege('payonce_api', 'idempotency_key_events_id_seq', 'USAGE')": false,
	} {
		if got := ask[bool](c, "payonce", name, sql); got != want {
			t.Errorf("%s is %v", sql, got)
		}
	}
}

// locked waits until the server asks payonce_api for a password: it reads its rules some time after it was told to.
func (c *cluster) locked(database string) {
	c.t.Helper()
	wait.Until(c.t, "the server asks for a password", func() bool {
		conn, err := pgx.Connect(c.t.Context(), c.server.URLAs("payonce_api", database))
		if err == nil {
			_ = conn.Close(c.t.Context())
		}
		return err != nil
	})
}

// What the server gets is no password, and yet only the password opens.
func TestPasswordOpensAndIsNotSent(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.exec("postgres", "CREATE DATABASE locked")
	url := c.server.URL("locked")
	passwords := map[postgres.Role]string{postgres.API: `it's "a" $pass\word ~`}
	if err := postgres.CreateRoles(t.Context(), url, passwords, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	rules, err := filepath.Glob(filepath.Join(c.server.DataDir(), "pg*", "pg_hba.conf"))
	if err != nil || len(rules) != 1 {
		t.Fatalf("%v, %q", err, rules)
	}
	if err := os.WriteFile(rules[0], []byte("local all payonce_api scram-sha-256\nlocal all all trust\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	c.exec("locked", "SELECT pg_reload_conf()")
	c.locked("locked")
	for password, want := range map[string]bool{passwords[postgres.API]: true, "wrong": false, "": false} {
		config, err := pgx.ParseConfig(c.server.URLAs("payonce_api", "locked"))
		if err != nil {
			t.Fatal(err)
		}
		config.Password = password
		conn, err := pgx.ConnectConfig(t.Context(), config)
		if err == nil {
			_ = conn.Close(t.Context())
		}
		if (err == nil) != want {
			t.Errorf("%q: %v", password, err)
		}
	}
	if stored := ask[string](c, "payonce", "locked",
		"SELECT rolpassword FROM pg_authid WHERE rolname = 'payonce_api'"); !strings.HasPrefix(
		stored, "SCRAM-SHA-256$4096:") {
		t.Errorf("stored is %q", stored)
	}
	for _, unfit := range []string{"", "pässword", "line\nbreak"} {
		err := postgres.CreateRoles(t.Context(), url, map[postgres.Role]string{postgres.API: unfit},
			slog.New(slog.DiscardHandler))
		if err == nil || !strings.HasPrefix(err.Error(), "password of payonce_api: ") {
			t.Errorf("%q: %v", unfit, err)
		}
	}
}

// Roles belong to a server, and a server has more than one database, and processes that are running.

func TestRolesOfAnotherInstallationAreNotLetIn(t *testing.T) {
	if testing.Short() {
		t.Skip("long: it migrates databases of its own")
	}
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
	if testing.Short() {
		t.Skip("long: it migrates databases of its own")
	}
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
	conn := pgtest.Connect(t, c.server.URLAs("owner", "cut_off"))
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
	if got := sqlstate(t, pgtest.Connect(t, c.server.URLAs("owner", "goes_on")), look); !strings.HasPrefix(got,
		"42501 ") {
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
	made := pgtest.Value[string](t, pgtest.Connect(t, url), rights)
	copied := pgtest.Value[string](t, pgtest.New(t), rights)
	if made != copied {
		t.Errorf("CreateRoles has given %s, DatabaseRights %s", made, copied)
	}
}
