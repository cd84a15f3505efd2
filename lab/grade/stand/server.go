package stand

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"payonce/lab/child"
	"payonce/test/heldport"
)

// Server is one process of the server that is graded, with all that it starts.
type Server struct {
	Number int // from 1 on
	URL    string

	program string
	ready   string
	log     string
	port    *heldport.Port // nil: it is not ours
	env     func() []string

	mu     sync.Mutex
	cmd    *exec.Cmd
	done   <-chan struct{}
	paused bool
}

const (
	readyLimit = 60 * time.Second
	stopLimit  = 10 * time.Second
)

// NotServingError says that the server did not come up.
type NotServingError struct{ text string }

func (e *NotServingError) Error() string { return e.text }

// Start runs the program and waits until it can serve.
func (s *Server) Start(ctx context.Context) error {
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the server's log: %w", err)
	}
	cmd := exec.Command(s.program) //nolint:noctx // this is the program to be graded; it is ended by name
	cmd.Env, cmd.Stdout, cmd.Stderr = s.env(), log, log
	cmd.SysProcAttr = child.Group()
	done, err := child.Start(cmd)
	_ = log.Close()
	if err != nil {
		return fmt.Errorf("the server cannot be started: %w", err)
	}
	s.mu.Lock()
	s.cmd, s.done, s.paused = cmd, done, false
	s.mu.Unlock()
	if err := s.awaitReady(ctx, done); err != nil {
		s.Kill()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &NotServingError{fmt.Sprintf("server %d %v%s", s.Number, err, s.lastWords())}
	}
	return nil
}

// awaitReady asks again and again: from outside there is no event to wait for.
func (s *Server) awaitReady(ctx context.Context, done <-chan struct{}) error {
	limited, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Second}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	said := "it gives no answer there"
	for {
		status, err := s.ask(limited, client)
		switch {
		case err == nil && (s.ready == "" || status < http.StatusInternalServerError):
			return nil
		case err == nil:
			said = fmt.Sprintf("GET %s answers %d", s.ready, status)
		}
		select {
		case <-done:
			return errors.New("ended before it was ready")
		case <-limited.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("is not ready after %s at %s, the address that PORT says: %s", readyLimit, s.URL, said)
		case <-tick.C:
		}
	}
}

func (s *Server) ask(ctx context.Context, client *http.Client) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+s.ready, http.NoBody)
	if err != nil {
		return 0, err
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}

// lastWords is the end of what the server has said.
func (s *Server) lastWords() string {
	const enough = 2000
	text, err := child.LastWords(s.log, enough)
	if err != nil {
		return ""
	}
	if text = strings.TrimSpace(text); text == "" {
		return "; it has said nothing"
	}
	return "; its last words:\n" + text
}

// Kill is kill -9 of the process and of all that it has started.
func (s *Server) Kill() { s.end(syscall.SIGKILL) }

// Stop ends it in good order, if it wants to.
func (s *Server) Stop() { s.end(syscall.SIGTERM) }

func (s *Server) end(sig syscall.Signal) {
	s.mu.Lock()
	cmd, done := s.cmd, s.done
	s.paused = false
	s.mu.Unlock()
	if cmd == nil {
		return
	}
	select {
	case <-done:
		return // another process may have its number by now
	default:
	}
	group := -cmd.Process.Pid
	_ = syscall.Kill(group, sig)
	_ = syscall.Kill(group, syscall.SIGCONT)
	select {
	case <-done:
	case <-time.After(stopLimit):
	}
	_ = syscall.Kill(group, syscall.SIGKILL)
	<-done
}

// Pause is SIGSTOP.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP, true) }

// Resume is SIGCONT.
func (s *Server) Resume() { s.signal(syscall.SIGCONT, false) }

func (s *Server) signal(sig syscall.Signal, paused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd != nil && s.running() {
		_ = syscall.Kill(-s.cmd.Process.Pid, sig)
		s.paused = paused
	}
}

func (s *Server) running() bool {
	if s.port == nil {
		return true // it is not ours to know
	}
	if s.cmd == nil {
		return false
	}
	select {
	case <-s.done:
		return false
	default:
		return true
	}
}

// Serves reports whether the server can take a request.
func (s *Server) Serves() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running() && !s.paused
}
