package pgtest

import (
	"context"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"payonce/internal/postgres"
)

const (
	maxConns = 10
	// patience is how long a connection may stay out of the pool after its test has
	// ended, and how long one is waited for.
	patience = time.Minute
)

// New is a pool on a fresh, migrated database of the test's own. Both go away
// when the test ends; a test that keeps a connection out of the pool fails.
func New(t testing.TB) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(NewURL(t))
	if err != nil {
		t.Fatalf("read connection string: %v", err)
	}
	config.MaxConns = maxConns
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatalf("open pool: %v", err)
	}
	t.Cleanup(func() { closePool(t, pool, patience) })
	return pool
}

// NewURL is the connection string of a fresh, migrated database of the test's
// own. It is dropped when the test ends, also with clients still connected.
func NewURL(t testing.TB) string {
	t.Helper()
	return cloneOf(t, template)
}

func cloneOf(t testing.TB, source string) string {
	t.Helper()
	server := Server(t)
	name, err := shared.createDatabase(source)
	if err != nil {
		t.Fatalf("create database: %v", err)
	}
	t.Cleanup(func() {
		if err := shared.dropDatabase(name); err != nil {
			t.Errorf("drop database: %v", err)
		}
	})
	return server.URL(name)
}

// As is a connection string of this package's for another role, such as
// postgres.API. All of them are the superuser's by themselves: a test looks at
// everything, what it tests does not.
func As(t testing.TB, connection string, role postgres.Role) string {
	t.Helper()
	u, err := url.Parse(connection)
	if err != nil {
		t.Fatalf("read connection string: %v", err)
	}
	u.User = url.User(string(role))
	return u.String()
}

// closePool does not wait for ever, as Close does, for a connection that a test
// has forgotten to give back.
func closePool(t testing.TB, pool *pgxpool.Pool, limit time.Duration) {
	t.Helper()
	closed := make(chan struct{})
	go func() {
		pool.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(limit):
		t.Errorf("%d connections were not given back to the pool", pool.Stat().AcquiredConns())
	}
}

// Limits are the defaults, with times that no test meets by accident, however busy its machine is.
func Limits() postgres.Limits {
	l := postgres.DefaultLimits()
	l.Acquire, l.Connect, l.StatementTimeout, l.LockTimeout, l.IdleInTx = patience, patience, patience, patience,
		patience
	return l
}

// seeded is a migrated database that seed has written to, for tests to clone.
type seeded struct {
	once     sync.Once
	database string // empty if seed has failed
}

// Seeded is NewURL, with what seed writes already in the database. For each kind, seed runs once in a test binary: the
// databases of the other tests are clones. It must close its connections.
func Seeded(t testing.TB, kind string, seed func(url string)) string {
	t.Helper()
	server := Server(t)
	s := shared.seed(kind)
	s.once.Do(func() {
		name, err := shared.createDatabase(template)
		if err != nil {
			t.Fatalf("create database: %v", err)
		}
		seed(server.URL(name)) // which may end this test
		if err := shared.freeze(name); err != nil {
			t.Fatalf("freeze database: %v", err)
		}
		s.database = name
	})
	if s.database == "" {
		t.Fatalf("no database has been seeded with %s: see the test that came first", kind)
	}
	return cloneOf(t, s.database)
}

func (c *cluster) seed(kind string) *seeded {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seeds == nil {
		c.seeds = map[string]*seeded{}
	}
	if c.seeds[kind] == nil {
		c.seeds[kind] = &seeded{}
	}
	return c.seeds[kind]
}
