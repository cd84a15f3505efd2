package stand

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"payonce/lab/world"
)

// Server is one process of the server that is graded, with all that it starts.
type Server struct {
	Number int // from 1 on
	URL    string

	process *world.Process // nil: it is not ours
	env     func() []string
	paused  atomic.Bool
}

const readyLimit = time.Minute

// serves reports whether an answer to a profile's ready path says that the server can serve. Without such a path, any
// answer does.
func serves(ready string) func(status int) bool {
	return func(status int) bool { return ready == "" || status < http.StatusInternalServerError }
}

// Start runs the program and waits until it can serve.
func (s *Server) Start(ctx context.Context) error {
	s.process.Env = s.env()
	s.paused.Store(false)
	return s.process.Start(ctx)
}

// Kill is kill -9 of the process and of all that it has started.
func (s *Server) Kill() {
	if s.process != nil {
		s.process.Kill()
	}
}

// Stop ends it in good order, if it wants to.
func (s *Server) Stop() { s.process.Stop() }

// Pause is SIGSTOP.
func (s *Server) Pause() {
	s.process.Pause()
	s.paused.Store(true)
}

// Resume is SIGCONT.
func (s *Server) Resume() {
	if s.process != nil {
		s.process.Resume()
		s.paused.Store(false)
	}
}

// Serves reports whether the server can take a request. One that is not ours is taken to.
func (s *Server) Serves() bool { return s.process == nil || s.process.Running() && !s.paused.Load() }
