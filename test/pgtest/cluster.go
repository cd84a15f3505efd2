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
)

const (
	// template is the database that is cloned. It is the one of a prepared cluster.
	template = ownDatabase
	// startTimeout leaves time for an installation.
	startTimeout     = 5 * time.Minute
	statementTimeout = time.Minute
)

// shared is the cluster of this test binary.
//
//nolint:gochecknoglobals // a test binary has no other place for what its tests share
var shared cluster

type cluster struct {
	once    sync.Once
	servers servers
	err     error

	mu    sync.Mutex // one statement at a time: a template that is being copied can't be copied
	next  int
	how   string // of cloning: what comes after CREATE DATABASE name TEMPLATE name
	seeds map[string]*seeded
}

// servers are one PostgreSQL server, or several that share the rows of tenants (several.go).
type servers interface {
	first() *embeddedpg.Server // that tests connect to
	everywhere(ctx context.Context, sql string) error
	freeze(ctx context.Context, database string) error // nobody connects to it, so that it can be cloned
	close(ctx context.Context) error
}

// Server is the cluster that the tests of this binary share, for tests that ask
// about the server itself. Don't stop it.
func Server(t testing.TB) *embeddedpg.Server {
	t.Helper()
	shared.once.Do(func() { shared.err = shared.open() })
	if shared.err != nil {
		t.Fatalf("start PostgreSQL for tests: %v", shared.err)
	}
	return shared.servers.first()
}

func (c *cluster) open() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	dir, err := home.newDataDir()
	if err != nil {
		return err
	}
	if c.servers, c.how, err = ByServers(startOne, startSeveral)(ctx, dir); err != nil {
		return err
	}
	return c.servers.freeze(ctx, template)
}

type oneServer struct {
	server *embeddedpg.Server
	admin  *pgx.Conn
}

// startOne starts a server that has the template.
func startOne(ctx context.Context, dir string) (_ servers, how string, err error) {
	if err := copyPrepared(ctx, migrated, dir); err != nil {
		return nil, "", err
	}
	s := oneServer{}
	if s.server, err = embeddedpg.Start(ctx, options(dir, false)); err != nil {
		return nil, "", err
	}
	if s.admin, err = pgx.Connect(ctx, s.server.URL("postgres")); err != nil {
		return s, "", fmt.Errorf("connect: %w", err)
	}
	if err := ensureMigrated(ctx, s.server, s.admin); err != nil {
		return s, "", err
	}
	// Copies of files come with the caches that PostgreSQL keeps in files, so the first connection need not build them;
	// other strategies exist since version 15.
	const ask = "SELECT CASE WHEN current_setting('server_version_num')::int >= 150000 THEN ' STRATEGY file_copy' ELSE '' END"
	if err := s.admin.QueryRow(ctx, ask).Scan(&how); err != nil {
		return s, "", fmt.Errorf("ask for the version: %w", err)
	}
	return s, how, nil
}

func (s oneServer) first() *embeddedpg.Server { return s.server }

func (s oneServer) everywhere(ctx context.Context, sql string) error {
	_, err := s.admin.Exec(ctx, sql)
	return err
}

func (s oneServer) freeze(ctx context.Context, database string) error {
	return s.everywhere(ctx, "ALTER DATABASE "+database+" ALLOW_CONNECTIONS false IS_TEMPLATE true")
}

func (s oneServer) close(ctx context.Context) error {
	return errors.Join(s.server.Stop(ctx), os.RemoveAll(s.server.DataDir()))
}

func (c *cluster) close() error {
	if c.servers == nil {
		return nil
	}
	ctx, cancel := stopContext()
	defer cancel()
	return c.servers.close(ctx)
}

// freeze has nobody connect to a database, so that it can be cloned.
func (c *cluster) freeze(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), statementTimeout)
	defer cancel()
	return c.servers.freeze(ctx, name)
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
	// A process of the server's own may come back to a database that is still there.
	for tries := 1; err != nil && tries < 5; tries++ {
		err = c.exec("DROP DATABASE IF EXISTS " + name + " WITH (FORCE)")
	}
	return err
}

// exec takes no context of a test: one that ends early would take the
// connection of all the others along.
func (c *cluster) exec(sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), statementTimeout)
	defer cancel()
	return c.servers.everywhere(ctx, sql)
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
