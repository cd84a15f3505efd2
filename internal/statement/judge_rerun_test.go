package statement

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"payonce/internal/gateway"
	"payonce/internal/judge"
	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

func TestBreakThatIsSeenAgainKeepsItsFirstSight(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.paid("ch_1", 4)
	d.paid("ch_2", 5)
	d.publish("acct_acme", d.day, lineOf(m, func(l *line) { l.amount = 7 }))
	d.run()
	before := d.open("acct_acme", d.day)
	d.publish("acct_acme", d.day, lineOf(m, func(l *line) { l.amount = 8 }))
	if s := d.run(); s.Breaks != 2 || s.New != 0 || s.Gone != 0 {
		t.Fatalf("%+v", s)
	}
	after := d.open("acct_acme", d.day)
	for i := range after {
		if after[i].ID != before[i].ID || !after[i].FirstSeen.Equal(before[i].FirstSeen) {
			t.Errorf("%+v was %+v", after[i], before[i])
		}
	}
	if after[0].Theirs.AmountMinor != 8 {
		t.Errorf("the amount is that of the last statement no more: %d", after[0].Theirs.AmountMinor)
	}
	if n := d.count("SELECT count(*) FROM statement_breaks WHERE last_seen > first_seen"); n != 2 {
		t.Errorf("%d breaks were seen again", n)
	}
	if diff := cmp.Diff([]string{"amount ch_1", "missing_there ch_2"}, d.told); diff != "" {
		t.Errorf("told otherwise (-want +got):\n%s", diff)
	}
}

func TestBreakThatIsFoundNoMoreIsGone(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.paid("ch_1", 4)
	d.publish("acct_acme", d.day)
	d.publish("acct_acme", d.previous(), line{id: "ch_x", object: gateway.ChargeObject, amount: 5, currency: "EUR",
		status: "succeeded", created: d.at(-2)})
	d.runOf("acct_acme", d.previous())
	d.run()
	first := d.only()
	d.publish("acct_acme", d.day, lineOf(m))
	if s := d.run(); s.Breaks != 0 || s.Gone != 1 {
		t.Fatalf("%+v", s)
	}
	d.want()
	if len(d.open("acct_acme", d.previous())) != 1 {
		t.Fatal("another day's break is gone, too")
	}
	// Back again, it is the same break, and news.
	d.publish("acct_acme", d.day)
	if s := d.run(); s.New != 1 || s.Gone != 0 {
		t.Fatalf("%+v", s)
	}
	if b := d.only(); b.ID != first.ID || !b.FirstSeen.Equal(first.FirstSeen) {
		t.Fatalf("%+v was %+v", b, first)
	}
	if len(d.told) != 4 {
		t.Fatalf("told %v", d.told)
	}
}

// While our payment is processing, the break is left to those who are resolving the payment. If they come to a result
// that the statement contradicts, somebody must be told then.
func TestBreakIsToldAgainWhenOurStatusHasChanged(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.paid("", 4, func(m *movement) { m.status, m.finished = "processing", nil })
	d.publish("acct_acme", d.day, lineOf(m, func(l *line) { l.id = "ch_1" }))
	d.run()
	first := d.only()
	d.exec("UPDATE payments SET status = 'declined', decline_code = 'no_money' WHERE id = $1", m.id)
	if s := d.run(); s.Breaks != 1 || s.New != 1 || s.Gone != 0 {
		t.Errorf("%+v", s)
	}
	if s := d.run(); s.Breaks != 1 || s.New != 0 {
		t.Errorf("%+v", s)
	}
	if b := d.only(); b.ID != first.ID || !b.FirstSeen.Equal(first.FirstSeen) || b.Ours.Status != "declined" {
		t.Errorf("%+v was %+v", b, first)
	}
	if diff := cmp.Diff([]string{"status ch_1", "status ch_1"}, d.told); diff != "" {
		t.Errorf("told otherwise (-want +got):\n%s", diff)
	}
}

