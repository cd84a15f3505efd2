package e2e

import (
	"net/http"
	"testing"
)

// What becomes of jobs that fail for good.

func TestJobThatIsGivenUpIsADeadLetterAndRunsAgainWhenAnOperatorSaysSo(t *testing.T) {
	t.Parallel()
	w := setupOpen(t)
	d := w.openOps()
	w.signed("evt_fails", chargeEvent("succeeded", "ch_orphan", "somebody-elses-key", "invoice-7"))
	// It fails at its end, for a reason that nobody has thought of, and its next attempt is the last.
	w.exec("ALTER TABLE webhook_events ADD CONSTRAINT never_processed CHECK (processed_at IS NULL) NOT VALID")
	w.exec("UPDATE river_job SET attempt = max_attempts - 1 WHERE kind = 'webhook'")
	w.reconcile()
	l := d.find("job_discarded", "")
	if n := w.count("SELECT count(*) FROM dead_letters WHERE kind = 'job_discarded' AND evidence ->> 'kind' = 'webhook' AND evidence -> 'args' ->> 'eventId' = 'evt_fails'"); n != 1 {
		t.Fatal("the dead letter does not tell which job")
	}
	w.exec("ALTER TABLE webhook_events DROP CONSTRAINT never_processed")
	d.resolve(l, "retry").expect(t, http.StatusOK, "")
	w.processed(1)
	d.find("unknown_movement", "")
	if shown := d.show(l.ID); shown.Status != "resolved" {
		t.Fatalf("dead letter is %+v", shown)
	}
	if n := w.deadLetters("job_discarded", ""); n != 0 {
		t.Fatalf("%d dead letters are open", n)
	}
}

// The dead letter is written by the statement that gives the job up: there is no moment at which one of them is without
// the other.
func TestDiscardAndDeadLetterAreOneStatement(t *testing.T) {
	t.Parallel()
	w := setupOpen(t)
	w.signed("evt_fails", `{"type":"payout.paid","data":{"id":"po_1"}}`)
	discard := "UPDATE river_job SET state = 'discarded', finalized_at = now() WHERE kind = 'webhook'"
	w.exec("BEGIN; " + discard + "; ROLLBACK")
	if n := w.deadLetters("job_discarded", ""); n != 0 {
		t.Fatal("a dead letter without a discarded job")
	}
	w.exec(discard)
	if n := w.deadLetters("job_discarded", ""); n != 1 {
		t.Fatal("a discarded job without a dead letter")
	}
}

func TestRunOfTheScheduleThatFailsIsNoCase(t *testing.T) {
	t.Parallel()
	var way way
	w := setupOpen(t, func(o *options) { o.between = way.wrap })
	way.deaf.Store(true)
	w.reconcile(scanning)
	eventually(t, "two scans that are given up", func() bool {
		return w.count("SELECT count(*) FROM river_job WHERE kind = 'scan_ledger' AND state = 'discarded' AND max_attempts = 1") >= 2
	})
	if n := w.deadLetters("job_discarded", ""); n != 0 {
		t.Fatalf("%d dead letters", n)
	}
	way.deaf.Store(false)
	eventually(t, "a scan that works", func() bool { return w.scans() > 0 })
}
