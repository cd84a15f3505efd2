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

	"payonce/lab/world"
	"payonce/test/httpproxy"
	"payonce/test/pgproxy"
)

// grip holds the world at a boundary, or fails it there by itself.
type grip struct {
	boundary boundary
	victim   *world.Process
	do       pgproxy.Action // at the boundary, of the database
	rows     *pgproxy.Event
	calls    []*httpproxy.Event
	stop     *stop
}

// seize has the next that comes to the boundary meet the fault: those that a proxy can do by itself are done there, for
// all others it holds.
func (s *stage) seize(b boundary, f fault) *grip {
	g := &grip{boundary: b, victim: s.victim, do: databaseAction(b, f)}
	switch {
	case b.at == inside:
		g.stop = s.stops.arm(b.name)
	case b.at == psp:
		for range b.count() {
			g.calls = append(g.calls, g.victim.PSP.On(b.name, callAction(b, f)))
		}
	case b.commit:
		g.rows = g.victim.DB.On(b.name, pgproxy.HoldAfter) // see reached
	default:
		g.rows = g.victim.DB.OnNext(b.count(), b.name, g.do)
	}
	return g
}

func databaseAction(b boundary, f fault) pgproxy.Action {
	switch {
	case f == ackLost, f == dbCut && b.side == after:
		return pgproxy.DropAcknowledgement
	case f == dbCut:
		return pgproxy.CutBefore
	case b.side == before:
		return pgproxy.HoldBefore
	}
	return pgproxy.HoldAfter
}

func callAction(b boundary, f fault) httpproxy.Action {
	early := b.side == before
	switch {
	case f == pspFail && early:
		return httpproxy.FailBefore
	case f == pspFail:
		return httpproxy.FailAfter
	case f == pspCut && early:
		return httpproxy.CutBefore
	case f == pspCut:
		return httpproxy.CutAfter
	case f == pspHalf:
		return httpproxy.HalfAfter
	case early:
		return httpproxy.HoldBefore
	}
	return httpproxy.HoldAfter
}

// reached waits until the world is at the boundary.
func (g *grip) reached(ctx context.Context) error {
	switch g.boundary.at {
	case inside:
		return g.stop.reached(ctx)
	case psp:
		for _, call := range g.calls {
			if err := call.Reached(ctx); err != nil {
				return err
			}
		}
		return nil
	case database:
	}
	for range g.boundary.count() {
		if err := g.rows.Reached(ctx); err != nil {
			return err
		}
	}
	if !g.boundary.commit {
		return nil
	}
	// Held behind the statement, the next round of that session is its commit, unless other statements of the
	// transaction come first.
	statement := g.rows
	g.rows = g.victim.DB.OnSame(statement, "commit", g.do)
	statement.Release()
	return g.rows.Reached(ctx)
}

// release lets go what is held.
func (g *grip) release() {
	if g.rows != nil {
		g.rows.Release()
	}
	for _, call := range g.calls {
		call.Release()
	}
	if g.stop != nil {
		g.stop.release()
	}
}

// landed waits until what was released before a service has been worked off by it, or has ended with its session.
func (g *grip) landed(ctx context.Context) error {
	if g.boundary.side != before {
		return nil
	}
	switch g.boundary.at {
	case database:
		for range g.boundary.count() {
			if _, err := g.rows.Landed(ctx); err != nil {
				return err
			}
		}
	case psp:
		for _, call := range g.calls {
			if err := call.Landed(ctx); err != nil {
				return err
			}
		}
	case inside:
	}
	return nil
}

// backends are the sessions of PostgreSQL that are held.
func (g *grip) backends() ([]int32, error) {
	var ids []int32
	for _, id := range g.rows.Backends() {
		ids = append(ids, int32(id)) //nolint:gosec // a process id
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("no session of PostgreSQL's is held %s", g.boundary)
	}
	return ids, nil
}

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
