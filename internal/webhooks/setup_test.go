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
func (d *fixture) anotherInbox() *Inbox {
	d.t.Helper()
	db := pgtest.Open(d.t, d.proxy.URL(), pgtest.Limits())
	return New(db, func(ctx context.Context, tx pgx.Tx, eventID string) error {
		if _, err := tx.Exec(ctx, d.beforeJob, eventID); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "INSERT INTO jobs (event_id) VALUES ($1)", eventID)
		return err
	})
}

func (d *fixture) event(id string) Event {
	return Event{ID: id, SentAt: d.sent, Body: []byte(`{"of":"` + id + `"}`)}
}

func (d *fixture) receive(id string) Receipt {
	d.t.Helper()
	receipt, err := d.inbox.Receive(d.t.Context(), d.event(id))
	if err != nil {
		d.t.Fatalf("receive %s: %v", id, err)
	}
	return receipt
}

// inBackground receives an event, and gives what came of it.
func (d *fixture) inBackground(i *Inbox, id string) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		receipt, err := i.Receive(context.Background(), d.event(id))
		done <- outcome{receipt, err}
	}()
	return done
}

type outcome struct {
	receipt Receipt
	err     error
}

// holdJobs has every job wait, once its event is stored, until release.
func (d *fixture) holdJobs() (release func()) {
	d.t.Helper()
	gate, err := d.pool.Acquire(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	const lock, unlock = "SELECT pg_advisory_lock(42)", "SELECT pg_advisory_unlock(42)"
	pgtest.Exec(d.t, gate, lock)
	d.beforeJob = "SELECT pg_advisory_xact_lock_shared(42) WHERE $1::text <> ''"
	release = sync.OnceFunc(func() {
		defer gate.Release()
		if _, err := gate.Exec(context.Background(), unlock); err != nil {
			d.t.Errorf("let the jobs go: %v", err)
		}
	})
	d.t.Cleanup(release)
	return release
}

// want checks how many events and jobs there are.
func (d *fixture) want(events, jobs int) {
	d.t.Helper()
	if e, j := d.count("SELECT count(*) FROM webhook_events"), d.count("SELECT count(*) FROM jobs"); e != events ||
		j != jobs {
		d.t.Fatalf("%d events and %d jobs, want %d and %d", e, j, events, jobs)
	}
}

func (d *fixture) count(sql string, args ...any) int {
	d.t.Helper()
	return pgtest.Value[int](d.t, d.pool, sql, args...)
}

func (d *fixture) text(sql string, args ...any) string {
	d.t.Helper()
	return pgtest.Value[string](d.t, d.pool, sql, args...)
}

func (d *fixture) exec(sql string, args ...any) {
	d.t.Helper()
	pgtest.Exec(d.t, d.pool, sql, args...)
}

// wantErr checks that an error is the one, and no other.
func wantErr(t rapid.TB, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
}
