package e2e

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"payonce/internal/config"
)

// Several of everything, on one database.

// another is a second API process on the same database and PSP.
func (w *world) another() *world {
	w.t.Helper()
	return setup(w.t, func(o *options) {
		o.url = w.db.Config().ConnString()
		o.settings = func(c *config.API) { *c = w.own }
	})
}

// figure reads a metric from the reconciler's own listener, as Prometheus would; 0 if it is not there.
func (r *reconciler) figure(name string) float64 {
	r.t.Helper()
	n, _ := figureIn(r.t, r.get("/metrics", http.StatusOK), name)
	return n
}

func (r *reconciler) get(path string, want int) string {
	r.t.Helper()
	status, body := ask(r.base + path)
	if status != want {
		r.t.Fatalf("%s answers %d, want %d: %s", path, status, want, body)
	}
	return body
}

// backlog makes n unknown keys at several APIs, which nobody looks up yet.
func backlog(n int, at ...*world) (keys []string) {
	w := at[0]
	w.t.Helper()
	var all sync.WaitGroup
	slots := make(chan struct{}, 16)
	for i := range n {
		key := freshKey()
		keys = append(keys, key)
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			if r, err := at[i%len(at)].try(paymentOf(key, "pm_reset_charged")); err != nil ||
				r.status != http.StatusAccepted {
				w.t.Errorf("answered %d %s: %v", r.status, r.body, err)
			}
		})
	}
	all.Wait()
	return keys
}

// makeDue has all unknown keys looked up from now on.
func (w *world) makeDue() {
	w.t.Helper()
	w.exec("UPDATE idempotency_keys SET reconcile_after = payonce_now() WHERE status = 'unknown'")
}

// resolvedOnce waits for each key's end, and checks that there was one.
func (w *world) resolvedOnce(keys []string) {
	w.t.Helper()
	eventually(w.t, "the end of the backlog", func() bool {
		return w.count("SELECT count(*) FROM idempotency_keys WHERE key = ANY ($1) AND status = 'completed'",
			keys) == len(keys)
	})
	if n := w.count(`SELECT count(*) FROM (SELECT 1 FROM idempotency_key_events WHERE key = ANY ($1) AND to_status = 'completed' AND from_status = 'unknown'
		GROUP BY key HAVING count(*) = 1) AS once`, keys); n != len(keys) {
		w.t.Fatalf("%d of %d keys have one line for their end", n, len(keys))
	}
	if n := w.count("SELECT count(DISTINCT psp_charge_id) FROM payments WHERE idempotency_key = ANY ($1) AND status = 'succeeded'", keys); n != len(keys) {
		w.t.Fatalf("%d of %d payments have succeeded", n, len(keys))
	}
	for _, key := range keys {
		if l := w.ledger("acme", key); len(l.Charges) != 1 || w.pspPosts("acme", key) != 1 {
			w.t.Fatalf("the PSP was asked %d times and has %+v", w.pspPosts("acme", key), l)
		}
	}
}

func TestTwoAPIsAndTwoReconcilersResolveABacklogOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("long: a backlog of two hundred keys")
	}
	t.Parallel()
	w := setupOpen(t, shared(noLookups), func(o *options) { o.webhooks = false })
	other := w.another()
	keys := backlog(200, w, other)
	crew := []*reconciler{w.reconcile(), w.reconcile()}
	w.makeDue()
	began := time.Now()
	w.resolvedOnce(keys)
	t.Logf("%d keys were resolved in %s", len(keys), time.Since(began).Round(time.Millisecond))
	// A reconciler counts after its commit, so the count may come after the key's end. On a slow machine the grace
	// period is over before the lookups begin: then the scan at the start may be first.
	eventually(t, "the count of the resolved keys", func() bool {
		total := 0.0
		for _, r := range crew {
			for _, source := range []string{"lookup", "scan"} {
				total += r.figure(`payonce_idempotency_reconcile_total{result="resolved",source="` + source + `"}`)
			}
		}
		return total == float64(len(keys))
	})
	for i, key := range []string{keys[0], keys[len(keys)-1]} {
		at := []*world{other, w}[i] // at the API that did not take it
		w.replaysSuccess(key, func() reply { return at.pay(key, "pm_reset_charged") })
	}
}

