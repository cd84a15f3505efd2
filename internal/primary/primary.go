// Package primary keeps the connections of a pool on the primary, if a connection string names several hosts.
//
// libpq and pgx try the hosts in their order, and take the first one that accepts writes. This is not enough after a
// failover. A host that hangs takes two seconds of each new connection. And an old primary that nobody has fenced
// accepts writes as before: if it is named first, each new connection finds it.
//
// PostgreSQL counts its promotions: each one begins a new timeline. So of all hosts that accept writes, the host with
// the highest timeline is the primary. Follow asks each host several times a second, on a connection of its own. When
// it finds a higher timeline than before, it cuts all older connections of the pool, also those that are in use: what
// an old primary has not acknowledged by then, it will not acknowledge.
//
// Hosts with the same timeline are one server under several names, such as two poolers, or a disk that another machine
// has taken over. Follow stays with one of them as long as it answers. If no host tells its timeline, connections are
// made as without this package.
//
// The package refuses to know what is sent on a connection. What a cut connection means for a transaction is known by
// package postgres.
//
// Invariant: a process never goes from one host to another one with a lower timeline.
package primary

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// askEvery is the pause between two questions to a host.
	askEvery = 250 * time.Millisecond
	// askLimit is how long a host may take to answer, a new connection included.
	askLimit = time.Second
	// silence is how long the primary must not have answered before another host with its timeline takes its place: two
	// questions. The change cuts all connections, and the server may only have been slow once.
	silence = 2 * (askLimit + askEvery)
)

// Follow has the connections of a pool, which is not open yet, be made to the primary. It changes nothing if cfg names
// one host. end stops the questions; call it after the pool is closed.
func Follow(cfg *pgxpool.Config, now func() time.Time, log *slog.Logger) (end func()) {
	hosts := hostsOf(cfg.ConnConfig)
	if len(hosts) < 2 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	f := &follower{ctx: ctx, now: now, log: log, looked: make(chan struct{})}
	f.begin(&term{})
	// A standby answers reads, too, but with what was true a moment ago.
	cfg.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	cfg.BeforeConnect, cfg.PrepareConn = f.toPrimary, f.isCurrent
	var watches, firstLook sync.WaitGroup
	firstLook.Add(len(hosts))
	for _, h := range hosts {
		w := &watcher{follower: f, host: &h, config: cfg.ConnConfig.Copy()}
		w.config.ValidateConnect = nil
		h.only(w.config)
		watches.Go(func() { w.watch(&firstLook) })
	}
	watches.Go(func() { firstLook.Wait(); close(f.looked) })
	return func() { cancel(); watches.Wait() }
}

// host is one server of the connection string, with the ways in which TLS is tried.
type host struct {
	name string
	port uint16
	ways []*pgconn.FallbackConfig
}

// hostsOf lists the hosts. A host follows itself in the list if TLS is tried in several ways.
func hostsOf(c *pgx.ConnConfig) []host {
	first := &pgconn.FallbackConfig{Host: c.Host, Port: c.Port, TLSConfig: c.TLSConfig}
	var hosts []host
	for _, way := range append([]*pgconn.FallbackConfig{first}, c.Fallbacks...) {
		if last := len(hosts) - 1; last >= 0 && hosts[last].name == way.Host && hosts[last].port == way.Port {
			hosts[last].ways = append(hosts[last].ways, way)
			continue
		}
		hosts = append(hosts, host{way.Host, way.Port, []*pgconn.FallbackConfig{way}})
	}
	return hosts
}

// only makes c connect to this host alone.
func (h host) only(c *pgx.ConnConfig) {
	c.Host, c.Port, c.TLSConfig, c.Fallbacks = h.name, h.port, h.ways[0].TLSConfig, h.ways[1:]
}

// attrs are the host and more, for the log.
func (h host) attrs(more ...slog.Attr) []slog.Attr {
	return append([]slog.Attr{slog.String("host", h.name), slog.Int("port", int(h.port))}, more...)
}

