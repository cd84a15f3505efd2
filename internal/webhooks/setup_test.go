package webhooks

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"payonce/test/pgproxy"
	"payonce/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// patience is a limit that no test reaches.
const patience = time.Minute

// fixture is an inbox on a database of the test's own. Its jobs are rows of a table that the test owns.
type fixture struct {
	t     *testing.T
	pool  *pgxpool.Pool // straight to the tables
	proxy *pgproxy.Proxy
	inbox *Inbox
	sent  time.Time
	// beforeJob is SQL that runs in the database before a job is written; $1 is the event's id.
	beforeJob string
}

func setup(t *testing.T) *fixture {
	t.Helper()
	d := &fixture{t: t, pool: pgtest.New(t), sent: time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC),
		beforeJob: "SELECT $1::text"}
	d.proxy = pgproxy.Start(t, d.pool.Config().ConnString())
	d.exec("CREATE TABLE jobs (event_id text NOT NULL)")
	d.inbox = d.anotherInbox()
	return d
}

// anotherInbox is one in another process, on the same database. It goes through the proxy.
func (f *fixture) anotherInbox() *Inbox {
	f.t.Helper()
	db := pgtest.Open(f.t, f.proxy.URL(), pgtest.Limits())
	return New(db, func(ctx context.Context, tx pgx.Tx, eventID string) error {
		if _, err := tx.Exec(ctx, f.beforeJob, eventID); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "INSERT INTO jobs (event_id) VALUES ($1)", eventID)
		return err
	})
}

func (f *fixture) event(id string) Event {
	return Event{ID: id, SentAt: f.sent, Body: []byte(`{"of":"` + id + `"}`)}
}

func (f *fixture) receive(id string) Receipt {
	f.t.Helper()
	receipt, err := f.inbox.Receive(f.t.Context(), f.event(id))
	if err != nil {
		f.t.Fatalf("receive %s: %v", id, err)
	}
	return receipt
}

// inBackground receives an event, and gives what came of it.
func (f *fixture) inBackground(i *Inbox, id string) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		receipt, err := i.Receive(context.Background(), f.event(id))
		done <- outcome{receipt, err}
	}()
	return done
}

type outcome struct {
	receipt Receipt
	err     error
}

// holdJobs has every job wait, once its event is stored, until release.
func (f *fixture) holdJobs() (release func()) {
	f.t.Helper()
	gate, err := f.pool.Acquire(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	const lock, unlock = "SELECT pg_advisory_lock(42)", "SELECT pg_advisory_unlock(42)"
	pgtest.Exec(f.t, gate, lock)
	f.beforeJob = "SELECT pg_advisory_xact_lock_shared(42) WHERE $1::text <> ''"
	release = sync.OnceFunc(func() {
		defer gate.Release()
		if _, err := gate.Exec(context.Background(), unlock); err != nil {
			f.t.Errorf("let the jobs go: %v", err)
		}
	})
	f.t.Cleanup(release)
	return release
}

// want checks how many events and jobs there are.
func (f *fixture) want(events, jobs int) {
	f.t.Helper()
	if e, j := f.count("SELECT count(*) FROM webhook_events"), f.count("SELECT count(*) FROM jobs"); e != events ||
		j != jobs {
		f.t.Fatalf("%d events and %d jobs, want %d and %d", e, j, events, jobs)
	}
}

func (f *fixture) count(sql string, args ...any) int {
	f.t.Helper()
	return pgtest.Value[int](f.t, f.pool, sql, args...)
}

func (f *fixture) text(sql string, args ...any) string {
	f.t.Helper()
	return pgtest.Value[string](f.t, f.pool, sql, args...)
}

func (f *fixture) exec(sql string, args ...any) {
	f.t.Helper()
	pgtest.Exec(f.t, f.pool, sql, args...)
}

// wantErr checks that an error is the one, and no other.
func wantErr(t rapid.TB, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
}
