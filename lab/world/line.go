package world

import (
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgconn"
)

// Line carries connections from a port of loopback to the socket of a PostgreSQL server, over its restarts. It
// understands nothing of what is said.
type Line struct {
	listener net.Listener
	socket   string
	wait     sync.WaitGroup
	used     atomic.Bool

	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]bool // both ends of each
}

// OpenLine opens one to the server that a connection string names.
func OpenLine(url string) (*Line, error) {
	config, err := pgconn.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read the server's address: %w", err)
	}
	_, socket := pgconn.NetworkAddress(config.Host, config.Port)
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it waits for nothing
	if err != nil {
		return nil, fmt.Errorf("open the line: %w", err)
	}
	l := &Line{listener: listener, socket: socket, conns: map[net.Conn]bool{}}
	l.wait.Go(l.serve)
	return l, nil
}

// Address is where the line begins.
func (l *Line) Address() (host, port string) {
	host, port, _ = net.SplitHostPort(l.listener.Addr().String())
	return host, port
}

// Used reports whether anybody has connected.
func (l *Line) Used() bool { return l.used.Load() }

func (l *Line) serve() {
	for {
		near, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.used.Store(true)
		far, err := net.Dial("unix", l.socket) //nolint:noctx // a local socket takes or refuses at once
		if err != nil || !l.keep(near, far) {
			_ = near.Close()
			if far != nil {
				_ = far.Close()
			}
			continue
		}
		l.wait.Go(func() { l.carry(near, far) })
		l.wait.Go(func() { l.carry(far, near) })
	}
}

// keep notes a connection, unless the line is cut.
func (l *Line) keep(ends ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range ends {
		if l.cut {
			return false
		}
		l.conns[c] = true
	}
	return true
}

// carry ends with either side: half a connection is of no use to PostgreSQL.
func (l *Line) carry(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	_, _ = to.Close(), from.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, to)
	delete(l.conns, from)
}

// Cut ends all connections, and takes no new ones until Reopen.
func (l *Line) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	for c := range l.conns {
		_ = c.Close()
	}
}

// Reopen takes connections again.
func (l *Line) Reopen() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = false
}

// Close is Cut for good.
func (l *Line) Close() {
	_ = l.listener.Close()
	l.Cut()
	l.wait.Wait()
}
