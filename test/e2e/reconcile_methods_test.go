package e2e

import (
	"bytes"
	"net/http"
	"testing"
	"time"

	"payonce/test/pgtest"
)

// ending is how a fault of the PSP's ends, once nobody but the reconciler is at work.
type ending struct {
	fault string
	first int // status of the first answer
	ends  func(w *world, key string, retry func() reply)
}

// Every way in which an outcome can be lost, by the token that picks it. See the test tokens in docs/by_hand.md.
func endings() []ending {
	return []ending{
		{"pm_ok", http.StatusCreated, live},
		{"pm_slow", http.StatusCreated, live},
		{"pm_declined", http.StatusPaymentRequired, live},
		{"pm_timeout_charged", http.StatusAccepted, resolvedBy("webhook")},
		{"pm_silent_charged", http.StatusAccepted, resolvedBy("lookup")},
		{"pm_500_charged", http.StatusAccepted, resolvedBy("webhook")},
		{"pm_reset_charged", http.StatusAccepted, resolvedBy("webhook")},
		{"pm_late_charge", http.StatusAccepted, resolvedBy("webhook")},
		{"pm_timeout_not_charged", http.StatusAccepted, releasedAndCharged},
		{"pm_500_not_charged", http.StatusAccepted, releasedAndCharged},
		{"pm_never", http.StatusAccepted, releasedAndLost},
		{"pm_wrong_amount", http.StatusAccepted, leftToOperator("psp_contradicts_request")},
		{"pm_stuck", http.StatusAccepted, leftToOperator("lookups_exhausted")},
	}
}

// live was never lost.
func live(w *world, key string, retry func() reply) {
	w.t.Helper()
	w.wantNeverLost(key)
	first := retry()
	retry().same(w.t, first)
	if n := w.pspPosts("acme", key); n != 1 {
		w.t.Fatalf("the PSP was asked %d times", n)
	}
}

// resolvedBy was executed, and this is who brings the evidence.
func resolvedBy(actor string) func(*world, string, func() reply) {
	return func(w *world, key string, retry func() reply) {
		w.t.Helper()
		if k := w.becomes(key, "completed"); k.Attempt != 1 {
			w.t.Fatalf("key is %+v", k)
		}
		w.wantMoves(key, "owner: in_progress > unknown", actor+": unknown > completed")
		w.replaysSuccess(key, retry)
		if n := w.pspPosts("acme", key); n != 1 {
			w.t.Fatalf("the PSP was asked %d times", n)
		}
	}
}

// released was not executed: after the grace period, and not before, the key is free for another attempt.
func released(w *world, key string) {
	w.t.Helper()
	w.becomes(key, "failed_retryable")
	w.wantMoves(key, "owner: in_progress > unknown", "lookup: unknown > failed_retryable")
	if n := w.count(`SELECT count(*) FROM idempotency_key_events AS free JOIN idempotency_key_events AS lost USING (tenant_id, operation, key)
		WHERE key = $1 AND free.to_status = 'failed_retryable' AND lost.from_status = 'in_progress' AND free.at >= lost.at + $2::interval`,
		key, gracePeriod()-linesLate()); n != 1 {
		w.t.Fatal("the key was released before the grace period was over")
	}
	shown := w.do(call{method: "GET", path: w.resource(key)})
	if shown.text(w.t, "status") != "failed" {
		w.t.Fatalf("shown is %s", shown.body)
	}
	if n := w.pspPosts("acme", key); n != 1 {
		w.t.Fatalf("the PSP was asked %d times before there was a retry", n)
	}
}

// releasedAndCharged: the outage is over when the client repeats its request.
func releasedAndCharged(w *world, key string, retry func() reply) {
	w.t.Helper()
	released(w, key)
	first := retry()
	first.expect(w.t, http.StatusCreated, "")
	retry().same(w.t, first)
	w.wantAttempts(key, 2)
	l := w.ledger("acme", key)
	if moved := append(l.Charges, l.Refunds...); len(moved) != 1 || moved[0].Status != "succeeded" {
		w.t.Fatalf("the PSP's ledger has %+v", l)
	}
}

// releasedAndLost: the same as before happens to the client's next request.
func releasedAndLost(w *world, key string, retry func() reply) {
	w.t.Helper()
	released(w, key)
	retry().expect(w.t, http.StatusAccepted, "")
	w.wantAttempts(key, 2)
}

// wantAttempts is how often a key of the first generation was executed, and so how often the PSP was asked.
func (w *world) wantAttempts(key string, want int) {
	w.t.Helper()
	if k, posts := w.keyRow(key), w.pspPosts("acme", key); k.Attempt != want || k.Generation != 1 || posts != want {
		w.t.Fatalf("the key is %+v, and the PSP was asked %d times, want %d", k, posts, want)
	}
}

// leftToOperator is nothing that can be decided without one. Until then nobody executes it again.
func leftToOperator(kind string) func(*world, string, func() reply) {
	return func(w *world, key string, retry func() reply) {
		w.t.Helper()
		w.awaitDeadLetter(kind, key)
		retry().expect(w.t, http.StatusAccepted, "")
		w.wantMoves(key, "owner: in_progress > unknown")
		if n := w.pspPosts("acme", key); n != 1 {
			w.t.Fatalf("the PSP was asked %d times", n)
		}
	}
}

