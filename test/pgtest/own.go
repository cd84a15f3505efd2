package pgtest

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"

	"payonce/demo/embeddedpg"
	"payonce/internal/postgres"
	"payonce/test/cituscluster"
)

// ownDatabase is the name of the database that Migrate creates.
const ownDatabase = "payonce"

// DataDir is a path for the data of one test that starts a cluster by other
// means, such as the demo. t.TempDir does not do: it is closed to others, and as
// root the server runs as another user, so the data would end up elsewhere.
func DataDir(t testing.TB) string {
	t.Helper()
	dir, err := home.newDataDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// OwnServer is a cluster for one test, which may kill it. It holds no database
// of ours until Migrate is called.
func OwnServer(t testing.TB, durable bool) *embeddedpg.Server {
	t.Helper()
	dir := DataDir(t)
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	if err := copyPrepared(ctx, empty, dir); err != nil {
		t.Fatal(err)
	}
	return run(t, options(dir, durable))
}

// Restart starts the cluster of a server that has ended once more. Connection
// strings stay valid.
func Restart(t testing.TB, ended *embeddedpg.Server, durable bool) *embeddedpg.Server {
	t.Helper()
	return run(t, options(ended.DataDir(), durable))
}

// Migrate creates a migrated database on a server and returns its connection
// string.
func Migrate(t testing.TB, server *embeddedpg.Server) string {
	t.Helper()
	admin, err := pgx.Connect(t.Context(), server.URL("postgres"))
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	defer func() { _ = admin.Close(context.Background()) }()
	if err := migrateNew(t.Context(), server, admin, ownDatabase); err != nil {
		t.Fatal(err)
	}
	return server.URL(ownDatabase)
}

// run starts a server that ends with the test.
func run(t testing.TB, o embeddedpg.Options) *embeddedpg.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	server, err := embeddedpg.Start(ctx, o)
	if err != nil {
		t.Fatalf("start PostgreSQL of a test: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := stopContext()
		defer cancel()
		if err := server.Stop(ctx); err != nil {
			t.Error(err)
		}
		if err := os.RemoveAll(server.DataDir()); err != nil { // which is elsewhere when TMPDIR is closed
			t.Error(err)
		}
	})
	return server
}

// OwnCitus is a cluster of Citus for one test, which may crash its nodes, and the connection string of a migrated
// database on it, which is not distributed yet. Nobody there decides what is in doubt but the test.
func OwnCitus(t testing.TB) (*cituscluster.Cluster, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	c, err := cituscluster.Start(ctx, inDoubt(options(DataDir(t), false)))
	if err != nil {
		t.Fatalf("start Citus for a test: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := stopContext()
		defer cancel()
		if err := errors.Join(c.Stop(ctx), c.Remove()); err != nil {
			t.Error(err)
		}
	})
	if err := createOnCitus(ctx, c, ownDatabase); err != nil {
		t.Fatal(err)
	}
	if err := postgres.Migrate(ctx, c.Coordinator().URLAs(string(postgres.Migrator), ownDatabase),
		slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if err := c.Everywhere(ctx, postgres.DatabaseRights(ownDatabase)); err != nil {
		t.Fatal(err)
	}
	return c, c.Coordinator().URL(ownDatabase)
}

// Distribute spreads the database of OwnCitus over the workers.
func Distribute(t testing.TB, c *cituscluster.Cluster) error {
	t.Helper()
	return postgres.Distribute(t.Context(), c.Coordinator().URLAs(string(postgres.Migrator), ownDatabase),
		slog.New(slog.DiscardHandler))
}

// inDoubt has a test decide itself what becomes of transactions in doubt. The libraries to load are for Citus to say.
func inDoubt(o embeddedpg.Options) embeddedpg.Options {
	o.Settings["citus.recover_2pc_interval"] = "-1"
	delete(o.Settings, "shared_preload_libraries")
	return o
}
