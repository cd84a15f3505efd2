package embeddedpg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// quitGrace is how long an immediate end may take before we kill. The server
// itself kills its own children after 5 s.
const quitGrace = 10 * time.Second

// Server is a running cluster.
type Server struct {
	place

	process  *os.Process
	stopping atomic.Bool
	leaving  sync.Once // gives socket and held back, unless Restart keeps them
	done     chan struct{}
	exit     error // how it ended; set before done is closed
}

// place is what a server and the one that takes its place have in common.
type place struct {
	programs Binaries
	dataDir  string
	cluster  string
	socket   socketDirectory
	held     *directoryLock
	log      *slog.Logger
	logPath  string
	command  func() *exec.Cmd // prepares the server's process
}

// URL is the connection string of a database for the superuser payonce, for
// pgx as well as libpq. It stays the same over starts, unless the data
// directory's path is too long for a socket, and always over Restart.
func (s *Server) URL(database string) string { return s.URLAs(superuser, database) }

// SocketFolder is where the server's socket is below the data directory, if such a path is not too long for one.
const SocketFolder = "run"

// URLAs is the same for another role. There are no passwords: a client that reaches the socket may use any role.
func (s *Server) URLAs(role, database string) string {
	query := url.Values{"host": {s.socket.dir}, "port": {port}, "sslmode": {"disable"}}
	// Encode writes a space as +, the way of forms, which is not undone in a connection string.
	parameters := strings.ReplaceAll(query.Encode(), "+", "%20")
	return "postgres://" + url.PathEscape(role) + "@/" + url.PathEscape(database) + "?" + parameters
}

// Version is PostgreSQL's version, such as 15.18.
func (s *Server) Version() string { return s.programs.Version }

// Program is the path of one of the programs that came with the server, such as pgbench. It need not exist: packages
// differ.
func (s *Server) Program(name string) string { return s.programs.Path(name) }

// PID is the process id of the server (the postmaster).
func (s *Server) PID() int { return s.process.Pid }

// DataDir is where things really are; see Options.DataDir.
func (s *Server) DataDir() string { return s.dataDir }

// Done is closed when the server has exited, for whatever reason.
func (s *Server) Done() <-chan struct{} { return s.done }

// Stop ends the server: sessions are cut off, data is written out. When ctx ends
// first, it stops at once instead, the next start has to recover, and the error
// says so. Stopping a server that has exited does nothing. The lock on the data
// directory is free afterwards.
func (s *Server) Stop(ctx context.Context) error {
	s.stopping.Store(true)
	s.signal(syscall.SIGINT)
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-s.done: // both at once: it did stop
		return nil
	default:
	}
	s.quit()
	return fmt.Errorf("stop PostgreSQL in time: %w", context.Cause(ctx))
}

// Crash kills the server, as the out-of-memory killer would, and waits for its
// children to notice. For tests.
func (s *Server) Crash() {
	s.stopping.Store(true)
	s.signal(syscall.SIGKILL)
	<-s.done
	ctx, cancel := context.WithTimeout(context.Background(), quitGrace)
	defer cancel()
	for len(attached(ctx, s.cluster, "")) > 0 && pause(ctx, readyRetry) == nil {
	}
}

// Abort ends the server at once, as pg_ctl stop -m immediate does: sessions are cut off, nothing is written out, and
// the next start has to recover. For tests.
func (s *Server) Abort() {
	s.stopping.Store(true)
	s.quit()
}

// quit stops the server without writing data out.
func (s *Server) quit() {
	s.signal(syscall.SIGQUIT)
	select {
	case <-s.done:
	case <-time.After(quitGrace):
		s.signal(syscall.SIGKILL)
		<-s.done
	}
}

// signal does nothing to a process that has been waited for, so it cannot reach
// another one of the same id.
func (s *Server) signal(sig syscall.Signal) { _ = s.process.Signal(sig) }

// launch starts the command and watches over it until it exits.
func (s *Server) launch(cmd *exec.Cmd) error {
	log, err := openLog(s.logPath)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	// A file, not a pipe: a server that outlives us for a moment can still write.
	cmd.Stdout, cmd.Stderr = log, log
	ended, err := StartChild(cmd)
	_ = log.Close()
	if err != nil {
		return err
	}
	s.process = cmd.Process
	go func() { s.exited(<-ended) }()
	return nil
}

