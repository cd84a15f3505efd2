package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"payonce/internal/config"
	"payonce/test/pgproxy"
	"payonce/test/wait"
)

// The end of a reconciler, in order and out of order, at the worst moment: when lookups are under way.

// lookingUp is a backlog whose lookups wait at the PSP, and the reconciler that sent them.
func lookingUp(t *testing.T, edit ...func(*config.Reconciler)) (w *world, r *reconciler, held *gate, keys []string) {
	t.Helper()
	var way way
	w = setupOpen(t, shared(noLookups), func(o *options) {
		o.webhooks = false
		o.between = way.wrap
	}, shared(func(c *config.Shared) { c.PSPTotal, c.PSPInFlight = 10*time.Second, 3*64 })) // one account holds a third
	keys = backlog(30, w)
	held = way.hold()
	r = w.reconcile(edit...)
	w.makeDue()
	for range keys {
		held.awaitArrival(t)
	}
	return w, r, held, keys
}

func TestInterruptedReconcilerFinishesItsLookups(t *testing.T) {
	t.Parallel()
	w, r, held, keys := lookingUp(t)
	r.get("/readyz", http.StatusOK)
	r.interrupt()
	eventually(t, "that it is not ready", func() bool {
		status, _ := ask(r.base + "/readyz")
		return status == http.StatusServiceUnavailable
	})
	r.get("/livez", http.StatusOK)
	if n := w.count("SELECT count(*) FROM idempotency_keys WHERE status = 'unknown'"); n != len(keys) {
		t.Fatalf("%d keys are unknown", n)
	}
	held.open()
	r.stop()
	w.resolvedOnce(keys)
	if n := w.count("SELECT count(*) FROM river_job WHERE kind = 'resolve' AND state <> 'completed'"); n != 0 {
		t.Fatalf("%d jobs were left behind", n)
	}
}

func TestAnotherReconcilerTakesOverWhatWasBrokenOff(t *testing.T) {
	t.Parallel()
	w, r, held, keys := lookingUp(t, func(c *config.Reconciler) { c.StopLimit = 100 * time.Millisecond })
	r.interrupt() // at the limit, the lookups are broken off
	wait.For(t, "the reconciler's end", r.over)
	if err := <-r.ended; err != nil {
		t.Logf("ended: %v", err) // lookups that were broken off are said to be
	}
	if n := w.count("SELECT count(*) FROM idempotency_keys WHERE status = 'unknown'"); n != len(keys) {
		t.Fatalf("%d keys are unknown", n)
	}
	held.open()
	w.reconcile()
	w.resolvedOnce(keys)
}

// A process that was killed leaves its jobs as running. They are rescued when that is longer ago than a job may run.
func TestJobsOfADeadReconcilerAreRescued(t *testing.T) {
	if testing.Short() {
		t.Skip("long: it waits for the rescuer of dead jobs")
	}
	t.Parallel()
	w, r, held, keys := lookingUp(t, func(c *config.Reconciler) { c.StopLimit = 100 * time.Millisecond })
	r.interrupt()
	<-r.over
	w.exec(`UPDATE river_job SET state = 'running', attempt = 1, attempted_at = now() - interval '91 seconds', errors = NULL, finalized_at = NULL
		WHERE kind = 'resolve' AND state <> 'completed'`)
	if n := w.count("SELECT count(*) FROM river_job WHERE kind = 'resolve' AND state = 'running'"); n != len(keys) {
		t.Fatalf("%d jobs are running", n)
	}
	held.open()
	w.reconcile()
	w.resolvedOnce(keys)
}

// A supervisor would start it again; but until then nobody sweeps, and a database that restarts takes all reconcilers
// with it at once.
func TestDatabaseThatGoesAwayWhileAReconcilerStartsIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := setup(t)
	proxy := pgproxy.Start(t, w.db.Config().ConnString())
	lost := proxy.OnNext(2, "QueueCreateOrSetUpdatedAt", pgproxy.CutBefore)
	r := w.reconcile(func(c *config.Reconciler) { c.DatabaseURL = proxy.URL() }) // returns when it has swept
	lost.Await(t)
	if !strings.Contains(r.logs.String(), "job queue not started") {
		t.Error("nobody is told of it")
	}
	r.stop()
}

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
