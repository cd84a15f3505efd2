package pgtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"payonce/db/migrations"
	"payonce/demo/embeddedpg"
)

// Prepared is the environment variable that names the directory where the test binaries of one run keep the clusters
// that they copy. Without it, each test binary prepares its own.
const Prepared = "PGTEST_PREPARED"

// stage is how far a cluster is prepared. Nearly every test binary needs one of the two. To copy one takes a tenth of
// the CPU time that initdb and the migrations take.
type stage string

const (
	empty    stage = "empty"    // as initdb leaves it
	migrated stage = "migrated" // with the roles, and with a database of the newest schema: ownDatabase
)

// preparing is held while this process looks for a prepared cluster, or makes one. A lock on a file keeps the other
// test binaries out.
//
//nolint:gochecknoglobals // it goes with home
var preparing sync.Mutex

// Share makes the directory that Prepared names, for the tests that this process starts, and returns the function that
// removes it. Only one run uses such a directory, so it cannot have the schema of another tree.
func Share() (remove func() error, err error) {
	if err := home.ensure(); err != nil {
		return nil, err
	}
	return home.close, os.Setenv(Prepared, home.path)
}

// MigratedDir is a path like that of DataDir, for a test that needs a cluster which it does not create itself. The
// cluster has the database of Migrate in it, with the newest schema and the roles.
func MigratedDir(t testing.TB) string {
	t.Helper()
	dir := DataDir(t)
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	if err := copyPrepared(ctx, migrated, dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// copyPrepared makes the data directory dir, with a copy of the prepared cluster.
func copyPrepared(ctx context.Context, s stage, dir string) error {
	source, err := prepare(ctx, s)
	if err != nil {
		return fmt.Errorf("prepare a cluster, %s: %w", s, err)
	}
	if err := copyCluster(source, dir); err != nil {
		return fmt.Errorf("copy a prepared cluster, %s: %w", s, err)
	}
	return nil
}

// prepare returns the data directory of a prepared cluster that nobody starts.
func prepare(ctx context.Context, s stage) (string, error) {
	preparing.Lock()
	defer preparing.Unlock()
	parent := os.Getenv(Prepared)
	if parent == "" {
		if err := home.ensure(); err != nil {
			return "", err
		}
		parent = home.path
	}
	version, err := schemaHash()
	if err != nil {
		return "", err
	}
	return prepareIn(ctx, parent, version, s)
}

// prepareIn makes the cluster unless it is there. A test binary that was killed leaves an unfinished one behind, under
// another name.
func prepareIn(ctx context.Context, parent, version string, s stage) (string, error) {
	path := filepath.Join(parent, string(s)+"-"+version)
	lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return "", err
	}
	defer func() { _ = lock.Close() }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	work := path + ".unfinished"
	if err := os.RemoveAll(work); err != nil {
		return "", err
	}
	if s == migrated {
		source, err := prepareIn(ctx, parent, version, empty)
		if err != nil {
			return "", err
		}
		if err := copyCluster(source, work); err != nil {
			return "", err
		}
	}
	if err := fill(ctx, s, work); err != nil {
		return "", err
	}
	return path, os.Rename(work, path)
}

// fill brings the cluster in a data directory to the stage, and stops it.
func fill(ctx context.Context, s stage, dir string) (err error) {
	server, err := embeddedpg.Start(ctx, options(dir, false))
	if err != nil {
		return err
	}
	defer func() {
		stopping, cancel := stopContext()
		defer cancel()
		err = errors.Join(err, server.Stop(stopping))
		if server.DataDir() != dir { // the server's user cannot enter dir: each test creates its cluster itself
			err = errors.Join(err, os.RemoveAll(server.DataDir()), os.MkdirAll(dir, 0o711))
		}
	}()
	if s != migrated {
		return nil
	}
	admin, err := pgx.Connect(ctx, server.URL("postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = admin.Close(context.WithoutCancel(ctx)) }()
	return ensureMigrated(ctx, server, admin)
}

// copyCluster makes the data directory to, with a copy of the cluster that is in from. The server's user, who becomes
// the owner at the start, must be able to pass. PostgreSQL refuses a cluster that others can enter.
func copyCluster(from, to string) error {
	found, err := filepath.Glob(filepath.Join(from, "pg*", "PG_VERSION"))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o711); err != nil {
		return err
	}
	if err := os.Chmod(to, 0o711); err != nil { // the umask may have closed it
		return err
	}
	for _, file := range found {
		source := filepath.Dir(file)
		cluster := filepath.Join(to, filepath.Base(source))
		if err := os.CopyFS(cluster, os.DirFS(source)); err != nil {
			return err
		}
		if err := os.Chmod(cluster, 0o700); err != nil {
			return err
		}
	}
	return nil
}

// schemaHash tells apart what a cluster depends on: the migrations, and the programs of PostgreSQL.
func schemaHash() (string, error) {
	hash := sha256.New()
	fmt.Fprintf(hash, "%q %q", os.Getenv("PG_BINDIR"), os.Getenv("PATH"))
	err := fs.WalkDir(migrations.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(migrations.FS(), path)
		fmt.Fprintf(hash, "%q %q", path, text)
		return err
	})
	return hex.EncodeToString(hash.Sum(nil)[:8]), err
}
