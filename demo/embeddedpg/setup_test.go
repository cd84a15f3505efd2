package embeddedpg

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// helperEnv makes the test binary a starter of its own, for tests that kill one.
	helperEnv = "EMBEDDEDPG_TEST_STARTER"
	// noNamespacesEnv has a starter that is root of a user namespace forbid others.
	noNamespacesEnv = "EMBEDDEDPG_TEST_NO_NAMESPACES"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(helperEnv); dir != "" {
		os.Exit(runStarter(dir))
	}
	code := m.Run()
	if err := os.RemoveAll(pristine.dir); err != nil {
		code = max(code, 1)
	}
	os.Exit(code)
}

// pristine is a data directory with a cluster that no test has changed. Copying
// it takes a fifth of the time of initdb.
var pristine struct {
	once sync.Once
	dir  string
	err  error
}

// newCluster makes a directory like newDir, with a cluster in it.
func newCluster(t *testing.T) string {
	t.Helper()
	pristine.once.Do(func() { pristine.dir, pristine.err = makePristine() })
	if pristine.err != nil {
		t.Fatal(pristine.err)
	}
	source, dir := clusterIn(t, pristine.dir), newDir(t)
	cluster := filepath.Join(dir, filepath.Base(source))
	if err := os.CopyFS(cluster, os.DirFS(source)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(cluster, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func makePristine() (string, error) {
	dir, err := os.MkdirTemp(ScratchDir(), "epg-")
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := Start(ctx, Options{DataDir: dir})
	if err != nil {
		return dir, err
	}
	return dir, s.Stop(ctx)
}

// unnamed is a user id that no machine gives a name to.
const unnamed = 54321

// report is what a starter process prints once its server is up.
type report struct {
	PID int
	URL string
	Dir string
	Err string
}

// runStarter starts a server and waits to be killed, or for SIGINT.
func runStarter(dir string) int {
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	if os.Getenv(noNamespacesEnv) != "" {
		if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0); err != nil {
			_ = json.NewEncoder(os.Stdout).Encode(report{Err: err.Error()})
			return 1
		}
	}
	s, err := Start(context.Background(), Options{DataDir: dir})
	if err != nil {
		_ = json.NewEncoder(os.Stdout).Encode(report{Err: err.Error()})
		return 1
	}
	_ = json.NewEncoder(os.Stdout).Encode(report{PID: s.PID(), URL: s.URL("postgres"), Dir: s.DataDir()})
	<-interrupted
	if err := s.Stop(context.Background()); err != nil {
		return 1
	}
	return 0
}

// newDir makes a short directory that the server's user can enter. t.TempDir is
// closed to others.
func newDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(ScratchDir(), "epg-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove %s: %v", dir, err)
		}
	})
	return dir
}

// startIn starts a server that ends with the test.
func startIn(t *testing.T, h host, o Options) *Server {
	t.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	s, err := start(t.Context(), h, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return s
}

func stop(t *testing.T, s *Server) {
	t.Helper()
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// query runs SQL and returns the first column of its first row as text.
func query(t *testing.T, url, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	rows, err := conn.Query(t.Context(), sql, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		t.Fatal(err)
	}
	values, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
		all, err := row.Values()
		if err != nil || len(all) == 0 {
			return "", err
		}
		return fmt.Sprint(all[0]), nil
	})
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

func clusterIn(t *testing.T, dir string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "pg*", "PG_VERSION"))
	if err != nil || len(found) != 1 {
		t.Fatalf("clusters in %s: %q, %v", dir, found, err)
	}
	return filepath.Dir(found[0])
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

func mustContain(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q lacks %q", text, part)
		}
	}
}
