package postgres

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Limits bound what one process uses of the database. Zero means that Payonce sets no limit.
type Limits struct {
	MaxConns         int32
	Acquire          time.Duration // longest wait for a free connection
	Connect          time.Duration // longest time to establish one
	StatementTimeout time.Duration
	LockTimeout      time.Duration
	IdleInTx         time.Duration
	// Pooler says that url leads to a pooler in transaction mode, such as PgBouncer. A pooler refuses start-up
	// parameters that it does not track, so the timeouts and the planner's settings must be set on the database
	// (docs/pooler.md). It may use another session for each transaction, so no statement is prepared by name.
	Pooler bool
	// Groups bound the group commits.
	Groups GroupLimits
	// Follow, if given, has the pool find the primary among several hosts, until end.
	Follow func(*pgxpool.Config) (end func())
}

// DefaultLimits are the defaults of the settings: 16 connections for each API process on two cores.
func DefaultLimits() Limits {
	return Limits{
		MaxConns:         16,
		Acquire:          time.Second,
		Connect:          2 * time.Second,
		StatementTimeout: 5 * time.Second,
		LockTimeout:      2 * time.Second,
		IdleInTx:         10 * time.Second,
		// These values measured best on two cores (docs/performance.md). With one slot, the server is idle between two
		// groups. With more slots than cores, the groups are too small to help.
		Groups: GroupLimits{AtOnce: 2, Members: 32, Hold: 100 * time.Millisecond, LockTimeout: 200 * time.Millisecond},
	}
}

// DB is a bounded pool of connections. It is safe for concurrent use.
type DB struct {
	pool         *pgxpool.Pool
	unfollow     func() // ends Limits.Follow
	acquire      time.Duration
	answer       time.Duration // longest wait for the server's answer; zero is no limit
	slots        slots
	servers      servers
	installation atomic.Pointer[string] // its id, once it was read
	durable      chan struct{}          // a place for each durable read that a client has asked for
}

// Open parses url (a libpq URL or keyword string) and prepares a pool. It does not connect. A process may start before
// its database, and reports this through /readyz.
func Open(ctx context.Context, url string, l Limits) (*DB, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errUnreadableURL
	}
	if cfg.ConnConfig.DefaultQueryExecMode != pgx.QueryExecModeCacheStatement {
		return nil, errMode
	}
	if l.MaxConns > 0 {
		cfg.MaxConns = l.MaxConns
	}
	cfg.ConnConfig.ConnectTimeout = l.Connect
	keeps := cfg.ConnConfig.OnPgError
	cfg.ConnConfig.OnPgError = func(c *pgconn.PgConn, err *pgconn.PgError) (keep bool) {
		// Another server may take writes, or this one again, but only for sessions that begin now.
		return err.Code != onlyReads && keeps(c, err)
	}
	params := cfg.ConnConfig.RuntimeParams
	setDefault(params, "application_name", "payonce")
	if l.Pooler {
		cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	} else {
		setTimeouts(params, l)
		setPlanner(params)
	}
	// The server itself enforces statement_timeout. The limit answer is for a server that does not answer at all.
	db := Wrap(nil, l.Acquire)
	db.answer, db.slots.GroupLimits = 2*l.StatementTimeout, l.Groups
	if m, ok := any(db).(interface{ cluster() servers }); ok {
		db.servers = m.cluster()
	}
	cfg.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		register(c.TypeMap())
		return db.servers.connected(ctx, c)
	}
	if l.Follow != nil {
		db.unfollow = l.Follow(cfg)
	}
	db.pool, err = pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		db.unfollow()
		return nil, fmt.Errorf("open pool: %w", err)
	}
	return db, nil
}

// setPlanner has PostgreSQL search the tables by their indexes. A connection keeps its plans, also those that were made
// when a table had one page. To read the page as a whole was right then, and is wrong for a million pages. For a list,
// the same trap is to sort all that an index finds, instead of walking the index in order (ADR 0052).
//
// PostgreSQL gives what is off an absurd cost. For that cost it would compile the few plans that need it.
func setPlanner(params map[string]string) {
	setDefault(params, "enable_seqscan", "off")
	setDefault(params, "enable_bitmapscan", "off")
	setDefault(params, "jit", "off")
}

func setTimeouts(params map[string]string, l Limits) {
	setDefault(params, "statement_timeout", milliseconds(l.StatementTimeout))
	setDefault(params, "lock_timeout", milliseconds(l.LockTimeout))
	setDefault(params, "idle_in_transaction_session_timeout", milliseconds(l.IdleInTx))
	// A session that waits for the rest of our message has no timeout and keeps its locks. If this host fails, the
	// server should notice before the default of two hours. On a Unix socket these settings have no effect.
	setDefault(params, "tcp_keepalives_idle", "10")
	setDefault(params, "tcp_keepalives_interval", "5")
	setDefault(params, "tcp_keepalives_count", "3")
}

// Wrap makes a DB from an existing pool. Tests use it. Its Groups have one member each.
func Wrap(pool *pgxpool.Pool, acquire time.Duration) *DB {
	return &DB{pool: pool, unfollow: func() {}, acquire: acquire, servers: oneServer{},
		durable: make(chan struct{}, mostDurableReads)}
}

// Close waits for the connections that are in use, and closes all.
func (db *DB) Close() {
	db.pool.Close()
	db.unfollow()
}

// Pool is the pool itself. It is for the job queue, which begins its own transactions.
func (db *DB) Pool() *pgxpool.Pool { return db.pool }

// Stat is the state of the pool, for the metrics.
func (db *DB) Stat() *pgxpool.Stat { return db.pool.Stat() }

func setDefault(params map[string]string, name, value string) {
	if _, ok := params[name]; !ok {
		params[name] = value
	}
}

// milliseconds formats d in PostgreSQL's unit for these settings. Zero switches a timeout off.
func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// bounded limits how long we wait for an answer of the server. Zero is no limit.
func bounded(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, limit)
}

// borrow takes a connection from the pool, within the acquire limit. If it fails, nothing was sent.
func (db *DB) borrow(ctx context.Context) (*pgxpool.Conn, error) {
	ctx, cancel := bounded(ctx, db.acquire)
	defer cancel()
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return nil, &UnavailableError{Op: "acquire connection", Err: err}
	}
	return conn, nil
}

// giveBack returns a connection to the pool. If the connection has broken, giveBack resets the whole pool: the other
// connections have probably broken, too, and the pool does not check connections that were in use a moment ago. Without
// the reset, each of the few retries could get another broken one. If ctx has ended, we may have closed the connection
// ourselves, so the pool is not reset.
func (db *DB) giveBack(ctx context.Context, conn *pgxpool.Conn) {
	if conn.Conn().IsClosed() && ctx.Err() == nil {
		db.pool.Reset()
	}
	conn.Release()
}
