package postgres

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	pgxuuid "github.com/vgarvardt/pgx-google-uuid/v5"
)

// Limits bound what one process asks of the database. Zero means no limit of ours.
type Limits struct {
	MaxConns         int32
	Acquire          time.Duration // longest wait for a free connection
	Connect          time.Duration // longest time to establish one
	StatementTimeout time.Duration
	LockTimeout      time.Duration
	IdleInTx         time.Duration
	// Pooler: url leads to a pooler in transaction mode, such as PgBouncer. It refuses start-up parameters that it does not track, so
	// the three timeouts must be set on the role (docs/pooler.md), and it hands out another session for each transaction,
	// so no statement is prepared by name.
	Pooler bool
	// Groups bound the group commits.
	Groups GroupLimits
}

// DefaultLimits are the figures of the design: about 16 connections per API process on two cores.
func DefaultLimits() Limits {
	return Limits{
		MaxConns:         16,
		Acquire:          time.Second,
		Connect:          2 * time.Second,
		StatementTimeout: 5 * time.Second,
		LockTimeout:      2 * time.Second,
		IdleInTx:         10 * time.Second,
		Groups:           DefaultGroupLimits(),
	}
}

// DB is a bounded pool of connections. It is safe for concurrent use.
type DB struct {
	pool    *pgxpool.Pool
	acquire time.Duration
	answer  time.Duration // longest wait for the server's answer; zero for ever
	slots   slots
	spread  atomic.Bool // the tables of tenants are distributed: some connection has seen it
}

// Open parses url (a libpq URL or keyword string) and prepares a pool. It does not connect: a process may start before
// its database does, and says so through /readyz.
func Open(ctx context.Context, url string, l Limits) (*DB, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errUnreadableURL
	}
	if l.MaxConns > 0 {
		cfg.MaxConns = l.MaxConns
	}
	cfg.ConnConfig.ConnectTimeout = l.Connect
	params := cfg.ConnConfig.RuntimeParams
	setDefault(params, "application_name", "payonce")
	if l.Pooler {
		cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	} else {
		setTimeouts(params, l)
	}
	// The server keeps to statement_timeout by itself. This is for one that does not answer at all.
	db := &DB{acquire: l.Acquire, answer: 2 * l.StatementTimeout, slots: slots{GroupLimits: l.Groups}}
	cfg.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		// By itself, pgx sends a uuid.UUID through its text: a third of the allocations of a payment.
		pgxuuid.Register(c.TypeMap())
		return db.askWhetherSpread(ctx, c)
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open pool: %w", err)
	}
	db.pool = pool
	return db, nil
}

func setTimeouts(params map[string]string, l Limits) {
	setDefault(params, "statement_timeout", milliseconds(l.StatementTimeout))
	setDefault(params, "lock_timeout", milliseconds(l.LockTimeout))
	setDefault(params, "idle_in_transaction_session_timeout", milliseconds(l.IdleInTx))
	// A session that waits for the rest of what we are sending is under no timeout, and keeps its locks. If this host is gone, the server should
	// know before two hours are over. On a unix socket these mean nothing.
	setDefault(params, "tcp_keepalives_idle", "10")
	setDefault(params, "tcp_keepalives_interval", "5")
	setDefault(params, "tcp_keepalives_count", "3")
}

// Wrap makes a DB of a pool that exists, as tests do. Its Groups have one member each.
func Wrap(pool *pgxpool.Pool, acquire time.Duration) *DB { return &DB{pool: pool, acquire: acquire} }

// Close waits for the connections in use and closes all.
func (db *DB) Close() { db.pool.Close() }

// Pool is the pool itself, for the job queue, which brings its own transactions.
func (db *DB) Pool() *pgxpool.Pool { return db.pool }

// Stat tells the state of the pool, for the metrics.
func (db *DB) Stat() *pgxpool.Stat { return db.pool.Stat() }

func setDefault(params map[string]string, name, value string) {
	if _, ok := params[name]; !ok {
		params[name] = value
	}
}

// milliseconds is PostgreSQL's unit for these settings; zero switches a timeout off there, too.
func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
