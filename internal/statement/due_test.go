package statement

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
	"payonce/internal/statement/internal/dbsqlc"
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

// silent is a PSP without statements: only its traits are those of another one.
type silent struct{ gateway.PSP }

// Its days would fail every hour and end in a dead letter each, for a file that never comes.
func TestNoDayIsDueOfAnAccountWhosePSPPublishesNothing(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.exec("INSERT INTO tenants (id, psp, psp_account) VALUES ('initech', 'silent', 'acct_initech')")
	d.exec("UPDATE tenants SET created_at = payonce_now() - interval '9 days'")
	quiet := silent{d.config.PSPs.Of(native.Name)}
	d.config.PSPs["silent"] = gateway.Observed(quiet, time.Now, func(string, time.Duration) {})
	d.exec(`INSERT INTO statement_runs (id, account, day, started_at, status, lines, breaks, pending)
		VALUES (gen_random_uuid(), 'acct_initech', $1, payonce_now(), 'complete', 0, 0, 1)`, d.day)
	d.exec("INSERT INTO statement_pending VALUES ('acct_initech', $1, 'charge', $2)", d.previous(),
		d.paid("ch_i", -40, func(m *movement) { m.tenant = "initech" }).id)
	accounts := func() []string {
		due, err := d.reconciler().Due(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, day := range due {
			names = append(names, day.Account)
		}
		return slices.Compact(names)
	}
	if got := accounts(); !slices.Equal(got, []string{"acct_acme", "acct_globex"}) {
		t.Errorf("days of %v are due", got)
	}
	delete(d.config.PSPs, "silent") // It may have statements. A process without its settings must be noticed.
	if got := accounts(); !slices.Contains(got, "acct_initech") {
		t.Errorf("without settings, days of %v are due", got)
	}
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

// Another account's pending day would be judged with the wrong statement. A day is judged again only for its own
// movement, and only if the statements are there.
func TestOnlyTheAccountsOwnFinalMovementsAreRipe(t *testing.T) {
	t.Parallel()
	d := setup(t)
	pending := func(account string, day time.Time, m movement) {
		d.exec("INSERT INTO statement_pending VALUES ($1, $2, $3, $4)", account, day, m.object, m.id)
	}
	if ripe := d.ripe(); len(ripe) != 0 {
		t.Fatalf("without a run, %v", ripe)
	}
	final, later := d.paid("ch_1", -40), d.paid("ch_2", -40, finishedAt(d.at(24)))
	for account, days := range map[string][]time.Time{"acct_acme": {d.previous(), d.day}, "acct_globex": {d.next()}} {
		for _, day := range days {
			d.exec(`INSERT INTO statement_runs (id, account, day, started_at, status, lines, breaks, pending)
				VALUES (gen_random_uuid(), $1, $2, payonce_now(), 'complete', 0, 0, 1)`, account, day)
		}
	}
	d.exec(`INSERT INTO statement_runs (id, account, day, started_at, status, lines, breaks, pending)
		VALUES (gen_random_uuid(), 'acct_acme', $1, payonce_now(), 'partial', 0, 0, 1)`, d.next())
	pending("acct_acme", d.previous(), final)
	pending("acct_acme", d.at(-48), later)
	pending("acct_acme", d.day, final) // was judged last
	pending("acct_acme", d.at(-72), d.paid("", -60, open))
	pending("acct_acme", d.at(-72), d.paid("", -60, func(m *movement) { m.status = "failed" }))
	pending("acct_acme", d.at(-96), d.paid("ch_g", -90, globex))
	pending("acct_globex", d.at(-120), final)
	want := []Due{{"acct_acme", d.previous()}}
	if diff := cmp.Diff(want, d.ripe()); diff != "" {
		t.Fatalf("other days are ripe (-want +got):\n%s", diff)
	}
}

// A day is read once for all of its movements, also if they fill several pages.
func TestRipeDayIsListedOnce(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.paid("ch_1", -40)
	d.exec(`INSERT INTO statement_runs (id, account, day, started_at, status, lines, breaks, pending)
		VALUES (gen_random_uuid(), 'acct_acme', $1, payonce_now(), 'complete', 0, 0, 1)`, d.day)
	d.exec(`INSERT INTO statement_pending SELECT 'acct_acme', $1::date - 3 + n % 3, 'charge', $2 FROM generate_series(0, 2) AS n`,
		d.day, m.id)
	d.exec(`INSERT INTO statement_pending SELECT 'acct_acme', $1::date - 3 + n % 3, 'charge', gen_random_uuid()
		FROM generate_series(1, 6 * $2::integer) AS n`, d.day, pageRows)
	d.exec(`INSERT INTO statement_pending VALUES ('acct_acme', $1::date - 2, 'refund', $2)`, d.day,
		d.paid("rf_1", -40, refund).id)
	want := []Due{{"acct_acme", d.at(-72)}, {"acct_acme", d.at(-48)}, {"acct_acme", d.at(-24)}}
	if diff := cmp.Diff(want, d.ripe()); diff != "" {
		t.Fatalf("other days are ripe (-want +got):\n%s", diff)
	}
}
