package webhooks

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"payonce/test/pgproxy"
	"payonce/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// patience is a limit that no test reaches.
const patience = time.Minute

// fixture is an inbox on a database of the test's own.
type fixture struct {
	t     *testing.T
	pool  *pgxpool.Pool // straight to the tables
	proxy *pgproxy.Proxy
	inbox *Inbox
	sent  time.Time
}

func setup(t *testing.T) *fixture {
	t.Helper()
	d := &fixture{t: t, pool: pgtest.New(t), sent: time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)}
	d.proxy = pgproxy.Start(t, d.pool.Config().ConnString())
	d.inbox = d.anotherInbox()
	return d
}

// anotherInbox is one in another process, on the same database. It goes through the proxy.
func (f *fixture) anotherInbox() *Inbox {
	f.t.Helper()
	return New(pgtest.Open(f.t, f.proxy.URL(), pgtest.Limits()), testJob)
}

var testJob = Job{Kind: "webhook", Queue: "webhook", MaxAttempts: 20}

// beforeJob has the database run SQL before a job is written; NEW is the job.
func (f *fixture) beforeJob(sql string) {
	f.t.Helper()
	f.exec("CREATE OR REPLACE FUNCTION before_job() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN " + sql +
		"; RETURN NEW; END $$")
	f.exec("CREATE OR REPLACE TRIGGER before_job BEFORE INSERT ON river_job FOR EACH ROW EXECUTE FUNCTION before_job()")
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
	f.beforeJob("PERFORM pg_advisory_xact_lock_shared(42)")
	release = sync.OnceFunc(func() {
		defer gate.Release()
		if _, err := gate.Exec(context.Background(), unlock); err != nil {
			f.t.Errorf("let the jobs go: %v", err)
		}
	})
	f.t.Cleanup(release)
	return release
}

const countJobs = "SELECT count(*) FROM river_job"

// want checks how many events and jobs there are.
func (f *fixture) want(events, jobs int) {
	f.t.Helper()
	if e, j := f.count("SELECT count(*) FROM webhook_events"), f.count(countJobs); e != events ||
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
