package tenants

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// fixture is a registry and a directory, on a database of the test's own, at a time that the test sets.
type fixture struct {
	t         *testing.T
	pool      *pgxpool.Pool // straight to the tables
	registry  *Registry
	directory *Directory
	clock     atomic.Int64 // of the directory, in nanoseconds from its start
	away      atomic.Bool  // the database, as the directory sees it
	readings  atomic.Int64 // that the directory has tried
}

var errAway = errors.New("the database is away")

func setup(t *testing.T) *fixture {
	t.Helper()
	o := &fixture{t: t, pool: pgtest.New(t)}
	o.registry = NewRegistry(postgres.Wrap(o.pool, 0), uuid.NewV7)
	watched := o.pool.Config()
	watched.PrepareConn = func(context.Context, *pgx.Conn) (bool, error) {
		o.readings.Add(1)
		if o.away.Load() {
			return true, errAway
		}
		return true, nil
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), watched)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	start := time.Now()
	o.directory = NewDirectory(postgres.Wrap(pool, 0),
		func() time.Time { return start.Add(time.Duration(o.clock.Load())) })
	return o
}

// later moves the directory's clock.
func (f *fixture) later(d time.Duration) { f.clock.Add(int64(d)) }

// tenant makes acme.
func (f *fixture) tenant() {
	f.t.Helper()
	if err := f.registry.EnsureTenant(f.t.Context(), "acme"); err != nil {
		f.t.Fatal(err)
	}
}

// addKey gives acme an API key that reads and writes.
func (f *fixture) addKey(secret string) APIKey {
	f.t.Helper()
	k, err := f.registry.AddKey(f.t.Context(), "acme", secret, "", []Permission{PaymentsWrite, PaymentsRead})
	if err != nil {
		f.t.Fatal(err)
	}
	return k
}

// admits reports whether a secret authenticates. Anything but a plain no is the end of the test.
func (f *fixture) admits(secret string) bool {
	f.t.Helper()
	_, err := f.directory.Authenticate(f.t.Context(), secret)
	if err != nil && !errors.Is(err, ErrUnauthenticated) {
		f.t.Fatalf("authenticate: %v", err)
	}
	return err == nil
}

func (f *fixture) exec(sql string, args ...any) {
	f.t.Helper()
	pgtest.Exec(f.t, f.pool, sql, args...)
}
