package embeddedpg

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// quitGrace is how long an immediate end may take before we kill. The server
// itself kills its own children after 5 s.
const quitGrace = 10 * time.Second

// Server is a running cluster.
type Server struct {
	programs Binaries
	dataDir  string
	cluster  string
	socket   socketDirectory
	held     *directoryLock
	log      *slog.Logger
	logPath  string
	command  func() *exec.Cmd // prepares the server's process
	process  *os.Process
	stopping atomic.Bool
	fate     atomic.Int32 // of socket and held; see Restart
	done     chan struct{}
	exit     error // how it ended; set before done is closed
}

// URL is the connection string of a database for the superuser payonce, for
// pgx as well as libpq. It stays the same over starts, unless the data
// directory's path is too long for a socket, and always over Restart.
func (s *Server) URL(database string) string { return s.URLAs(superuser, database) }

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
	started := make(chan error)
	go func() {
		// The death signal is sent when the thread that started the child ends, not
		// when the process does. So this thread is ours until the server has exited.
		runtime.LockOSThread()
		err := cmd.Start()
		_ = log.Close()
		started <- err
		if err == nil {
			s.exited(cmd.Wait())
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	s.process = cmd.Process
	return nil
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