// A line's break takes the same way back as an absence.
func TestLineBreakThatComesBackIsNews(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.paid("ch_1", 4)
	for range 2 {
		d.publish("acct_acme", d.day, lineOf(m, func(l *line) { l.amount = 7 }))
		if s := d.run(); s.New != 1 {
			t.Fatalf("%+v", s)
		}
		d.publish("acct_acme", d.day, lineOf(m))
		if s := d.run(); s.Gone != 1 {
			t.Fatalf("%+v", s)
		}
	}
}

// Two runs of an account do not see what the other one writes: one would write an absence, and the other one have the
// line that ends it.
func TestTwoRunsOfOneAccountDoNotMeet(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.publish("acct_acme", d.day)
	held, release := make(chan struct{}), make(chan struct{})
	file := d.files["acct_acme "+d.day.Format("2006-01-02")]
	d.config.PSPs = clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, d.day.Format("2006-01-02")) {
			close(held)
			<-release
		}
		_, _ = w.Write([]byte(file))
	})
	first := make(chan error, 1)
	go func() {
		_, err := d.reconciler().Run(context.WithoutCancel(t.Context()), d.day, "acct_acme")
		first <- err
	}()
	<-held
	_, second := d.reconciler().Run(t.Context(), d.day, "acct_acme")
	_, anotherDay := d.reconciler().Run(t.Context(), d.next(), "acct_acme")
	_, another := d.reconciler().Run(t.Context(), d.next(), "acct_globex")
	close(release)
	err := <-first
	if err != nil || !errors.Is(second, ErrBusy) || !errors.Is(anotherDay, ErrBusy) || another != nil {
		t.Fatalf("first %v, second %v, another day %v, another account %v", err, second, anotherDay, another)
	}
	d.config.PSPs = clientOf(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(file)) })
	d.run() // the lock has ended with the run
}

// A break is judged in its transaction: neither is stored without the other.
func TestWhoCannotTakeABreakUndoesIt(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.exec("CREATE TABLE told (psp_id text)")
	d.paid("ch_1", 4)
	d.paid("ch_2", 5)
	d.publish("acct_acme", d.day)
	refusal := errors.New("no dead letters today")
	d.config.Payments = evidence(func(ctx context.Context, tx pgx.Tx, b judge.Break) error {
		if b.PSPID == "ch_2" {
			return refusal
		}
		_, err := tx.Exec(ctx, "INSERT INTO told VALUES ($1)", b.PSPID)
		return err
	})
	if _, err := d.reconciler().Run(t.Context(), d.day, "acct_acme"); !errors.Is(err, refusal) {
		t.Fatal(err)
	}
	if n := d.count("SELECT (SELECT count(*) FROM told) + (SELECT count(*) FROM statement_breaks) + (SELECT count(*) FROM statement_runs)"); n != 0 {
		t.Fatalf("%d rows are left", n)
	}
}

// The PSP may take its time over a file. The limit of all other statements is back once the run is over.
func TestStatementTimeoutIsLiftedForTheRunAlone(t *testing.T) {
	t.Parallel()
	d := setup(t)
	limits := postgres.DefaultLimits()
	limits.MaxConns, limits.StatementTimeout = 1, 54321*time.Millisecond
	db := pgtest.Open(t, d.pool.Config().ConnString(), limits)
	d.config.DB = db
	var during, after string
	show := func(ctx context.Context, q interface {
		QueryRow(context.Context, string, ...any) pgx.Row
	}, into *string) error {
		return q.QueryRow(ctx, "SHOW statement_timeout").Scan(into)
	}
	d.config.Payments = evidence(func(ctx context.Context, tx pgx.Tx, _ judge.Break) error {
		return show(ctx, tx, &during)
	})
	d.paid("ch_1", 4)
	d.publish("acct_acme", d.day)
	d.run()
	err := show(t.Context(), db.Reader(), &after)
	if err != nil || during != "0" || after != "54321ms" {
		t.Fatalf("%q during, %q after: %v", during, after, err)
	}
}

