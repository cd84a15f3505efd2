package pgtest

import (
	"context"
	"net/url"
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
