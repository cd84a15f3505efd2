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

	"payonce/internal/gateway"
	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

// persisted is all that runs have written, in a form to compare.
func (d *fixture) persisted() string {
	d.t.Helper()
	return pgtest.Value[string](d.t, d.pool, `SELECT coalesce((SELECT string_agg(b::text, E'\n' ORDER BY id) FROM statement_breaks AS b), '')
		|| coalesce((SELECT string_agg(r::text, E'\n' ORDER BY id) FROM statement_runs AS r), '')`)
}

// The database has refused a line, and so the reading of the statement was ended. That end is not the cause.
func TestLineThatIsNotStoredIsAnErrorOfTheDatabase(t *testing.T) {
	t.Parallel()
	d := setup(t)
	lines := strings.Repeat("ch_x,charge,key,,,1,EUR,succeeded,2026-03-10T02:00:00Z\r\n", 20_000)
	d.files["acct_acme "+d.day.Format(time.DateOnly)] = header + lines + "total,20000,,,,,,,\r\n"
	j := d.judging()
	pgtest.Exec(t, j.tx, "ALTER TABLE statement_lines ADD CHECK (amount_minor <> 1)")
	if err := j.load(t.Context(), d.day); err == nil || !strings.Contains(err.Error(), "copy statement: ") {
		t.Fatal(err)
	}
}

func TestStatementThatIsNotWholeChangesNothing(t *testing.T) {
	t.Parallel()
	many := strings.Repeat("ch_x,charge,key,,,1,EUR,succeeded,2026-03-10T02:00:00Z\r\n", 20_000)
	for name, file := range map[string]string{
		"cut":                 header + "ch_x,charge,key,,,1,EUR,succeeded,2026-03-10T02:00:00Z\r\n",
		"cut after thousands": header + many,
		"another total":       header + "total,1,,,,,,,\r\n",
		"another day":         header + "ch_x,charge,key,,,1,EUR,succeeded,2026-03-11T02:00:00Z\r\ntotal,1,,,,,,,\r\n",
		"no statement":        "<html>\r\n",
		"nothing at all":      "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := setup(t)
			d.paid("ch_1", 4)
			d.publish("acct_acme", d.day)
			d.run()
			before := d.persisted()
			d.files["acct_acme "+d.day.Format(time.DateOnly)] = file
			report, err := d.reconciler().Run(t.Context(), d.day, "acct_acme")
			if err == nil || len(report.Runs) != 0 || len(d.told) != 1 {
				t.Fatalf("%v, %+v, told %v", err, report, d.told)
			}
			if diff := cmp.Diff(before, d.persisted()); diff != "" {
				t.Fatalf("it has changed (-before +after):\n%s", diff)
			}
		})
	}
}

// The cause is the PSP's, not that of the database which was told of it.
func TestBrokenStatementIsNamed(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.config.Progress = func(p Progress) {
		if p.Done {
			t.Errorf("the statement is said to be whole: %+v", p)
		}
	}
	d.files["acct_acme "+d.day.Format(time.DateOnly)] = header + "ch_x\r\n"
	_, err := d.reconciler().Run(t.Context(), d.day, "acct_acme")
	if err == nil || err.Error() != "account acct_acme, 2026-03-10: read statement: line 2: malformed" {
		t.Fatal(err)
	}
}

// Not even for the neighbour: what it has cannot be told.
func TestNeighbourThatIsNotWholeDecidesNothing(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.paid("ch_1", minute)
	d.publish("acct_acme", d.day)
	d.files["acct_acme "+d.previous().Format(time.DateOnly)] = header
	if _, err := d.reconciler().Run(t.Context(), d.day, "acct_acme"); err == nil || d.persisted() != "" {
		t.Fatalf("%v, %s", err, d.persisted())
	}
}

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
