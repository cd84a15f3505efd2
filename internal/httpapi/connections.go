package httpapi

import (
	"container/list"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// How many clients may hold a connection at once. Timeouts bound how long one holds it, not how many do, and each costs a file and some
// 20 KiB: whoever opens them without end would leave nothing for the database and the PSP.
const (
	MaxConnections         = 12_000
	MaxOperatorConnections = 256
)

// fullEvery is how often the log says that there is no room.
const fullEvery = time.Minute

// LimitConnections has s serve at most so many connections of l at once. The next one takes the place of the one that has waited longest
// without a request: its client loses nothing, since clients of HTTP must expect that anyway. While all are in use, who comes is turned
// away. It must be called before s serves.
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
	line list.List // of *connection, the one that moved last at the back
	said time.Time // when the log was last told that there is no room
}

type connection struct {
	net  net.Conn
	busy bool // with a request
}

// Accept returns the next connection for which there is room.
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

// admit makes room for c if it must and can. leaves is the connection to close, which may be c.
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

// moved hears from the server what becomes of a connection.
func (l *limited) moved(c net.Conn, state http.ConnState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch state {
	case http.StateActive, http.StateIdle:
		if e := l.open[c]; e != nil { // not one that was closed to make room
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
