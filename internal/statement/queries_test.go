package statement

import (
	"bytes"
	"strings"
	"testing"

	"payonce/internal/gateway"
	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

// outages has the reconciler's database fail when the test says so.
func (d *fixture) outages() *pgtest.Outage {
	d.t.Helper()
	pool, o := pgtest.WithOutage(d.t, d.pool)
	d.config.DB = postgres.Wrap(pool, patience)
	return o
}

// A run that goes on without a part would say that movements are missing, or that no break is there. The error says
// which part is missing.
func TestRunEndsWithTheStatementThatFails(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.paid("ch_after_midnight", minute)
	d.paid("ch_executed_later", 20, finishedAt(d.at(34)))
	for _, day := range []string{"2026-03-09", "2026-03-10", "2026-03-11"} {
		d.files["acct_acme "+day] = header + "total,0,,,,,,,,,\r\n"
	}
	d.publish("acct_acme", d.day, d.other(gateway.PayoutObject, "po_1", 5000, 12))
	d.payouts["po_1"] = []string{"ch_1"}
	o := d.outages()
	for _, c := range []struct {
		fragment string
		n        int // which of them, if there are more
		says     string
	}{
		{"name: FindAccounts", 1, "list accounts"},
		{"name: TryLock", 1, "account acct_acme, 2026-03-10: run transaction: lock account"},
		{"name: FindAccounts", 2, "find account:"},
		{"SET LOCAL", 1, "make room for lines"},
		{"CREATE TEMP TABLE", 1, "make room for lines"},
		{"COPY", 1, "copy statement"},
		{"ANALYZE statement_lines", 1, "analyze lines"},
		{"name: FetchOurs", 1, "find movements:"},
		{"name: FetchCharges", 1, "find the payments that others have changed"},
		{"name: FetchStrangers", 1, "find movements of other tenants"},
		{"ANALYZE statement_ours", 1, "analyze movements"},
		{"name: AdoptByPSPID", 1, "take lines for movements by the PSP's id"},
		{"name: WriteLineBreaks", 1, "compare lines"},
		{"name: FindAbsent", 1, "find movements of the day"},
		{"name: ForgetBooked", 1, "forget the lines of an earlier run"},
		{"name: KeepBooked", 1, "keep lines"},
		{"name: DayPayouts", 1, "find payouts"},
		{"savepoint", 1, "keep what po_1 has paid: begin savepoint"},
		{"savepoint", 2, "keep what po_1 has paid"},
		{"name: KeepPaid", 1, "keep what po_1 has paid"},
		{"name: ForgetPresent", 1, "look for the absent"},
		{"name: CountAbsent", 1, "count absent movements"},
		{"name: FetchOurs", 2, "look into 2026-03-09: find movements"},
		{"name: ForgetPresent", 2, "look for the absent"},
		{"name: CountAbsent", 2, "count absent movements"},
		{"name: FetchOurs", 3, "look into 2026-03-11: find movements"},
		{"name: ForgetPresent", 3, "look for the absent"},
		{"name: CountAbsent", 3, "count absent movements"},
		{"name: WriteAbsences", 1, "write absences"},
		{"name: ForgetPending", 1, "forget pending movements"},
		{"name: ForgetListed", 1, "forget listed movements"},
		{"name: WritePending", 1, "write pending movements"},
		{"enable_seqscan = on", 2, "let the run scan"},
		{"name: MarkGone", 1, "mark what has gone"},
		{"enable_seqscan TO DEFAULT", 1, "end scans"},
		{"name: WriteRun", 1, "write run"},
		{"name: OpenBreaks", 1, "read breaks"},
	} {
		o.On(c.fragment, c.n)
		report, err := d.reconciler().Run(t.Context(), d.day, "acct_acme")
		if err == nil || !strings.Contains(err.Error(), c.says) || len(report.Runs) != 0 {
			t.Errorf("%s, %d: %+v, %v", c.fragment, c.n, report.Runs, err)
		}
		if got := d.persisted(); got != "" || len(d.told) != 0 {
			t.Fatalf("%s, %d: told %v, written\n%s", c.fragment, c.n, d.told, got)
		}
	}
	o.Over()
	d.run()
	d.want("missing_there ch_after_midnight", "missing_there ch_executed_later")
}

// A report without its totals or without its breaks looks like a report of books that agree.
func TestReadOfWhatWasFoundEndsWithTheStatementThatFails(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.plant()
	report, err := d.reconciler().Run(t.Context(), d.day, "acct_acme")
	if err != nil {
		t.Fatal(err)
	}
	o := d.outages()
	r := d.reconciler()
	for fragment, c := range map[string]struct {
		says string
		read func() error
	}{
		"name: Totals": {"sum up breaks", func() error { return r.Write(t.Context(), &bytes.Buffer{}, report, CSV) }},
		"name: OpenBreaks": {"write report: read breaks",
			func() error { return r.Write(t.Context(), &bytes.Buffer{}, report, JSON) }},
		"name: MissingDays": {"list days without a run",
			func() error { _, err := r.Due(t.Context(), 2); return err }},
		"SELECT payonce_now()": {"read clock", func() error { _, err := r.Due(t.Context(), 2); return err }},
	} {
		o.On(fragment, 1)
		if err := c.read(); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", fragment, err)
		}
	}
}

// A list of due days without a part looks as if those days were judged.
func TestListOfDueDaysEndsWithTheStatementThatFails(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.paid("", 10, open)
	d.publishDays(1)
	d.jobsUpTo(d.next())
	d.becomes(m, "declined", "ch_1", d.at(11))
	o := d.outages()
	for fragment, says := range map[string]string{
		"name: FindAccounts":   "list accounts",
		"name: ListPending":    "account acct_acme: list pending movements",
		"name: FinalMovements": "account acct_acme: find final movements",
	} {
		o.On(fragment, 1)
		if _, err := d.reconciler().Due(t.Context(), 2); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", fragment, err)
		}
	}
	o.Over()
	// An outage does not see the statements of a pipeline.
	d.exec("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'kept'; END $$")
	d.exec("CREATE TRIGGER refuse BEFORE DELETE ON statement_pending EXECUTE FUNCTION refuse()")
	if _, err := d.reconciler().Due(t.Context(), 2); err == nil ||
		!strings.Contains(err.Error(), "account acct_acme: forget movements that were not executed") {
		t.Errorf("the movements are kept: %v", err)
	}
	d.exec("DROP TRIGGER refuse ON statement_pending")
	if _, err := d.reconciler().Due(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if n := d.count("SELECT count(*) FROM statement_pending"); n != 0 {
		t.Errorf("%d movements are still pending", n)
	}
}
