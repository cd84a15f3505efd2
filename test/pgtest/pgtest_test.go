package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
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

func TestManyTestsAtOnceGetTheirDatabases(t *testing.T) {
	t.Parallel()
	var (
		all  sync.WaitGroup
		mu   sync.Mutex
		seen = map[string]bool{}
	)
	for range 20 {
		all.Go(func() {
			url := NewURL(t)
			mu.Lock()
			defer mu.Unlock()
			seen[url] = true
		})
	}
	all.Wait()
	if len(seen) != 20 {
		t.Errorf("%d databases, want 20", len(seen))
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

func TestOwnServerIsNotTheSharedOne(t *testing.T) {
	t.Parallel()
	own := OwnServer(t, false)
	if own.PID() == Server(t).PID() {
		t.Error("the same process")
	}
	if filepath.Dir(own.DataDir()) != home.path {
		t.Errorf("data in %s, want it below %s", own.DataDir(), home.path)
	}
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

func BenchmarkClone(b *testing.B) {
	Server(b)
	for b.Loop() {
		name, err := shared.createDatabase(template)
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := shared.dropDatabase(name); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
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