// follower knows which host is the primary.
type follower struct {
	ctx    context.Context //nolint:containedctx // of the questions, which end with the pool
	now    func() time.Time
	log    *slog.Logger
	looked chan struct{} // closed when each host was asked once

	mu   sync.Mutex // of those who begin a term
	term atomic.Pointer[term]
}

// term is the time of one primary. The first term has none: no host was found that accepts writes.
type term struct {
	host     *host
	timeline int64
	ctx      context.Context //nolint:containedctx // ends with the term, and connections end with it
	end      context.CancelFunc

	answered time.Time // when the host has said last that it accepts writes; guarded by follower.mu
	warned   bool      // of another host with a lower timeline; guarded by follower.mu
}

// begin ends the last term.
func (f *follower) begin(t *term) {
	t.ctx, t.end = context.WithCancel(f.ctx)
	if last := f.term.Swap(t); last != nil {
		last.end()
		f.log.LogAttrs(f.ctx, slog.LevelInfo, "primary found", t.host.attrs(slog.Int64("timeline", t.timeline))...)
	}
}

// learn takes the answer of a host that accepts writes.
func (f *follower) learn(h *host, timeline int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	last, now := f.term.Load(), f.now()
	own, silent := h == last.host, now.Sub(last.answered) > silence
	next := &term{host: h, timeline: timeline, answered: now}
	switch {
	case timeline > last.timeline, timeline == last.timeline && !own && silent:
		f.begin(next)
	case timeline == last.timeline && own:
		last.answered = now
	case timeline < last.timeline && own:
		// pg_upgrade and a restore begin at timeline 1 again. The operator has given this server the primary's name.
		f.log.LogAttrs(f.ctx, slog.LevelWarn, "primary has gone back to an earlier timeline",
			h.attrs(slog.Int64("timeline", timeline), slog.Int64("before", last.timeline))...)
		f.begin(next)
	case timeline < last.timeline && silent && !last.warned:
		// It may be the old primary of a promotion, which nobody has fenced.
		last.warned = true
		f.log.LogAttrs(f.ctx, slog.LevelWarn, "primary does not answer; a server with an earlier timeline accepts writes",
			h.attrs(slog.Int64("timeline", timeline), slog.Int64("before", last.timeline))...)
	}
}

// toPrimary has a new connection go to the primary, and end with its term. If no primary is known, all hosts are tried.
func (f *follower) toPrimary(ctx context.Context, c *pgx.ConnConfig) error {
	select {
	case <-f.looked:
	case <-ctx.Done():
		return ctx.Err()
	}
	t := f.term.Load()
	if t.host != nil {
		t.host.only(c)
	}
	dial := c.DialFunc
	c.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(t.ctx, cancel)()
		conn, err := dial(ctx, network, address)
		switch {
		case err != nil && t.ctx.Err() != nil:
			return nil, errPromoted
		case err != nil:
			return nil, err
		}
		return termConn{conn, context.AfterFunc(t.ctx, func() { _ = conn.Close() })}, nil
	}
	c.AfterConnect = func(_ context.Context, conn *pgconn.PgConn) error {
		conn.CustomData()[termKey] = t
		return nil
	}
	return nil
}

// errPromoted is not context.Canceled, which would say that the caller has given up: then River's elector would end for
// ever.
var errPromoted = errors.New("another server is the primary now")

const termKey = "term"

// isCurrent refuses to hand out a connection of an earlier term.
func (f *follower) isCurrent(_ context.Context, c *pgx.Conn) (bool, error) {
	return c.PgConn().CustomData()[termKey] == f.term.Load(), nil
}

// termConn is a connection that is closed when its term ends.
type termConn struct {
	net.Conn

	forget func() bool // has the term do nothing at its end
}

// Close closes the connection.
func (c termConn) Close() error {
	c.forget()
	return c.Conn.Close()
}
