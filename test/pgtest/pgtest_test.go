package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"payonce/demo/embeddedpg"
)

func TestMain(m *testing.M) { Main(m) }

func TestEachTestHasItsOwnMigratedDatabase(t *testing.T) {
	t.Parallel()
	one, other := New(t), New(t)
	for _, pool := range []*pgxpool.Pool{one, other} {
		var migrations int
		if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM goose_db_version").Scan(&migrations); err != nil {
			t.Fatal(err)
		}
		if migrations < 2 {
			t.Errorf("%d migrations applied", migrations)
		}
		if pool.Config().MaxConns != maxConns {
			t.Errorf("MaxConns = %d", pool.Config().MaxConns)
		}
	}
	if _, err := one.Exec(t.Context(), "CREATE TABLE mine ()"); err != nil {
		t.Fatal(err)
	}
	_, err := other.Exec(t.Context(), "SELECT FROM mine")
	if undefined := new(pgconn.PgError); !errors.As(err, &undefined) || undefined.Code != "42P01" {
		t.Errorf("the other database: %v, want no such table", err)
	}
}

func TestDatabaseIsDroppedWithItsTest(t *testing.T) {
	t.Parallel()
	var name string
	t.Run("inner", func(t *testing.T) {
		url := NewURL(t)
		// Still connected at the end, as by a server that a test has left running.
		conn, err := pgx.Connect(context.Background(), url)
		if err != nil {
			t.Fatal(err)
		}
		name = conn.Config().Database
	})
	var left int
	admin, err := pgx.Connect(t.Context(), Server(t).URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Close(context.Background()) }()
	if err := admin.QueryRow(t.Context(), "SELECT count(*) FROM pg_database WHERE datname = $1",
		name).Scan(&left); err != nil {
		t.Fatal(err)
	}
	if name == "" || left != 0 {
		t.Errorf("database %q is still there", name)
	}
}

func TestForgottenConnectionFailsTheTestAndDoesNotHang(t *testing.T) {
	t.Parallel()
	pool := New(t)
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	observer := &failures{TB: t}
	closePool(observer, pool, 50*time.Millisecond)
	if len(observer.reported) != 1 {
		t.Errorf("reported %q", observer.reported)
	}
}

func TestOwnServerSurvivesACrashWhenDurable(t *testing.T) {
	t.Parallel()
	server := OwnServer(t, true)
	url := Migrate(t, server)
	run := func(sql string) {
		t.Helper()
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close(context.Background()) }()
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	run("CREATE TABLE kept ()")
	server.Crash()
	Restart(t, server, true)
	run("SELECT FROM kept, goose_db_version")
}

func TestSweepRemovesOnlyWhatAKilledTestBinaryLeft(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	old := time.Now().Add(-time.Hour)
	make := func(name string, locked, aged bool) *os.File {
		dir := filepath.Join(parent, homePrefix+name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		lock, err := os.Create(filepath.Join(dir, homeLock))
		if err != nil {
			t.Fatal(err)
		}
		if locked {
			if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
				t.Fatal(err)
			}
		}
		if aged {
			if err := os.Chtimes(dir, old, old); err != nil {
				t.Fatal(err)
			}
		}
		t.Cleanup(func() { _ = lock.Close() })
		return lock
	}
	make("dead", false, true)
	make("alive", true, true)
	make("starting", false, false)
	if err := os.Mkdir(filepath.Join(parent, "other"), 0o700); err != nil {
		t.Fatal(err)
	}

	sweep(parent)

	left, err := os.ReadDir(parent)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(left)
	if want := "[d other/ d " + homePrefix + "alive/ d " + homePrefix + "starting/]"; got != want {
		t.Errorf("left: %s, want %s", got, want)
	}
}

// failures records what a test would have failed with.
type failures struct {
	testing.TB
	reported []string
}

func (f *failures) Errorf(format string, args ...any) {
	f.reported = append(f.reported, fmt.Sprintf(format, args...))
}

