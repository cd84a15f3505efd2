package embeddedpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"payonce/test/wait"

	"github.com/jackc/pgx/v5"
)

func TestKilledStarterLeavesNothingThatTheNextTripsOver(t *testing.T) {
	if testing.Short() {
		t.Skip("long: it starts servers, kills them, and starts them again")
	}
	t.Parallel()
	dir := newCluster(t)
	cmd, first := starter(t, dir, nil)
	query(t, first.URL, "CREATE TABLE kept AS SELECT generate_series(1, 200000) AS n")

	// Stopped, the server cannot react to its starter's death before the next
	// start has met it.
	if err := syscall.Kill(first.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	var told []string
	second := startIn(t, thisHost(nil), Options{DataDir: dir, Progress: func(line string) {
		told = append(told, line)
		_ = syscall.Kill(first.PID, syscall.SIGCONT)
	}})

	if !gone(first.PID) {
		t.Errorf("server %d of the killed starter still runs", first.PID)
	}
	if got := query(t, second.URL("postgres"), "SELECT count(*) FROM kept"); got != "200000" {
		t.Errorf("kept %s rows, want 200000", got)
	}
	mustContain(t, strings.Join(told, "\n"), "waiting for the server of an earlier start")
}

func TestKilledStarterTakesItsServerAlong(t *testing.T) {
	t.Parallel()
	cmd, first := starter(t, newCluster(t), nil)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	wait.Until(t, "server ends with its starter", func() bool { return gone(first.PID) })
}

func TestOrphanWithClientsIsStopped(t *testing.T) {
	t.Parallel()
	dir := newCluster(t)
	s := startIn(t, thisHost(nil), Options{DataDir: dir})
	cluster := clusterIn(t, dir)
	// A client that stays connected: only a shutdown ends this server.
	client, err := pgx.Connect(t.Context(), s.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close(context.Background()) }()

	if err := awaitPredecessor(t.Context(), cluster, func(string) {}); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the server's end", s.Done())
	if left := attached(t.Context(), cluster, ""); len(left) != 0 {
		t.Errorf("still there: %v", left)
	}
}

func TestShellInTheClusterIsNoServer(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	shell := exec.Command("/bin/sleep", "60")
	shell.Dir = dir
	startForTest(t, shell)
	if pids := attached(t.Context(), dir, ""); len(pids) != 0 {
		t.Errorf("attached = %v", pids)
	}
}

func TestRestartKeepsTheDataTheURLAndTheLock(t *testing.T) {
	t.Parallel()
	dir := newCluster(t)
	s := startIn(t, thisHost(nil), Options{DataDir: dir, Durable: true})
	url := s.URL("postgres")
	query(t, url, "CREATE TABLE kept AS SELECT 42 AS n")
	next, err := s.Restart(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = next.Stop(context.Background()) })
	wait.For(t, "the server's end", s.Done())
	if got := query(t, url, "SELECT n FROM kept"); got != "42" || next.PID() == s.PID() || next.URL("postgres") != url {
		t.Errorf("kept = %s, want 42; process %d after %d at %s", got, next.PID(), s.PID(), next.URL("postgres"))
	}
	if _, err := Start(t.Context(), Options{DataDir: dir}); !errors.Is(err, ErrInUse) {
		t.Errorf("a second starter: %v", err)
	}
	if _, err := s.Restart(t.Context()); !errors.Is(err, errEnded) {
		t.Errorf("restart what has ended: %v", err)
	}
	if err := next.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	startIn(t, thisHost(nil), Options{DataDir: dir}) // the lock is free
}

func TestCrashKeepsWhatWasCommitted(t *testing.T) {
	if testing.Short() {
		t.Skip("long: it starts servers, kills them, and starts them again")
	}
	t.Parallel()
	dir := newCluster(t)
	s := startIn(t, thisHost(nil), Options{DataDir: dir, Durable: true})
	query(t, s.URL("postgres"), "CREATE TABLE kept AS SELECT 42 AS n")
	// A busy backend outlives its postmaster for a moment.
	busy, err := pgx.Connect(t.Context(), s.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = busy.Close(context.Background()) }()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = busy.Exec(context.Background(), "SELECT count(*) FROM generate_series(1, 3000000)")
	}()
	wait.Until(t, "query runs", func() bool {
		return query(t, s.URL("postgres"),
			"SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%3000000)' AND state = 'active'") == "1"
	})
	if err := syscall.Kill(s.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the server's end", s.Done())
	again := startIn(t, thisHost(nil), Options{DataDir: dir, Durable: true})
	if got := query(t, again.URL("postgres"), "SELECT n FROM kept"); got != "42" {
		t.Errorf("kept = %s, want 42", got)
	}
	<-ended
}

// The ids of killed servers get reused, above all in containers, where the same
// few processes start in the same order every time.
func TestReusedProcessIDDoesNotBlockTheStart(t *testing.T) {
	if testing.Short() {
		t.Skip("long: it starts servers, kills them, and starts them again")
	}
	t.Parallel()
	dir := newCluster(t)
	s := startIn(t, thisHost(nil), Options{DataDir: dir})
	cluster := clusterIn(t, dir)
	socketLock := filepath.Join(s.socket.dir, socketFile+".lock")
	// PostgreSQL pays attention to processes of its own user only.
	other := exec.Command("/bin/sleep", "600")
	if os.Geteuid() == 0 {
		uid := uint32(owner(cluster))
		other.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
	startForTest(t, other)
	s.Crash()
	if left := attached(t.Context(), cluster, ""); len(left) > 0 {
		t.Fatalf("processes %v outlived the crash", left)
	}
	for _, path := range []string{filepath.Join(cluster, "postmaster.pid"), socketLock} {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(content), "\n")
		if err := os.WriteFile(path, []byte(strconv.Itoa(other.Process.Pid)+"\n"+rest), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	again := startIn(t, thisHost(nil), Options{DataDir: dir})
	query(t, again.URL("postgres"), "SELECT 1")
	if again.URL("x") != s.URL("x") {
		t.Errorf("URL changed from %s to %s", s.URL("x"), again.URL("x"))
	}
	if gone(other.Process.Pid) {
		t.Error("the innocent process was ended")
	}
}

func TestSecondStarterProcessIsRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("long: a cluster of its own")
	}
	t.Parallel()
	dir := newCluster(t)
	cmd, first := starter(t, dir, nil)
	_, err := Start(t.Context(), Options{DataDir: first.Dir})
	mustContain(t, fmt.Sprint(err), ErrInUse.Error(), "process "+strconv.Itoa(cmd.Process.Pid))
	query(t, first.URL, "SELECT 1")
}

func TestInterruptedStarterStopsItsServer(t *testing.T) {
	t.Parallel()
	cmd, first := starter(t, newCluster(t), nil)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("starter: %v", err)
	}
	if !gone(first.PID) {
		t.Errorf("server %d still runs", first.PID)
	}
}

func startForTest(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

func TestPredecessorThatStaysIsNamed(t *testing.T) {
	t.Parallel()
	dir := newCluster(t)
	s := startIn(t, thisHost(nil), Options{DataDir: dir})
	if err := syscall.Kill(s.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(s.PID(), syscall.SIGCONT) }()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err := awaitPredecessor(ctx, clusterIn(t, dir), func(string) {})
	mustContain(t, fmt.Sprint(err), ErrInUse.Error(), dir)
}
