package statement

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/postgres"
	"payonce/internal/statement/internal/dbsqlc"
	"payonce/test/pgtest"
)

func TestStatementsAreOfDaysThatTheFileIsThereFor(t *testing.T) {
	t.Parallel()
	for now, want := range map[string]string{
		"2026-01-02T03:59:59Z":      "2025-12-31",
		"2026-01-02T04:00:00Z":      "2026-01-01",
		"2026-01-02T23:59:59Z":      "2026-01-01",
		"2026-01-02T08:00:00+09:00": "2025-12-31",
	} {
		at, err := time.Parse(time.RFC3339, now)
		if err != nil {
			t.Fatal(err)
		}
		if got := lastPublished(at).Format(time.DateOnly); got != want {
			t.Errorf("at %s the last day is %s, want %s", now, got, want)
		}
	}
}

// missing lists what is due of the two days that end with the test's, each as "account date".
func (d *fixture) missing() []string {
	d.t.Helper()
	due, err := dbsqlc.New(d.config.DB.Reader()).MissingDays(d.t.Context(),
		dbsqlc.MissingDaysParams{LastDay: dateOf(d.day), Days: 2})
	if err != nil {
		d.t.Fatal(err)
	}
	list := []string{}
	for _, m := range due {
		list = append(list, m.Account+" "+m.Day.Time.Format(time.DateOnly))
	}
	return list
}

func TestEachAccountsDayIsMissingUntilARunHasJudgedItWhole(t *testing.T) {
	t.Parallel()
	d := setup(t)
	wants := func(when string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(append([]string{}, want...), d.missing()); diff != "" {
			t.Errorf("%s, other days are missing (-want +got):\n%s", when, diff)
		}
	}
	wants("before there are tenants")
	d.exec("UPDATE tenants SET created_at = $1", d.at(-24))
	wants("at first", "acct_acme 2026-03-09", "acct_acme 2026-03-10", "acct_globex 2026-03-09",
		"acct_globex 2026-03-10")
	d.exec("UPDATE tenants SET created_at = $1 WHERE id = 'globex'", d.at(0))
	wants("when one is new", "acct_acme 2026-03-09", "acct_acme 2026-03-10", "acct_globex 2026-03-10")

	d.publish("acct_acme", d.day)
	if _, err := d.reconciler().Run(t.Context(), d.day); err == nil {
		t.Fatal("an account without a statement is none that fails")
	}
	wants("when one account's run has failed", "acct_acme 2026-03-09", "acct_globex 2026-03-10")
	d.exec("UPDATE statement_runs SET status = 'partial'")
	wants("when the day was not over", "acct_acme 2026-03-09", "acct_acme 2026-03-10", "acct_globex 2026-03-10")
}

// No reconciler has run for longer than the days that each pass looks at.
func TestDaysOfALongOutageAreAllMissing(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.exec("UPDATE tenants SET created_at = $1 WHERE id = 'acme'", d.at(-24*20))
	d.exec("UPDATE tenants SET created_at = $1 WHERE id = 'globex'", d.at(-24*3))
	for account, day := range map[string]time.Time{"acct_acme": d.at(-24 * 6), "acct_globex": d.at(-24 * 60)} {
		for _, status := range []string{"complete", "partial"} {
			d.exec(`INSERT INTO statement_runs (id, account, day, started_at, status, lines, breaks, pending)
				VALUES (gen_random_uuid(), $1, $2, payonce_now(), $3, 0, 0, 0)`, account, day, status)
			day = day.Add(oneDay)
		}
	}
	want := []string{"acct_acme 2026-03-05", "acct_acme 2026-03-06", "acct_acme 2026-03-07", "acct_acme 2026-03-08",
		"acct_acme 2026-03-09", "acct_acme 2026-03-10", "acct_globex 2026-03-07", "acct_globex 2026-03-08",
		"acct_globex 2026-03-09", "acct_globex 2026-03-10"}
	if diff := cmp.Diff(want, d.missing()); diff != "" {
		t.Errorf("other days are missing (-want +got):\n%s", diff)
	}
}

