package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
	"payonce/internal/postgres"
	"payonce/internal/statement"
	"payonce/test/pgtest"
)

// accountants are a crew with the jobs of statements.
type accountants struct {
	*crew
	jobs statements
}

// setupStatements is a crew of a tenant of two days, and of a PSP that publishes an empty statement for one day alone.
func setupStatements(t *testing.T, publishedDay string) accountants {
	t.Helper()
	c := setup(t)
	c.exec("INSERT INTO tenants (id, psp_account, created_at) VALUES ('acme', 'acct_acme', clock_timestamp() - interval '52 hours')")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/settlements/"+publishedDay+".csv" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = w.Write([]byte("id,object,idempotencyKey,reference,chargeId,amountCents,currency,status,feeCents,netCents,createdAt\r\ntotal,0,,,,,,,,,\r\n"))
	}))
	t.Cleanup(server.Close)
	psp, err := native.New(server.URL, "test-psp-secret", gateway.DefaultLimits(), nil, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(psp.Close)
	config := statement.DefaultConfig()
	config.DB, config.NewID = postgres.Wrap(c.pool, 20*time.Second), uuid.NewV7
	config.PSPs = gateway.PSPs{native.Name: psp}
	c.r.PSPs = config.PSPs
	s, err := statement.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return accountants{c, statements{s, c.r}}
}

func (c accountants) lookForStatements() {
	c.t.Helper()
	if err := c.jobs.enqueue(c.t.Context(), nil); err != nil {
		c.t.Fatal(err)
	}
}

// judges works the job of an account's day, which is so old.
func (c accountants) judges(day string, age time.Duration) error {
	return c.jobs.judgeDay(c.t.Context(), &river.Job[statementDayArgs]{
		JobRow: &rivertype.JobRow{CreatedAt: c.r.Now().Add(-age)},
		Args:   statementDayArgs{Account: "acct_acme", Day: day},
	})
}

// 52 hours ago and four hours for the file to be written: two days at least, or three.
func TestDaysOnWhichNothingRanAreMadeUp(t *testing.T) {
	t.Parallel()
	c := setupStatements(t, "")
	c.lookForStatements()
	var jobs, days int
	var last string
	err := c.pool.QueryRow(t.Context(), `SELECT count(*), count(DISTINCT args ->> 'day'), max(args ->> 'day') FROM river_job
		WHERE kind = 'statement_day' AND args ->> 'account' = 'acct_acme' AND queue = $1`, statementQueue).Scan(&jobs, &days, &last)
	if err != nil || jobs < 2 || jobs != days {
		t.Fatalf("%d jobs for %d days: %v", jobs, days, err)
	}
	// In the queue, running, or an operator's case: it is not started again.
	for _, state := range []string{"scheduled", "running", "retryable", "discarded"} {
		finalized := "NULL"
		if state == "discarded" {
			finalized = "now()"
		}
		c.exec("UPDATE river_job SET state = '" + state + "', attempt = 1, finalized_at = " + finalized)
		c.lookForStatements()
		c.wantJobs("statement_day", jobs)
	}
	c.exec("DELETE FROM river_job")
	c.exec("INSERT INTO statement_runs (id, account, day, started_at, status, lines, breaks, pending) VALUES (gen_random_uuid(), 'acct_acme', '" +
		last + "', now(), 'complete', 0, 0, 0)")
	c.lookForStatements()
	c.wantJobs("statement_day", jobs-1)
}

func TestJobOfADayJudgesThatDayWheneverItRuns(t *testing.T) {
	t.Parallel()
	c := setupStatements(t, "2026-03-10")
	if err := c.judges("2026-03-10", 48*time.Hour); err != nil {
		t.Fatal(err)
	}
	run := pgtest.Value[string](t, c.pool, "SELECT account || ' ' || day FROM statement_runs")
	if run != "acct_acme 2026-03-10" {
		t.Fatalf("ran %s", run)
	}
}

