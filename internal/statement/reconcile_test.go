package statement

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/gateway"
	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

func TestDayWithoutStatementIsAnError(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.paid("ch_1", 4)
	_, err := d.reconciler().Run(t.Context(), d.day, "acct_acme")
	if !errors.Is(err, gateway.ErrNoStatement) || d.persisted() != "" {
		t.Fatalf("%v, %s", err, d.persisted())
	}
}

func TestEmptyStatementMissesAllOfOurs(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.publish("acct_acme", d.day)
	if s := d.run(); s.Lines != 0 || s.Breaks != 0 {
		t.Fatalf("%+v", s)
	}
	d.paid("ch_1", 4)
	d.paid("rf_1", 5, refund)
	if s := d.run(); s.Breaks != 2 {
		t.Fatalf("%+v", s)
	}
}

func TestOneAccountsFailureDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.publish("acct_globex", d.day)
	report, err := d.reconciler().Run(t.Context(), d.day)
	if !errors.Is(err, gateway.ErrNoStatement) || !strings.Contains(err.Error(), "acct_acme") ||
		strings.Contains(err.Error(), "globex") {
		t.Fatal(err)
	}
	if len(report.Runs) != 1 || report.Runs[0].Account != "acct_globex" {
		t.Fatalf("%+v", report)
	}
}

// A run without any account would be a success that has compared nothing.
func TestRunWithoutTenantsIsAnError(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.config.DB = postgres.Wrap(pgtest.New(t), patience)
	if report, err := d.reconciler().Run(t.Context(), d.day); !errors.Is(err, errNoAccounts) {
		t.Fatalf("%+v, %v", report, err)
	}
}

func TestAccountOfNobodyIsRefused(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.publish("acct_acme", d.day)
	if _, err := d.reconciler().Run(t.Context(), d.day, "acct_acme", "acme"); !errors.Is(err, ErrNoAccount) ||
		len(d.asked) != 0 {
		t.Fatalf("%v, asked for %v", err, d.asked)
	}
}

func TestRunThatIsCalledOffLeavesNothing(t *testing.T) {
	t.Parallel()
	d := setup(t)
	ctx, cancel := context.WithCancel(t.Context())
	d.config.PSPs = clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(header))
		_ = http.NewResponseController(w).Flush()
		cancel()
		<-r.Context().Done()
	})
	if _, err := d.reconciler().Run(ctx, d.day, "acct_acme"); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if d.persisted() != "" {
		t.Fatal(d.persisted())
	}
}

func TestConfigThatCannotBe(t *testing.T) {
	t.Parallel()
	d := setup(t)
	for name, change := range map[string]func(*Config){
		"no database": func(c *Config) { c.DB = nil }, "no PSP": func(c *Config) { c.PSPs = nil },
		"no ids":        func(c *Config) { c.NewID = nil },
		"no horizon":    func(c *Config) { c.Horizon = 0 },
		"a far horizon": func(c *Config) { c.Horizon = maxHorizon + 1 },
	} {
		c := d.config
		change(&c)
		if _, err := New(c); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

func TestLargestHorizonIsTaken(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.config.Horizon = maxHorizon
	if _, err := New(d.config); err != nil {
		t.Error(err)
	}
}

func TestProgressCountsLines(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.config.Every = 2
	var got []string
	d.config.Progress = func(p Progress) { got = append(got, fmt.Sprintf("%s %d %v", p.Account, p.Lines, p.Done)) }
	d.publish("acct_acme", d.day, lineOf(d.paid("ch_1", 1)), lineOf(d.paid("ch_2", 2)), lineOf(d.paid("ch_3", 3)))
	d.run()
	if diff := cmp.Diff([]string{"acct_acme 2 false", "acct_acme 3 true"}, got); diff != "" {
		t.Fatal(diff)
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

func TestDayThatHasNotBegunIsRefused(t *testing.T) {
	t.Parallel()
	d := setup(t)
	_, err := d.reconciler().Run(t.Context(), time.Now().Add(2*oneDay), "acct_acme")
	if !errors.Is(err, ErrNotYetDay) || len(d.asked) != 0 {
		t.Fatalf("%v, asked for %v", err, d.asked)
	}
}

func TestYesterdayIsOver(t *testing.T) {
	t.Parallel()
	d := setup(t)
	before := dayOf(time.Now())
	day, err := d.reconciler().Yesterday(t.Context())
	if err != nil || (!day.Equal(before.Add(-oneDay)) && !day.Equal(dayOf(time.Now()).Add(-oneDay))) {
		t.Fatalf("%s, %v", day, err)
	}
}
