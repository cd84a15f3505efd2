package pgtest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/demo/embeddedpg"
	"payonce/internal/postgres"
	"payonce/test/cituscluster"
)

const (
	// template is the database that is cloned. It is the one of a prepared cluster.
	template = ownDatabase
	// startTimeout leaves time for an installation.
	startTimeout     = 5 * time.Minute
	statementTimeout = time.Minute
)

// Citus is the environment variable that has the shared cluster be one of Citus, with a coordinator, two workers, and
// distributed databases. Tests that start a server of their own are not concerned.
const Citus = "PGTEST_CITUS"

// OnCitus tells whether the shared cluster is one of Citus.
func OnCitus() bool { return os.Getenv(Citus) != "" }

// shared is the cluster of this test binary.
//
//nolint:gochecknoglobals // a test binary has no other place for what its tests share
var shared cluster

type cluster struct {
	once   sync.Once
	server *embeddedpg.Server
	citus  *cituscluster.Cluster // or nil: server is its coordinator
	err    error

	mu    sync.Mutex // one statement at a time: a template that is being copied can't be copied
	admin *pgx.Conn
	next  int
	how   string // of cloning: what comes after CREATE DATABASE name TEMPLATE name
	seeds map[string]*seeded
}

// Server is the cluster that the tests of this binary share, for tests that ask
// about the server itself. Don't stop it.
func Server(t testing.TB) *embeddedpg.Server {
	t.Helper()
	shared.once.Do(func() { shared.err = shared.open() })
	if shared.err != nil {
		t.Fatalf("start PostgreSQL for tests: %v", shared.err)
	}
	return shared.server
}

func (c *cluster) open() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	dir, err := home.newDataDir()
	if err != nil {
		return err
	}
	if OnCitus() {
		if c.citus, err = cituscluster.Start(ctx, inDoubt(options(dir, false))); err != nil {
			return err
		}
		c.server = c.citus.Coordinator()
	} else {
		if err := copyPrepared(ctx, migrated, dir); err != nil {
			return err
		}
		if c.server, err = embeddedpg.Start(ctx, options(dir, false)); err != nil {
			return err
		}
	}
	if c.admin, err = pgx.Connect(ctx, c.server.URL("postgres")); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	if c.citus != nil {
		c.how = " STRATEGY file_copy"
		if err := createOnCitus(ctx, c.citus, template); err != nil {
			return err
		}
		if err := postgres.Distribute(ctx, c.server.URLAs(string(postgres.Migrator), template),
			slog.New(slog.DiscardHandler)); err != nil {
			return err
		}
		return c.citus.Freeze(ctx, template)
	}
	if err := ensureMigrated(ctx, c.server, c.admin); err != nil {
		return err
	}
	// Copies of files come with the caches that PostgreSQL keeps in files, so the first connection need not build them;
	// other strategies exist since version 15.
	const how = "SELECT CASE WHEN current_setting('server_version_num')::int >= 150000 THEN ' STRATEGY file_copy' ELSE '' END"
	if err := c.admin.QueryRow(ctx, how).Scan(&c.how); err != nil {
		return fmt.Errorf("ask for the version: %w", err)
	}
	return c.freeze(template)
}

// freeze has nobody connect to a database, so that it can be cloned.
func (c *cluster) freeze(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.exec("ALTER DATABASE " + name + " ALLOW_CONNECTIONS false IS_TEMPLATE true")
}

// createOnCitus creates an empty database with the roles on a cluster of Citus.
func createOnCitus(ctx context.Context, c *cituscluster.Cluster, name string) error {
	if err := c.CreateDatabase(ctx, name); err != nil {
		return err
	}
	return postgres.CreateRoles(ctx, c.Coordinator().URL(name), nil, slog.New(slog.DiscardHandler))
}

func (c *cluster) close() error {
	if c.server == nil {
		return nil
	}
	ctx, cancel := stopContext()
	defer cancel()
	if c.citus != nil {
		return errors.Join(c.citus.Stop(ctx), c.citus.Remove())
	}
	return errors.Join(c.server.Stop(ctx), os.RemoveAll(c.server.DataDir()))
}

// createDatabase clones a database.
func (c *cluster) createDatabase(from string) (name string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next++
	name = "test_" + strconv.Itoa(c.next)
	if err := c.exec("CREATE DATABASE " + name + " TEMPLATE " + from + c.how); err != nil {
		return "", err
	}
	return name, c.exec(postgres.DatabaseRights(name))
}

// dropDatabase cuts off the clients that are still connected.
func (c *cluster) dropDatabase(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.exec("DROP DATABASE " + name + " WITH (FORCE)")
	// Citus' own process comes back to a database that is still there.
	for tries := 1; err != nil && c.citus != nil && tries < 5; tries++ {
		err = c.exec("DROP DATABASE IF EXISTS " + name + " WITH (FORCE)")
	}
	return err
}

// exec takes no context of a test: one that ends early would take the
// connection of all the others along.
func (c *cluster) exec(sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), statementTimeout)
	defer cancel()
	if c.citus != nil {
		return c.citus.Everywhere(ctx, sql)
	}
	_, err := c.admin.Exec(ctx, sql)
	return err
}

// ensureMigrated does what migrateNew does, unless the cluster is a copy of a prepared one, which has the database.
func ensureMigrated(ctx context.Context, server *embeddedpg.Server, admin *pgx.Conn) error {
	var exists bool
	err := admin.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", ownDatabase).Scan(&exists)
	if err != nil {
		return fmt.Errorf("look for database %s: %w", ownDatabase, err)
	}
	if exists {
		return nil
	}
	return migrateNew(ctx, server, admin, ownDatabase)
}

// migrateNew creates a database with the roles and brings it up to the newest schema, as the migrator.
func migrateNew(ctx context.Context, server *embeddedpg.Server, admin *pgx.Conn, name string) error {
	if _, err := admin.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		return fmt.Errorf("create database %s: %w", name, err)
	}
	log := slog.New(slog.DiscardHandler)
	if err := postgres.CreateRoles(ctx, server.URL(name), nil, log); err != nil {
		return fmt.Errorf("create roles in database %s: %w", name, err)
	}
	if err := postgres.Migrate(ctx, server.URLAs(string(postgres.Migrator), name), log); err != nil {
		return fmt.Errorf("migrate database %s: %w", name, err)
	}
	return nil
}

func options(dataDir string, durable bool) embeddedpg.Options {
	return embeddedpg.Options{
		DataDir: dataDir,
		Durable: durable,
		Install: true,
		// One for all test binaries, so that only the first has to wait for npm.
		CacheDir: filepath.Join(os.TempDir(), "payonce-postgresql-"+strconv.Itoa(os.Geteuid())),
		Settings: map[string]string{
			"max_connections": "300",
			"shared_buffers":  "32MB", // several clusters run at once
			"max_wal_size":    "64MB", // likewise
			"jit":             "off",
			// Each session whose triggers run would load it by itself.
			"shared_preload_libraries": "plpgsql",
		},
	}
}

const stopTimeout = 20 * time.Second

// Main runs the tests of a package, then stops the shared cluster, removes its
// directory and exits.
func Main(m *testing.M) {
	code := m.Run()
	if err := shared.close(); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "pgtest:", err)
		code = max(code, 1)
	}
	if err := home.close(); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "pgtest:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func stopContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), stopTimeout)
}