// A file that is late is no case. One that is not there after a day is.
func TestStatementThatIsLateIsWaitedForADay(t *testing.T) {
	t.Parallel()
	c := setupStatements(t, "")
	var snooze *river.JobSnoozeError
	if err := c.judges("2026-03-10", 23*time.Hour); !errors.As(err, &snooze) || snooze.Duration != time.Hour {
		t.Fatal(err)
	}
	now := time.Now()
	c.r.Now = func() time.Time { return now }
	if err := c.judges("2026-03-10", 24*time.Hour); !errors.Is(err, gateway.ErrNoStatement) || errors.As(err, &snooze) {
		t.Fatal(err)
	}
}

// Only a file that is late is waited for. Whatever else is wrong is no better in an hour.
func TestJobOfADayThatFailsIsNotPutOff(t *testing.T) {
	t.Parallel()
	c := setupStatements(t, "2026-03-10")
	if err := c.judges("2026-03-10", 0); err != nil {
		t.Errorf("a day that is judged at once: %v", err)
	}
	if err := c.judges("10 March", 0); err == nil || !strings.Contains(err.Error(), "read day") {
		t.Errorf("a day that is none: %v", err)
	}
	pool, outage := pgtest.WithOutage(t, c.pool)
	var err error
	if c.r.client, err = river.NewClient(riverpgxv5.New(pool), &river.Config{Logger: c.r.Log}); err != nil {
		t.Fatal(err)
	}
	outage.On("INSERT INTO", 1)
	if err := c.jobs.enqueue(t.Context(), nil); err == nil ||
		!strings.Contains(err.Error(), "enqueue statements") {
		t.Errorf("days that are not enqueued: %v", err)
	}
}

// The command line may be reading the account, or another worker. A month of days that have to be made up is judged one
// by one, and none of them waits long for a place.
func TestAccountThatAnotherRunHasIsWaitedFor(t *testing.T) {
	t.Parallel()
	c := setupStatements(t, "2026-03-10")
	tx := pgtest.Begin(t, c.pool)
	pgtest.Exec(t, tx, "SELECT pg_advisory_xact_lock(hashtextextended('statement acct_acme', 0))")
	var snooze *river.JobSnoozeError
	now := time.Now()
	for _, age := range []time.Duration{0, 25 * time.Hour} {
		c.r.Now = func() time.Time { return now }
		if err := c.judges("2026-03-10", age); !errors.As(err, &snooze) || snooze.Duration != time.Minute {
			t.Errorf("after %s: %v", age, err)
		}
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Weeks of files that have to be made up keep neither the sweep nor a scan waiting, and each day is tried again.
func TestStatementsHaveWorkersOfTheirOwn(t *testing.T) {
	t.Parallel()
	own := statementDayArgs{}.InsertOpts()
	for _, other := range []string{scheduleQueue, webhookQueue, ledgerQueue, lookupQueue} {
		if own.Queue == other {
			t.Errorf("the days share the queue %s", other)
		}
	}
	r := &Reconciler{Config: Config{Reconciler: everyMinute(), Now: time.Now, Log: slog.New(slog.DiscardHandler),
		Further: []Jobs{Statements(nil)}}}
	if _, worked := r.riverConfig().Queues[own.Queue]; !worked {
		t.Errorf("nobody works queue %s", own.Queue)
	}
	if own.MaxAttempts < 2 {
		t.Errorf("a day has %d attempts", own.MaxAttempts)
	}
}

func TestNothingDueIsNoFailureAndNoDatabaseIsOne(t *testing.T) {
	t.Parallel()
	c := setupStatements(t, "")
	ended, end := context.WithCancel(t.Context())
	end()
	if err := c.jobs.enqueue(ended, nil); err == nil {
		t.Error("no statement is due in a database that is away")
	}
	c.exec("UPDATE tenants SET created_at = clock_timestamp() + interval '1 day'")
	c.lookForStatements()
	c.wantJobs("statement_day", 0)
}