// resource is the path of what a key stands for, as the API tells.
func (w *world) resource(key string) string {
	w.t.Helper()
	operation := createOperation
	if w.count("SELECT count(*) FROM refunds WHERE idempotency_key = $1", key) == 1 {
		operation = refundOperation
	}
	return w.inspect(key, operation).text(w.t, "resource")
}

// endByThemselves sends a call for each fault at once, and then looks what becomes of each.
func endByThemselves(t *testing.T, w *world, of func(key, fault string) call) {
	t.Helper()
	endEach(t, w, endings(), of)
}

func endEach(t *testing.T, w *world, cases []ending, of func(key, fault string) call) {
	t.Helper()
	keys, firsts := map[string]string{}, map[string]<-chan reply{}
	began := time.Now()
	for _, c := range cases {
		keys[c.fault] = freshKey()
		firsts[c.fault] = w.inBackground(of(keys[c.fault], c.fault))
	}
	for _, c := range cases {
		t.Run(c.fault, func(t *testing.T) {
			w := w.in(t)
			key := keys[c.fault]
			retry := func() reply { return w.do(of(key, c.fault)) }
			first := <-firsts[c.fault]
			if c.first == http.StatusAccepted && first.status == http.StatusCreated {
				// On a busy machine the webhook may be faster than the timeout. Then the request has its answer.
				w.wantMoves(key, "webhook: in_progress > completed")
				live(w, key, retry)
				return
			}
			first.expect(t, c.first, "")
			c.ends(w, key, retry)
			var seconds float64
			err := w.db.QueryRow(t.Context(), `SELECT coalesce(extract(epoch FROM max(e.at) - k.created_at), 0)::float8
				FROM idempotency_keys AS k LEFT JOIN idempotency_key_events AS e USING (tenant_id, operation, key) WHERE k.key = $1 AND e.attempt = 1 GROUP BY k.created_at`,
				key).Scan(&seconds)
			if err == nil {
				t.Logf("ended after %.2f s", seconds)
			}
		})
	}
	t.Logf("all ended within %s", time.Since(began).Round(time.Millisecond))
}

func TestEveryPaymentMethodEndsByItself(t *testing.T) {
	t.Parallel()
	w := setupOpen(t)
	w.reconcile()
	endByThemselves(t, w, paymentOf)
}

func TestEveryFaultOfARefundEndsByItself(t *testing.T) {
	if testing.Short() {
		t.Skip("long: every fault, to its end")
	}
	t.Parallel()
	w := setupOpen(t)
	w.reconcile()
	payments := map[string]string{}
	for _, c := range endings() {
		payments[c.fault] = w.paid()
	}
	endByThemselves(t, w, func(key, fault string) call {
		return refundOf(payments[fault], key, `{"amountCents":5000,"reason":"`+fault+`"}`)
	})
}

func TestDeclineThatWasLostIsAnsweredAsALiveOne(t *testing.T) {
	t.Parallel()
	var way way
	w := setupOpen(t, func(o *options) { o.between = way.wrap })
	w.reconcile()
	first := freshKey()
	livePayment := w.pay(first, "pm_declined")
	livePayment.expect(t, http.StatusPaymentRequired, "payment_declined")

	keys := map[string]string{"webhook": freshKey(), "lookup": freshKey()}
	for actor, key := range keys {
		if actor == "lookup" {
			w.disorder(`"drop":1`)
		} else {
			w.disorder("")
		}
		way.loseAnswers(key)
		w.pay(key, "pm_declined").expect(t, http.StatusAccepted, "")
		if actor == "webhook" {
			w.becomes(key, "completed")
		}
	}
	for actor, key := range keys {
		w.becomes(key, "completed")
		w.wantMoves(key, "owner: in_progress > unknown", actor+": unknown > completed")
		r := w.pay(key, "pm_declined")
		r.expect(t, http.StatusPaymentRequired, "payment_declined")
		id := r.text(t, "paymentId")
		if want := bytes.ReplaceAll(livePayment.body, []byte(livePayment.text(t, "paymentId")),
			[]byte(id)); !bytes.Equal(r.body, want) {
			t.Fatalf("a decline that was found by %s is\n%s\na live one would be\n%s", actor, r.body, want)
		}
		if r.header.Get("Idempotent-Replayed") != "true" || r.header.Get("Location") != "/payments/"+id ||
			r.header.Get("Content-Type") != livePayment.header.Get("Content-Type") {
			t.Fatalf("replayed under %v", r.header)
		}
		if n := w.pspPosts("acme", key); n != 1 {
			t.Fatalf("the PSP was asked %d times", n)
		}
	}
}

// linesLate is how much later than its row a line of the timeline may be dated: the statement reads the clock for the
// row first. On a busy machine it may be stopped in between, and it may go to several servers. It is less than the time
// from the first lookup to the end of the grace period, so a release by that lookup is noticed.
func linesLate() time.Duration { return pgtest.ByServers(500*time.Millisecond, 2*time.Second) }