// A statement about the rows of two tenants is refused where these lie on two servers.
func TestKeysOfTwoTenantsAreSweptTogether(t *testing.T) {
	t.Parallel()
	w := setupOpen(t, shared(noLookups))
	w.exec("UPDATE tenants SET tells = true")
	for _, tenant := range []string{"acme", "globex"} {
		w.exec(`INSERT INTO idempotency_keys (tenant_id, operation, key, status, fingerprint, attempt, generation, lease_id, subject, created_at, reserved_at, locked_until, expires_at)
			VALUES ($1, 'POST /payments', 'key-of-two-tenants', 'in_progress', sha256('x'), 1, 1, gen_random_uuid(), gen_random_uuid(), now(), now(), now(), now() + interval '1 day')`, tenant)
	}
	w.reconcile()
	eventually(t, "both keys' becoming unknown", func() bool {
		return w.count("SELECT count(*) FROM idempotency_keys WHERE key = 'key-of-two-tenants' AND status = 'unknown'") == 2
	})
}

// An owner, a webhook, two reconcilers, five retries and three operators who do not agree are after one key.
func TestAllAtOnceComeToOneOutcome(t *testing.T) {
	t.Parallel()
	var way way
	held := answerGate{newGate()}
	w := setupOpen(t, unhurriedOwner, shared(soon), shared(longLease), func(o *options) {
		o.between = func(psp http.Handler) http.Handler { return way.wrap(held.wrap(psp)) }
	})
	w.disorder(`"drop":1`)
	w.reconcile()
	w.reconcile()
	other, d := w.another(), w.openOps()
	way.deaf.Store(true)
	key := freshKey()
	owner := w.inBackground(paymentOf(key, "pm_ok"))
	held.awaitArrival(t)
	w.endLease(key)
	l := d.find("lookups_exhausted", key)

	var all sync.WaitGroup
	retries, results := make(chan reply, 5), make(chan reply, 3)
	start := make(chan struct{})
	at := func(do func()) {
		all.Go(func() {
			<-start
			do()
		})
	}
	for i := range cap(retries) {
		at(func() {
			r, err := []*world{w, other}[i%2].try(paymentOf(key, "pm_ok"))
			if err != nil {
				t.Error(err)
			}
			retries <- r
		})
	}
	for _, action := range []string{"executed", "not_executed", "retry"} {
		at(func() {
			r, err := d.try("POST", "/dead-letters/"+l.ID+"/resolve", resolvingKey, decision(action, l.Version))
			if err != nil {
				t.Error(err)
			}
			results <- r
		})
	}
	at(held.open)
	at(func() { w.sendWebhook(w.ledger("acme", key).Charges[0].ID, "") })
	way.deaf.Store(false)
	close(start)
	all.Wait()
	close(retries)
	close(results)
	w.becomes(key, "completed")
	w.oneOutcome(key, append(drained(retries), <-owner), drained(results))
	audit := d.show(l.ID).Audit
	byPeople := 0
	for _, a := range audit { // If evidence was faster than all three, the reconciler has closed it.
		if a.Action != "answered" {
			byPeople++
		}
	}
	if byPeople != 3 || len(audit) > 4 {
		t.Fatalf("audited is %+v", audit)
	}
}

func drained(replies <-chan reply) (all []reply) {
	for r := range replies {
		all = append(all, r)
	}
	return all
}

// oneOutcome checks that all clients were told the same, at most one decision was taken, and the money moved once.
func (w *world) oneOutcome(key string, told, results []reply) {
	w.t.Helper()
	final := w.pay(key, "pm_ok")
	final.expect(w.t, http.StatusCreated, "")
	for _, r := range told {
		if r.status == http.StatusCreated {
			r.same(w.t, final)
		} else if r.status != http.StatusAccepted {
			w.t.Fatalf("answered %d %s", r.status, r.body)
		}
	}
	decided := 0
	for _, r := range results {
		if r.status == http.StatusOK {
			decided++
		}
	}
	if decided > 1 {
		w.t.Fatalf("%d operators have resolved one dead letter", decided)
	}
	ends := 0
	for _, move := range w.moves(key) {
		if strings.HasSuffix(move, " > completed") {
			ends++
		}
		if strings.HasSuffix(move, "failed_retryable") {
			w.t.Fatalf("the key was released: %q", w.moves(key))
		}
	}
	if ends != 1 || w.pspPosts("acme", key) != 1 || len(w.ledger("acme", key).Charges) != 1 {
		w.t.Fatalf("after %q the PSP has %+v", w.moves(key), w.ledger("acme", key))
	}
	w.replaysSuccess(key, func() reply { return w.pay(key, "pm_ok") })
}
