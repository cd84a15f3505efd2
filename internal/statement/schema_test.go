package statement

import (
	"testing"

	"payonce/internal/postgres"
)

// What no program of ours writes is refused, so that who reads the books need not ask what it means.
func TestTablesRefuseWhatIsNoRun(t *testing.T) {
	t.Parallel()
	d := setup(t)
	insert := func(table, columns, values string) error {
		_, err := d.pool.Exec(t.Context(), "INSERT INTO "+table+" ("+columns+") VALUES ("+values+")")
		return err
	}
	run := func(values string) error {
		return insert("statement_runs", "id, account, day, started_at, status, lines, breaks, pending",
			"gen_random_uuid(), 'acct_acme', '2026-03-10', now(), "+values)
	}
	found := func(object, kind string) error {
		return insert("statement_breaks", `account, day, object, kind, psp_id, reference, other_tenant, lines, moved_at,
			first_seen, last_seen, raised_by, seen_by`, "'acct_acme', '2026-03-10', '"+object+"', '"+kind+
			"', 'ch_1', '', false, 1, now(), now(), now(), gen_random_uuid(), gen_random_uuid()")
	}
	walk := func(values string) error {
		return insert("ledger_watermarks", "account, object, failed_runs, scanned_to", values+", now()")
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{run("'complete', 0, 0, 0"), ""},
		{run("'begun', 0, 0, 0"), "statement_runs_status_check"},
		{run("'complete', -1, 0, 0"), "statement_runs_lines_check"},
		{run("'complete', 0, -1, 0"), "statement_runs_breaks_check"},
		{run("'complete', 0, 0, -1"), "statement_runs_pending_check"},
		{found("charge", "amount"), ""},
		{found("charge", "amount"), "statement_breaks_once"},
		{found("payout", "amount"), "statement_breaks_object_check"},
		{found("charge", "date"), "statement_breaks_kind_known"},
		{walk("'acct_acme', 'charge', 0"), ""},
		{walk("'acct_acme', 'payout', 0"), "ledger_watermarks_object_check"},
		{walk("'acct_acme', 'refund', -1"), "ledger_watermarks_failed_runs"},
	} {
		if c.want == "" && c.err != nil || c.want != "" && !postgres.Violates(c.err, c.want) {
			t.Errorf("got %v, want %q", c.err, c.want)
		}
	}
}
