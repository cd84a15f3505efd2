package httpapi

import (
	"container/list"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// How many connections clients may hold at the same time. Timeouts bound how long a client holds a connection, but not
// how many it holds. Each costs a file and about 20 KiB. Without a limit, nothing would be left for the database and
// the PSP.
const (
	MaxConnections         = 12_000
	MaxOperatorConnections = 256
)

// fullEvery is how often the log says that the limit is reached.
const fullEvery = time.Minute

// LimitConnections limits how many connections of l the server s has at the same time. If the limit is reached, a new
// connection replaces the one that has been idle for the longest time. Its client loses nothing, because clients of
// HTTP must expect that an idle connection is closed. If all connections are in use, the new one is closed.
// LimitConnections must be called before s serves.
func LimitConnections(l net.Listener, s *http.Server, most int, log *slog.Logger, now func() time.Time) net.Listener {
	full := &limited{Listener: l, most: most, log: log, now: now, open: map[net.Conn]*list.Element{}}
	s.ConnState = full.moved
	return full
}

// limited is a listener that knows which of its connections are in use.
type limited struct {
	net.Listener

	most int
	log  *slog.Logger
	now  func() time.Time

	mu   sync.Mutex
	open map[net.Conn]*list.Element
	line list.List // of *connection; the one that changed its state last is at the back
	said time.Time // when the log last said that the limit is reached
}

type connection struct {
	net  net.Conn
	busy bool // whether it has a request
}

// Accept returns the next connection that is within the limit.
func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		leaves, admitted := l.admit(c)
		if leaves != nil {
			_ = leaves.Close()
		}
		if admitted {
			return c, nil
		}
	}
}

// admit admits c if it can. leaves is the connection to close: an idle one that c replaces, or c itself.
func (l *limited) admit(c net.Conn) (leaves net.Conn, admitted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) >= l.most {
		l.sayFull()
		if leaves = l.longestIdle(); leaves == nil {
			return c, false
		}
		l.forget(leaves)
	}
	l.open[c] = l.line.PushBack(&connection{net: c})
	return leaves, true
}

func (l *limited) longestIdle() net.Conn {
	for e := l.line.Front(); e != nil; e = e.Next() {
		if c, ok := e.Value.(*connection); ok && !c.busy {
			return c.net
		}
	}
	return nil
}

// moved is called by the server when the state of a connection changes.
func (l *limited) moved(c net.Conn, state http.ConnState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch state {
	case http.StateActive, http.StateIdle:
		if e := l.open[c]; e != nil { // It is nil if c was closed to admit another connection.
			if of, ok := e.Value.(*connection); ok {
				of.busy = state == http.StateActive
			}
			l.line.MoveToBack(e)
		}
	case http.StateClosed, http.StateHijacked:
		l.forget(c)
	case http.StateNew:
	}
}

func (l *limited) forget(c net.Conn) {
	if e := l.open[c]; e != nil {
		l.line.Remove(e)
		delete(l.open, c)
	}
}

func (l *limited) sayFull() {
	if now := l.now(); now.Sub(l.said) >= fullEvery {
		l.said = now
		l.log.Warn("connections at their limit; the longest idle are closed", slog.Int("limit", l.most))
	}
}