func TestSeedRunsOnceAndIsInEachDatabase(t *testing.T) {
	t.Parallel()
	var runs int
	seed := func(url string) {
		runs++
		count(t, url, "CREATE TABLE seeds AS SELECT 42 AS n")
	}
	urls := make([]string, 4)
	var all sync.WaitGroup
	for i := range urls {
		all.Go(func() { urls[i] = Seeded(t, t.Name(), seed) })
	}
	all.Wait()
	for _, url := range urls {
		if n := count(t, url, "DELETE FROM seeds"); n != 1 { // only its own
			t.Errorf("%d seeds, want 1", n)
		}
	}
	if runs != 1 {
		t.Errorf("it ran %d times", runs)
	}
}

// count is how many rows a statement has touched.
func count(t *testing.T, url, sql string) int64 {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer func() { _ = conn.Close(context.Background()) }()
	done, err := conn.Exec(t.Context(), sql)
	if err != nil {
		t.Error(err)
	}
	return done.RowsAffected()
}

// scratch is a directory like the one that Share makes.
func scratch(t *testing.T) string {
	t.Helper()
	dir := DataDir(t)
	if err := os.MkdirAll(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestClusterIsPreparedOnceForAllWhoAskAtTheSameTime(t *testing.T) {
	t.Parallel()
	parent := scratch(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			path, err := prepareIn(t.Context(), parent, "v1", empty)
			if err != nil || path != filepath.Join(parent, "empty-v1") {
				t.Errorf("prepared in %s: %v", path, err)
			}
		})
	}
	all.Wait()
	first := identifier(t, filepath.Join(parent, "empty-v1"))
	if _, err := prepareIn(t.Context(), parent, "v1", empty); err != nil {
		t.Fatal(err)
	}
	if again := identifier(t, filepath.Join(parent, "empty-v1")); again != first {
		t.Errorf("prepared twice: %x, then %x", first, again)
	}
}

// identifier tells two clusters apart: initdb gives each one of its own, and writes it at the beginning of this file.
func identifier(t *testing.T, dir string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "pg*", "global", "pg_control"))
	if err != nil || len(found) != 1 {
		t.Fatalf("clusters in %s: %s, %v", dir, found, err)
	}
	control, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	return string(control[:8])
}

func TestUnfinishedClusterIsNotServed(t *testing.T) {
	t.Parallel()
	parent := scratch(t)
	// As a test binary leaves it which was killed while initdb ran.
	left := filepath.Join(parent, "empty-v1.unfinished")
	if err := os.MkdirAll(filepath.Join(left, "pg15", "garbage"), 0o711); err != nil {
		t.Fatal(err)
	}
	path, err := prepareIn(t.Context(), parent, "v1", empty)
	if err != nil {
		t.Fatal(err)
	}
	identifier(t, path)
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what was unfinished is still there: %v", err)
	}
}

func TestMigratedDirHasTheSchemaAndIsClosedToOthers(t *testing.T) {
	t.Parallel()
	dir := MigratedDir(t)
	found, err := filepath.Glob(filepath.Join(dir, "pg*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("clusters in %s: %s, %v", dir, found, err)
	}
	if info, err := os.Stat(found[0]); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the cluster: %v, %v", info, err)
	}
	var told []string
	o := options(dir, true)
	o.Progress = func(line string) { told = append(told, line) }
	server, err := embeddedpg.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	if strings.Contains(strings.Join(told, "\n"), "creating the cluster") {
		t.Errorf("it was not used: %s", told)
	}
	for _, role := range []string{"payonce_api", "payonce_reconciler"} {
		conn, err := pgx.Connect(t.Context(), server.URLAs(role, ownDatabase))
		if err != nil {
			t.Fatal(err)
		}
		var payments int
		if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM payments").Scan(&payments); err != nil {
			t.Errorf("as %s: %v", role, err)
		}
		_ = conn.Close(t.Context())
	}
}

func TestHashFollowsThePrograms(t *testing.T) {
	before, err := schemaHash()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PG_BINDIR", "/elsewhere")
	if after, err := schemaHash(); err != nil || after == before {
		t.Errorf("with other programs, the hash is %s after %s: %v", after, before, err)
	}
}
