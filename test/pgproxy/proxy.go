package pgproxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"
)

// port is part of the socket's name, .s.PGSQL.5432, and of nothing else.
const port = "5432"

// Proxy forwards connections to one PostgreSQL server. It is safe for concurrent use.
type Proxy struct {
	network, upstream string // where the real server listens
	dir               string // where we do
	url               string

	mu       sync.Mutex
	listener net.Listener // nil while down
	sessions map[*session]struct{}
	events   []*Event // in the order in which they were asked for
	choose   func(queries []string) Action
	rounds   [][]string
	answered [][]string
	texts    map[string]string
	running  sync.WaitGroup
}

// Start forwards to the server and database of realURL until the test ends.
func Start(t TB, realURL string) *Proxy {
	t.Helper()
	p, err := Open(realURL)
	if err != nil {
		t.Fatalf("pgproxy: %v", err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("pgproxy: %v", err)
		}
	})
	return p
}

// Open is Start for programs: it forwards until Close.
func Open(realURL string) (*Proxy, error) { return OpenIn("", realURL) }

// OpenIn is Open with the socket in a new directory below parent, named pgproxy- and a number. A program that is killed
// leaves the directory.
func OpenIn(parent, realURL string) (*Proxy, error) {
	config, err := pgconn.ParseConfig(realURL)
	if err != nil {
		return nil, fmt.Errorf("parse connection string: %w", err)
	}
	// Not a directory of a test: a socket's path may have 103 bytes, and that one has the test's name in it.
	dir, err := os.MkdirTemp(parent, "pgproxy-")
	if err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	p := &Proxy{dir: dir, sessions: map[*session]struct{}{}, texts: map[string]string{}}
	p.network, p.upstream = pgconn.NetworkAddress(config.Host, config.Port)
	p.url = (&url.URL{
		Scheme: "postgres", User: url.UserPassword(config.User, config.Password), Path: "/" + config.Database,
		RawQuery: url.Values{"host": {dir}, "port": {port}, "sslmode": {"disable"}}.Encode(),
	}).String()
	if err := p.Restore(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return p, nil
}

// Close cuts all connections, and waits until nothing is left of them.
func (p *Proxy) Close() error {
	p.Down()
	p.running.Wait()
	return os.RemoveAll(p.dir)
}

// Choose has fn say what happens to each round that meets no event, for runs that fail at random: Pass, CutBefore or
// DropAcknowledgement. Rounds are not remembered from then on, since such a run can be long.
func (p *Proxy) Choose(fn func(queries []string) Action) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.choose = fn
}

// URL is the connection string of the same database, through the proxy.
func (p *Proxy) URL() string { return p.url }

// Down cuts all connections, with what is held on them, and refuses new ones, as a server that has been stopped.
func (p *Proxy) Down() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener == nil {
		return
	}
	_ = p.listener.Close() // removes the socket
	p.listener = nil
	for s := range p.sessions {
		s.cut()
	}
}

// Up accepts connections again.
func (p *Proxy) Up(t TB) {
	t.Helper()
	if err := p.Restore(); err != nil {
		t.Fatalf("pgproxy: %v", err)
	}
}

// Restore is Up for programs.
func (p *Proxy) Restore() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		return nil
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "unix", filepath.Join(p.dir, ".s.PGSQL."+port))
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	p.listener = l
	p.running.Go(func() { p.accept(l) })
	return nil
}

func (p *Proxy) accept(l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		p.running.Go(func() { p.serve(l, client) })
	}
}

// serve carries one connection from its start to its end.
func (p *Proxy) serve(l net.Listener, client net.Conn) {
	defer client.Close()
	server, err := (&net.Dialer{}).DialContext(context.Background(), p.network, p.upstream)
	if err != nil {
		return // to the client, the server is not there
	}
	defer server.Close()
	s := newSession(p, client, server)
	p.mu.Lock()
	if p.listener != l {
		p.mu.Unlock()
		return // Down came in between
	}
	p.sessions[s] = struct{}{}
	p.mu.Unlock()

	s.run()

	p.mu.Lock()
	delete(p.sessions, s)
	p.mu.Unlock()
}

// cutOff reports whether a test has cut off the client of the session that a request to cancel names.
func (p *Proxy) cutOff(cancelKey string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.sessions {
		if key := s.cancelKey.Load(); key != nil && *key == cancelKey {
			return s.left.Load()
		}
	}
	return false
}

// Rounds lists the rounds that clients have sent so far, each as the names of the queries executed in it: a round trip
// each. One that only prepares statements has none.
func (p *Proxy) Rounds() [][]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.rounds)
}

// Answered lists those of them that the server has answered.
func (p *Proxy) Answered() [][]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.answered)
}

func (p *Proxy) noteAnswer(r *round) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.choose == nil {
		p.answered = append(p.answered, r.queries)
	}
}

// RoundTrips counts the Syncs and simple Queries that clients have sent so far.
func (p *Proxy) RoundTrips() int { return len(p.Rounds()) }

// Sent counts the rounds so far in which the query was executed.
func (p *Proxy) Sent(query string) int {
	n := 0
	for _, r := range p.Rounds() {
		if slices.Contains(r, query) {
			n++
		}
	}
	return n
}

// SQL is the text of a query that has been prepared through the proxy, or empty: what really runs, for a test that
// wants to EXPLAIN it.
func (p *Proxy) SQL(query string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.texts[query]
}

// learned keeps the text of a query.
func (p *Proxy) learned(query, sql string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.texts[query] = sql
}

// arrived counts a round, and gives the event that it meets, if any.
func (p *Proxy) arrived(from *session, r *round) *Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.choose == nil {
		p.rounds = append(p.rounds, r.queries)
	}
	for _, e := range p.events {
		named := e.query == "" || slices.Contains(r.queries, e.query)
		if e.left > 0 && named && (e.of == nil || e.of.holds(from)) && e.fits(r.bytes) {
			e.left--
			return e
		}
	}
	if p.choose == nil {
		return nil
	}
	if do := p.choose(r.queries); do != Pass {
		return &Event{do: do, reached: make(chan struct{}, 1)} // nobody waits for it
	}
	return nil
}
