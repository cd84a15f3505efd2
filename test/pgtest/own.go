package pgtest

import (
	"context"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"

	"payonce/demo/embeddedpg"
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
