package embeddedpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"payonce/test/wait"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"
)

func TestDataSurvivesARestart(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(newDir(t), "data")
	var told []string
	o := Options{DataDir: dir, Durable: true, Progress: func(line string) { told = append(told, line) }}

	first := startIn(t, thisHost(nil), o)
	query(t, first.URL("postgres"), "CREATE TABLE kept AS SELECT 42 AS n")
	stop(t, first)
	second := startIn(t, thisHost(nil), o)

	if got := query(t, second.URL("postgres"), "SELECT n FROM kept"); got != "42" {
		t.Errorf("kept = %s, want 42", got)
	}
	if first.URL("x") != second.URL("x") {
		t.Errorf("URL changed from %s to %s", first.URL("x"), second.URL("x"))
	}
	if len(told) != 1 || !strings.Contains(told[0], "creating the cluster") {
		t.Errorf("progress = %q, want one line about the cluster's creation", told)
	}
}

func TestServerHasThePromisedSettings(t *testing.T) {
	t.Parallel()
	for _, durable := range []bool{true, false} {
		t.Run(fmt.Sprintf("durable=%t", durable), func(t *testing.T) {
			t.Parallel()
			s := startIn(t, thisHost(nil), Options{
				DataDir: newDir(t), Durable: durable,
				Settings: map[string]string{"max_connections": "33", "listen_addresses": "*"},
			})
			pool, err := pgxpool.New(t.Context(), s.URL("postgres"))
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()

			safety := map[bool]string{true: "on", false: "off"}[durable]
			want := map[string]string{
				"listen_addresses": "", "max_connections": "33", "TimeZone": "UTC",
				"fsync": safety, "synchronous_commit": safety, "full_page_writes": safety,
				"server_version": s.Version(),
			}
			got := map[string]string{}
			for name := range want {
				var value string
				if err := pool.QueryRow(t.Context(), "SELECT current_setting($1)", name).Scan(&value); err != nil {
					t.Fatal(err)
				}
				got[name], _, _ = strings.Cut(value, " ")
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
			const template = `SELECT concat_ws(' ', current_user, pg_encoding_to_char(encoding), datcollate, datctype)
				FROM pg_database WHERE datname = 'template1'`
			if got := query(t, s.URL("postgres"), template); got != "payonce UTF8 C C" {
				t.Errorf("user and locale = %s", got)
			}
			if pid := query(t, s.URL("postgres"), "SELECT pg_read_file('postmaster.pid')"); !strings.HasPrefix(pid,
				strconv.Itoa(s.PID())+"\n") {
				t.Errorf("PID() = %d, postmaster.pid says %q", s.PID(), pid)
			}
		})
	}
}

func TestDatabaseNamesAreEscapedInTheURL(t *testing.T) {
	t.Parallel()
	s := startIn(t, thisHost(nil), Options{DataDir: newCluster(t)})
	query(t, s.URL("postgres"), `CREATE DATABASE "a/b? c%"`)
	if got := query(t, s.URL("a/b? c%"), "SELECT current_database()"); got != "a/b? c%" {
		t.Errorf("connected to %s", got)
	}
}

func TestSecondStarterIsRefused(t *testing.T) {
	t.Parallel()
	dir := newCluster(t)
	s := startIn(t, thisHost(nil), Options{DataDir: dir})

	_, err := Start(t.Context(), Options{DataDir: dir})
	if !errors.Is(err, ErrInUse) {
		t.Fatalf("error = %v, want ErrInUse", err)
	}
	mustContain(t, err.Error(), dir, "process "+strconv.Itoa(os.Getpid()))

	stop(t, s)
	startIn(t, thisHost(nil), Options{DataDir: dir})
}

func TestStopIsIdempotentAndReportsDone(t *testing.T) {
	t.Parallel()
	s := startIn(t, thisHost(nil), Options{DataDir: newCluster(t)})
	select {
	case <-s.Done():
		t.Fatal("Done is closed while the server runs")
	default:
	}
	failed := make(chan error, 4)
	for range cap(failed) {
		go func() { failed <- s.Stop(context.Background()) }()
	}
	for range cap(failed) {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	wait.For(t, "the server's end", s.Done())
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 { // select chooses at random among what is ready
		if err := s.Stop(over); err != nil {
			t.Fatalf("Stop after the end: %v", err)
		}
	}
}

func TestStopWithoutTimeQuitsAtOnceAndLosesNothing(t *testing.T) {
	t.Parallel()
	dir := newCluster(t)
	s := startIn(t, thisHost(nil), Options{DataDir: dir, Durable: true})
	query(t, s.URL("postgres"), "CREATE TABLE kept AS SELECT 42 AS n")

	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Stop(over); err != nil && !errors.Is(err, context.Canceled) { // On a busy machine, it may end in time.
		t.Errorf("error = %v, want context.Canceled", err)
	}
	select {
	case <-s.Done():
	default:
		t.Error("Stop returned before the server had exited")
	}
	again := startIn(t, thisHost(nil), Options{DataDir: dir, Durable: true})
	if got := query(t, again.URL("postgres"), "SELECT n FROM kept"); got != "42" {
		t.Errorf("kept = %s, want 42", got)
	}
}

func TestServerThatGivesUpIsReportedWithItsLog(t *testing.T) {
	t.Parallel()
	dir := newCluster(t)
	_, err := Start(t.Context(), Options{DataDir: dir, Settings: map[string]string{"max_connections": "none"}})
	if err == nil {
		t.Fatal("no error")
	}
	mustContain(t, err.Error(), "gave up", `invalid value for parameter "max_connections"`)
	startIn(t, thisHost(nil), Options{DataDir: dir}) // the lock is free again
}

func TestStartEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	dir := newDir(t)
	_, err := Start(ctx, Options{DataDir: dir, Progress: func(string) { cancel() }})
	if !errors.Is(err, context.Canceled) && !strings.Contains(fmt.Sprint(err), "killed") {
		t.Fatalf("error = %v, want it cancelled", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "lock" {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestUnexpectedEndIsLogged(t *testing.T) {
	t.Parallel()
	logged := make(chan string, 10)
	s := startIn(t, thisHost(nil), Options{DataDir: newCluster(t), Log: recordInto(logged)})
	if err := syscall.Kill(s.PID(), syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the server's end", s.Done())
	if got := <-logged; got != "PostgreSQL exited" {
		t.Errorf("logged %q", got)
	}
}

// The death signal follows the thread that started the server, and a thread ends
// with a goroutine that has locked it.
func TestServerOutlivesTheThreadThatCalledStart(t *testing.T) {
	if testing.Short() {
		t.Skip("long: a cluster of its own")
	}
	t.Parallel()
	var (
		dir   = newCluster(t)
		s     *Server
		err   error
		ended sync.WaitGroup
	)
	ended.Go(func() {
		runtime.LockOSThread()
		s, err = Start(t.Context(), Options{DataDir: dir})
	})
	ended.Wait()
	if err != nil {
		t.Fatal(err)
	}
	query(t, s.URL("postgres"), "SELECT pg_sleep(0.2)")
	stop(t, s)
}

func TestServerRunsInItsOwnSession(t *testing.T) {
	t.Parallel()
	s := startIn(t, thisHost(nil), Options{DataDir: newCluster(t)})
	// Ctrl-C in a terminal goes to a process group; it must not reach the server.
	group, err := syscall.Getpgid(s.PID())
	if err != nil || group == syscall.Getpgrp() {
		t.Errorf("group = %d, %v; ours is %d", group, err, syscall.Getpgrp())
	}
}

func TestValuesStayOutOfTheServersLog(t *testing.T) {
	if testing.Short() {
		t.Skip("long: a cluster of its own")
	}
	t.Parallel()
	s := startIn(t, thisHost(nil), Options{DataDir: newCluster(t)})
	query(t, s.URL("postgres"), "CREATE TABLE keys (key text PRIMARY KEY); INSERT INTO keys VALUES ('secret-key')")
	const violation = `DO $$ BEGIN INSERT INTO keys VALUES ('secret-key'); END $$`
	if err := execute(t, s.URL("postgres"), violation); err == nil {
		t.Fatal("no violation")
	}
	stop(t, s)
	log, err := os.ReadFile(s.logPath)
	if err != nil {
		t.Fatal(err)
	}
	mustContain(t, string(log), "violates unique constraint")
	if strings.Contains(string(log), "secret-key") {
		t.Errorf("log holds the value:\n%s", log)
	}
}

func TestUnusualCharactersInThePathDoNotMatter(t *testing.T) {
	if testing.Short() {
		t.Skip("long: a cluster of its own")
	}
	t.Parallel()
	s := startIn(t, thisHost(nil), Options{DataDir: filepath.Join(newDir(t), "a b+c ключ'%20")})
	if got := query(t, s.URL("postgres"), "SELECT 42"); got != "42" {
		t.Errorf("got %s, want 42", got)
	}
}

func TestFileInPlaceOfTheDirectoryIsAnErrorAndNotReplaced(t *testing.T) {
	t.Parallel()
	file := filepath.Join(newDir(t), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "below")} {
		_, err := start(t.Context(), thisHost(nil), Options{DataDir: dir})
		if err == nil || !strings.Contains(err.Error(), file+" is not a directory") {
			t.Errorf("data directory %s: %v", dir, err)
		}
	}
}
