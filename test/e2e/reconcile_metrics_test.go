package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// The figures by which one sees from outside what has happened.

// shows waits until a scrape shows the figure: a scrape reads the backlog again only every few seconds.
func (r *reconciler) shows(name string, want float64) {
	r.t.Helper()
	eventually(r.t, name, func() bool { return r.figure(name) == want })
}

func TestFiguresTellWhatWasReconciled(t *testing.T) {
	t.Parallel()
	w := setupOpen(t, shared(soon))
	r := w.reconcile(scanning, pruning)
	r.get("/readyz", http.StatusOK)
	r.get("/livez", http.StatusOK)
	w.disorder(`"drop":1`)
	looked, silent, done := freshKey(), freshKey(), freshKey()
	w.pay(looked, "pm_reset_charged").expect(t, http.StatusAccepted, "")
	w.pay(silent, "pm_stuck").expect(t, http.StatusAccepted, "")
	w.becomes(looked, "completed")
	w.awaitDeadLetter("lookups_exhausted", silent)
	w.pay(done, "pm_ok").expect(t, http.StatusCreated, "")
	w.endRetention(done)
	w.becomes(done, "expired")
	w.disorder("")
	w.chargeByHand("acme", "somebody-elses-key", "invoice-7")
	w.awaitDeadLetter("unknown_movement", "")
	w.processed(1)

	r.shows(`payonce_idempotency_keys{status="unknown"}`, 1)
	r.shows(`payonce_idempotency_keys{status="completed"}`, 1)
	r.shows(`payonce_idempotency_keys{status="expired"}`, 1)
	r.shows(`payonce_dead_letters_open{kind="lookups_exhausted"}`, 1)
	r.shows(`payonce_dead_letters_open{kind="unknown_movement"}`, 1)
	r.shows(`payonce_idempotency_reconcile_total{result="resolved",source="lookup"}`, 1)
	r.shows(`payonce_idempotency_ttl_pruned_total`, 1)
	r.shows(`payonce_webhook_lag_seconds_count`, 1)
	for _, name := range []string{
		"payonce_idempotency_unknown_oldest_age_seconds", "payonce_dead_letter_oldest_age_seconds",
		`payonce_idempotency_reconcile_total{result="scheduled",source="lookup"}`,
		`payonce_idempotency_reconcile_total{result="failed",source="lookup"}`,
		`payonce_psp_request_duration_seconds_count{outcome="lookup_found"}`,
		`payonce_psp_request_duration_seconds_count{outcome="lookup_failed"}`,
		`payonce_ledger_discrepancies_total{kind="unknown_movement"}`,
		`payonce_job_duration_seconds_count{kind="resolve",result="done"}`,
	} {
		if r.figure(name) <= 0 {
			t.Errorf("%s is %g", name, r.figure(name))
		}
	}
	if n := w.metric(`payonce_webhooks_total{result="stored"}`); n != 1 {
		t.Errorf("%d webhooks were counted", n)
	}
	wantNames(t, r.get("/metrics", http.StatusOK), w.operator("/metrics"))
}

// wantNames checks that every family of the design is there, at the process that it belongs to, and that nobody is
// named by one.
func wantNames(t *testing.T, reconciler string, api reply) {
	t.Helper()
	both := []string{
		"idempotency_keys", "idempotency_unknown_oldest_age_seconds", "dead_letters_open",
		"dead_letter_oldest_age_seconds", "psp_request_duration_seconds", "fenced_writes_total",
		"commit_ambiguous_total",
	}
	for text, names := range map[string][]string{
		reconciler: append(slices.Clone(both), "idempotency_reconcile_total", "idempotency_zombie_keys_total",
			"idempotency_ttl_pruned_total",
			"webhook_lag_seconds", "ledger_discrepancies_total"),
		string(api.body): append(slices.Clone(both), "idempotency_reserve_total", "webhooks_total",
			"http_request_duration_seconds"),
	} {
		for _, name := range names {
			if !strings.Contains(text, "# TYPE payonce_"+name+" ") {
				t.Errorf("there is no payonce_%s", name)
			}
		}
		if strings.Contains(text, "acme") {
			t.Error("a tenant is told by the metrics")
		}
	}
}

func TestSweptKeysAreCounted(t *testing.T) {
	t.Parallel()
	var way way
	held := answerGate{newGate()}
	w := setupOpen(t, unhurriedOwner, shared(longLease), func(o *options) {
		o.between = func(psp http.Handler) http.Handler { return way.wrap(held.wrap(psp)) }
	})
	w.disorder(`"drop":1`)
	way.deaf.Store(true)
	r := w.reconcile()
	key := freshKey()
	owner := w.inBackground(paymentOf(key, "pm_ok"))
	held.awaitArrival(t)
	w.endLease(key)
	w.becomes(key, "unknown")
	w.wantMoves(key, "sweeper: in_progress > unknown")
	r.shows("payonce_idempotency_zombie_keys_total", 1)
	held.open()
	(<-owner).expect(t, http.StatusCreated, "") // late, and with a success
	w.wantMoves(key, "sweeper: in_progress > unknown", "owner: unknown > completed")
	w.replaysSuccess(key, func() reply { return w.pay(key, "pm_ok") })
}
