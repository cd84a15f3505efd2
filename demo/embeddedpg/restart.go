package embeddedpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// errEnded says that there is nothing to restart: a server that has ended has given its lock back.
var errEnded = errors.New("restart PostgreSQL: it has ended already")

// What becomes of the lock and of the socket's directory when the server has exited: they are given back, or kept for
// the server that Restart starts. The first to decide decides.
const (
	fateOpen int32 = iota
	fateGivenBack
	fateKept
)

// Restart kills the server, as the out-of-memory killer would, and starts it again on the same data. PostgreSQL then
// recovers what was committed. The lock on the data directory and the socket's directory are kept in between: no other
// starter can take the data directory, and the URLs stay the same. The Server that is returned takes the place of s,
// which has exited. ctx bounds the start, as it does in [Start].
func (s *Server) Restart(ctx context.Context) (*Server, error) {
	if !s.fate.CompareAndSwap(fateOpen, fateKept) {
		return nil, errEnded
	}
	s.Crash()
	next := &Server{
		programs: s.programs, dataDir: s.dataDir, cluster: s.cluster, socket: s.socket, held: s.held,
		log: s.log, logPath: s.logPath, command: s.command, done: make(chan struct{}),
	}
	if err := next.relaunch(ctx); err != nil {
		next.giveBack()
		return nil, fmt.Errorf("restart PostgreSQL: %w", err)
	}
	if err := next.awaitReady(ctx); err != nil {
		next.abandon()
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
	if s.fate.CompareAndSwap(fateOpen, fateGivenBack) {
		s.socket.remove()
		s.held.release()
	}
}