// A PSP that publishes no statement for a day without movements holds up nothing: once a later day was judged, none
// will come.
func TestDayWithoutAStatementIsPassedOver(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.paid("ch_1", 10, finishedAt(d.at(24*5+1)))
	listed := d.paid("ch_2", 11, finishedAt(d.at(24*5+2)))
	d.publishDays(6)
	d.publish("acct_acme", d.at(24*5), lineOf(listed, dated(d.at(24*5+2))))
	without := d.at(24 * 2)
	delete(d.files, "acct_acme "+without.Format(time.DateOnly))
	d.job(d.day)
	d.want() // The statement may only be late.
	if n := d.count("SELECT count(*) FROM statement_pending"); n != 2 {
		t.Errorf("%d movements are pending, want 2", n)
	}
	for day := d.next(); !day.After(d.at(24 * 6)); day = day.Add(oneDay) {
		if !day.Equal(without) {
			d.job(day)
		}
	}
	d.want("missing_there ch_1")
	if n, ripe := d.count("SELECT count(*) FROM statement_pending"), d.ripe(); n != 0 || len(ripe) != 0 {
		t.Errorf("%d movements are still pending, and %v is read again every hour", n, ripe)
	}
}

func TestDaysAreMissedByTheDatabasesClock(t *testing.T) {
	t.Parallel()
	d := setup(t)
	yesterday, err := d.reconciler().Yesterday(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d.exec("UPDATE tenants SET created_at = $1", yesterday.Add(-9*oneDay))
	due, err := d.reconciler().Due(t.Context(), 7)
	if err != nil || len(due) < 18 {
		t.Fatalf("%+v, %v", due, err)
	}
	if late := yesterday.Sub(due[len(due)-1].Day); late < -oneDay || late > oneDay {
		t.Fatalf("the last is %s, yesterday %s", due[len(due)-1].Day, yesterday)
	}
}

// atCommit is a tracer that calls back when a commit has been acknowledged.
type atCommit func()

type committing struct{}

func (atCommit) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	return context.WithValue(ctx, committing{}, q.SQL == "commit")
}

func (f atCommit) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	if ctx.Value(committing{}) == true {
		f()
	}
}

// What was written before is in the report. Without an error, nobody would know that there is more to do, or that the
// report was not shown.
func TestRunThatIsCalledOffSaysWhatWasDone(t *testing.T) {
	t.Parallel()
	for _, accounts := range [][]string{nil, {"acct_acme"}} {
		testCalledOff(t, accounts...)
	}
}

func testCalledOff(t *testing.T, accounts ...string) {
	t.Helper()
	d := setup(t)
	d.publish("acct_acme", d.day)
	d.publish("acct_globex", d.day)
	ctx, callOff := context.WithCancel(t.Context())
	defer callOff()
	d.config.DB = postgres.Wrap(pgtest.WithTracer(t, d.pool, atCommit(callOff)), patience)
	report, err := d.reconciler().Run(ctx, d.day, accounts...)
	if !errors.Is(err, context.Canceled) || len(report.Runs) != 1 || report.Runs[0].Account != "acct_acme" {
		t.Errorf("%+v, %v", report.Runs, err)
	}
}

// Runs without an id of their own would take each other's breaks for theirs.
func TestRunWithoutAnIDIsNotMade(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.publish("acct_acme", d.day)
	d.config.NewID = func() (uuid.UUID, error) { return uuid.UUID{}, errors.New("no random numbers") }
	report, err := d.reconciler().Run(t.Context(), d.day, "acct_acme")
	if err == nil || !strings.Contains(err.Error(), "no random numbers") || len(report.Runs) != 0 {
		t.Errorf("%+v, %v", report.Runs, err)
	}
	if n := d.count("SELECT count(*) FROM statement_runs"); n != 0 {
		t.Errorf("%d runs are written", n)
	}
}