// StartChild starts a command, and tells how it has ended. Unless the command says otherwise, it runs in a session of
// its own, so that Ctrl-C in a terminal reaches us alone, and the kernel kills it when we are gone (on Linux only).
func StartChild(cmd *exec.Cmd) (<-chan error, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = account{}.attributes(syscall.SIGKILL)
	}
	started, ended := make(chan error), make(chan error, 1)
	go func() {
		// The death signal is sent when the thread that started the child ends, not when the process does. So this
		// thread is kept until the child has ended.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			ended <- cmd.Wait()
		}
	}()
	return ended, <-started
}

// exited runs once, when the server is gone.
func (s *Server) exited(err error) {
	if !s.stopping.Load() {
		s.log.Error("PostgreSQL exited", "error", err, "log", s.logPath)
	}
	s.exit = err
	s.giveBack()
	close(s.done)
}

// errEnded says that there is nothing to restart: a server that has ended has given its lock back.
var errEnded = errors.New("restart PostgreSQL: it has ended already")

// Restart kills the server, as the out-of-memory killer would, and starts it again on the same data. PostgreSQL then
// recovers what was committed. The lock on the data directory and the socket's directory are kept in between: no other
// starter can take the data directory, and the URLs stay the same. The Server that is returned takes the place of s,
// which has exited. ctx bounds the start, as it does in [Start].
func (s *Server) Restart(ctx context.Context) (*Server, error) {
	kept := false
	if s.leaving.Do(func() { kept = true }); !kept {
		return nil, errEnded
	}
	s.Crash()
	next := &Server{place: s.place, done: make(chan struct{})}
	if err := next.relaunch(ctx); err != nil {
		next.giveBack()
		return nil, fmt.Errorf("restart PostgreSQL: %w", err)
	}
	if err := next.awaitReady(ctx); err != nil {
		next.Abort()
		return nil, err
	}
	s.log.Debug("PostgreSQL accepts connections again", "pid", next.PID(), "data", s.cluster)
	return next, nil
}

// relaunch starts the server when nothing of its predecessor is left that it would refuse to start with.
func (s *Server) relaunch(ctx context.Context) error {
	if err := awaitPredecessor(ctx, s.cluster, func(string) {}); err != nil {
		return err
	}
	// The lock file of the socket holds a process id, too. It would block the start if another process has that id now.
	for _, left := range []string{socketFile, socketFile + ".lock"} {
		if err := os.Remove(filepath.Join(s.socket.dir, left)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return s.launch(s.command())
}

// giveBack gives back what the server has taken, unless the next server keeps it.
func (s *Server) giveBack() {
	s.leaving.Do(func() {
		s.socket.remove()
		s.held.release()
	})
}

const (
	// readyTimeout bounds the start, recovery after a crash included.
	readyTimeout = 2 * time.Minute
	// readyRetry is short because a start takes some 50 ms.
	readyRetry = 10 * time.Millisecond
)

var errNotReady = errors.New("no connection accepted within two minutes")

// awaitReady returns when the server has accepted a connection.
func (s *Server) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, errNotReady)
	defer cancel()
	for {
		err := connect(ctx, s.URL("postgres"))
		if err == nil {
			return nil
		}
		select {
		case <-s.done:
			return fmt.Errorf("start PostgreSQL: it gave up (%w):\n%s", s.exit, logTail(s.logPath))
		case <-ctx.Done():
			return fmt.Errorf("start PostgreSQL: %w: %w:\n%s", context.Cause(ctx), err, logTail(s.logPath))
		case <-time.After(readyRetry):
		}
	}
}

func connect(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// openLog begins a new log file and keeps the one of the start before, so that
// two starts' worth of lines is the most there is.
func openLog(path string) (*os.File, error) {
	if err := os.Rename(path, path+".1"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	// EXCL follows no link that somebody may have put there.
	return os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
}

// logTail returns the last lines of the log, at most 8 KiB.
func logTail(path string) string {
	const most = 8 << 10
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	if info, err := file.Stat(); err == nil && info.Size() > most {
		_, _ = file.Seek(-most, io.SeekEnd)
	}
	content, _ := io.ReadAll(io.LimitReader(file, most))
	return lastLines(string(content), 20)
}