// What the judgement of a break prepares stays prepared on the connection, with the plan that it got.
func TestWhoIsToldSearchesByIndexesAsEverybodyDoes(t *testing.T) {
	t.Parallel()
	d := setup(t)
	db := pgtest.Open(t, d.pool.Config().ConnString(), postgres.DefaultLimits())
	d.config.DB = db
	var seen []string
	show := func(ctx context.Context, tx pgx.Tx, _ judge.Break) error {
		var setting string
		err := tx.QueryRow(ctx, "SHOW enable_seqscan").Scan(&setting)
		seen = append(seen, setting)
		return err
	}
	d.config.Payments = evidence(show)
	m := d.paid("ch_1", 4)
	d.publish("acct_acme", d.day)
	d.run()
	d.publish("acct_acme", d.day, lineOf(m))
	d.run()
	if diff := cmp.Diff([]string{"off", "off"}, seen); diff != "" {
		t.Errorf("enable_seqscan is otherwise (-want +got):\n%s", diff)
	}
}

func TestMoreBreaksThanAPageAreAllTold(t *testing.T) {
	t.Parallel()
	d := setup(t)
	var lines []line
	for i := range 2*pageRows + 1 {
		lines = append(lines, line{id: "ch_" + strings.Repeat("x", i%200) + string(rune('a'+i/200)),
			object: gateway.ChargeObject,
			amount: 1, currency: "EUR", status: "succeeded", created: d.at(1)})
	}
	d.publish("acct_acme", d.day, lines...)
	if s := d.run(); int(s.New) != len(lines) || len(d.told) != len(lines) || len(d.breaks()) != len(lines) {
		t.Fatalf("%+v, %d told, %d read", s, len(d.told), len(d.breaks()))
	}
}

func TestRunIsRemembered(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.paid("ch_2", 5)
	d.publish("acct_acme", d.day, lineOf(d.paid("ch_1", 4)))
	s := d.run()
	if d.count(`SELECT count(*) FROM statement_runs WHERE id = $1 AND account = 'acct_acme' AND day = $2 AND status = 'complete'
		AND lines = 1 AND breaks = 1 AND pending = 0 AND finished_at > started_at`, s.ID, d.day) != 1 {
		t.Fatal("it is not there")
	}
}

// A break of another account or another day is not gone because this run has not found it, and it is not told again.
func TestRunSpeaksOfItsOwnAccountsDay(t *testing.T) {
	t.Parallel()
	d := setup(t)
	stranger := line{id: "ch_x", object: gateway.ChargeObject, amount: 5, currency: "EUR", status: "succeeded"}
	for account, days := range map[string][]time.Time{
		"acct_acme": {d.previous(), d.day, d.next()}, "acct_globex": {d.day},
	} {
		for _, day := range days {
			stranger.created = day.Add(time.Hour)
			d.publish(account, day, stranger)
			if s := d.runOf(account, day); s.Breaks != 1 || s.New != 1 || s.Gone != 0 {
				t.Errorf("%s, %s: %+v", account, day, s)
			}
		}
	}
	d.publish("acct_acme", d.day)
	for _, gone := range []int64{1, 0} { // A break that is gone does not go again.
		if s := d.run(); s.Breaks != 0 || s.New != 0 || s.Gone != gone {
			t.Errorf("%+v, want %d gone", s, gone)
		}
	}
	for account, days := range map[string][]time.Time{
		"acct_acme": {d.previous(), d.next()}, "acct_globex": {d.day},
	} {
		for _, day := range days {
			if n := len(d.open(account, day)); n != 1 {
				t.Errorf("%s, %s: %d breaks are open", account, day, n)
			}
		}
	}
	// The totals of three runs have each open break of their days once, and no break that is gone or of another day.
	report := Report{Runs: []Summary{d.runOf("acct_globex", d.day), d.run(), d.runOf("acct_acme", d.next())}}
	if totals, err := d.reconciler().totals(t.Context(), report); err != nil || len(totals) != 1 ||
		totals[0].Breaks != 2 {
		t.Errorf("%+v, %v", totals, err)
	}
}
