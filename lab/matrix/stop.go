package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// stopsVariable names the socket to a program that is built with stops (testdata/transport.go).
const stopsVariable = "PAYONCE_MATRIX_STOPS"

// stops is where programs that are built with stops ask whether to go on. At a stop that is not armed, a program
// goes on at once.
type stops struct {
	dir      string
	listener net.Listener
	serving  sync.WaitGroup

	mu    sync.Mutex
	armed map[string]*stop
}

// stop is one, for the next program that comes to it.
type stop struct {
	name  string
	there chan struct{}
	free  chan struct{}
	once  sync.Once
}

func openStops() (*stops, error) {
	dir, err := os.MkdirTemp("", "matrix-") // short: it is a socket's path
	if err != nil {
		return nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "unix", filepath.Join(dir, "stops"))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s := &stops{dir: dir, listener: l, armed: map[string]*stop{}}
	s.serving.Go(s.accept)
	return s, nil
}

func (s *stops) path() string { return filepath.Join(s.dir, "stops") }

func (s *stops) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		go s.serve(conn)
	}
}

// serve reads the name of a stop, and closes the connection when the program may go on.
func (s *stops) serve(conn net.Conn) {
	defer conn.Close()
	name, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return
	}
	name = strings.TrimSpace(name)
	s.mu.Lock()
	armed := s.armed[name]
	delete(s.armed, name)
	s.mu.Unlock()
	if armed != nil {
		close(armed.there)
		<-armed.free
	}
}

// arm has the next program that comes to the stop wait there.
func (s *stops) arm(name string) *stop {
	armed := &stop{name: name, there: make(chan struct{}), free: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed[name] = armed
	return armed
}

func (s *stops) close() error {
	err := s.listener.Close()
	s.serving.Wait()
	return errors.Join(err, os.RemoveAll(s.dir))
}

func (s *stop) reached(ctx context.Context) error {
	select {
	case <-s.there:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("nobody came to the stop %q: %w", s.name, context.Cause(ctx))
	}
}

func (s *stop) release() { s.once.Do(func() { close(s.free) }) }
