// Package primary leads a pool to the primary, if a connection string names several hosts.
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
// The package refuses to know what is sent on a connection. What a cut connection means for a transaction is known by
// package postgres.
//
// Invariant: a process never goes back to a lower timeline.
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
)

// Follow makes the connections of a pool, which is not open yet, lead to the primary. It changes nothing if cfg names
// one host. end stops the questions; call it after the pool is closed.
func Follow(cfg *pgxpool.Config, log *slog.Logger) (end func()) {
	hosts := hostsOf(cfg.ConnConfig)
	if len(hosts) < 2 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	f := &follower{ctx: ctx, log: log, looked: make(chan struct{})}
	f.begin(&term{})
	// A standby answers reads, too, but with what was true a moment ago.
	cfg.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	cfg.BeforeConnect, cfg.PrepareConn = f.lead, f.isCurrent
	var watches, firstLook sync.WaitGroup
	firstLook.Add(len(hosts))
	for _, h := range hosts {
		one := cfg.ConnConfig.Copy()
		one.ValidateConnect = nil
		h.only(one)
		watches.Go(func() { f.watch(h, one, firstLook.Done) })
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

// follower knows which host is the primary.
type follower struct {
	ctx    context.Context //nolint:containedctx // of the questions, which end with the pool
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
	over     context.CancelFunc
}

// begin ends the last term.
func (f *follower) begin(t *term) {
	t.ctx, t.over = context.WithCancel(f.ctx)
	if last := f.term.Swap(t); last != nil {
		last.over()
	}
}

// learn takes the answer of a host that accepts writes.
func (f *follower) learn(h host, timeline int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if timeline <= f.term.Load().timeline {
		return
	}
	f.begin(&term{host: &h, timeline: timeline})
	f.log.InfoContext(f.ctx, "primary found", slog.String("host", h.name),
		slog.Int("port", int(h.port)), slog.Int64("timeline", timeline))
}

// lead has a new connection lead to the primary and end with its term. If no primary is known, all hosts are tried.
func (f *follower) lead(ctx context.Context, c *pgx.ConnConfig) error {
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
			return nil, errOver
		case err != nil:
			return nil, err
		}
		return tied{conn, context.AfterFunc(t.ctx, func() { _ = conn.Close() })}, nil
	}
	c.AfterConnect = func(_ context.Context, conn *pgconn.PgConn) error {
		conn.CustomData()[termKey] = t
		return nil
	}
	return nil
}

// errOver is not context.Canceled, which would say that the caller has given up: River's elector would end for ever.
var errOver = errors.New("another server is the primary now")

const termKey = "term"

// isCurrent refuses to hand out a connection whose term is over.
func (f *follower) isCurrent(_ context.Context, c *pgx.Conn) (bool, error) {
	return c.PgConn().CustomData()[termKey] == f.term.Load(), nil
}

// tied is a connection that is cut when its term ends.
type tied struct {
	net.Conn

	free func() bool
}

// Close closes the connection, which its term then forgets.
func (c tied) Close() error {
	c.free()
	return c.Conn.Close()
}

// watch asks one host again and again. asked is called once, after the first question.
func (f *follower) watch(h host, c *pgx.ConnConfig, asked func()) {
	var conn *pgx.Conn
	pause := time.NewTicker(askEvery)
	defer pause.Stop()
	for {
		ctx, cancel := context.WithTimeout(f.ctx, askLimit)
		var timeline int64
		var err error
		if conn == nil {
			conn, err = pgx.ConnectConfig(ctx, c)
		}
		if err == nil {
			timeline, err = timelineOf(ctx, conn)
		}
		cancel()
		switch {
		case err == nil && timeline > 0:
			f.learn(h, timeline)
		case err != nil && conn != nil:
			_ = conn.Close(f.ctx)
			conn = nil
		}
		if asked != nil {
			asked()
			asked = nil
		}
		select {
		case <-pause.C:
		case <-f.ctx.Done():
			if conn != nil {
				_ = conn.Close(f.ctx)
			}
			return
		}
	}
}

// timelineOf is the timeline of a server that accepts writes, and zero if it does not. The name of a file of the log
// begins with the timeline.
func timelineOf(ctx context.Context, conn *pgx.Conn) (timeline int64, err error) {
	err = conn.QueryRow(ctx, `SELECT CASE current_setting('transaction_read_only')
		WHEN 'off' THEN ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint ELSE 0 END`,
		pgx.QueryExecModeSimpleProtocol).Scan(&timeline)
	return timeline, err
}
