package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"payonce/internal/config"
)

// endRetention lets the retention of keys run out.
func (w *world) endRetention(keys ...string) {
	w.t.Helper()
	w.behindTheGuard("UPDATE idempotency_keys SET expires_at = payonce_now() - interval '1 second' WHERE key = ANY ($1)", keys)
}

// prunedFromNow waits for a run of the pruner that begins after now.
func (w *world) prunedFromNow() {
	w.t.Helper()
	last := w.count("SELECT coalesce(max(id), 0) FROM river_job")
	eventually(w.t, "a run of the pruner", func() bool {
		return w.count("SELECT count(*) FROM river_job WHERE kind = 'prune' AND state = 'completed' AND id > $1",
			last) > 0
	})
}

func pruning(c *config.Reconciler) { c.PruneEvery = 200 * time.Millisecond }

func TestExpiredKeysAreNewAndOpenOnesNeverExpire(t *testing.T) {
	t.Parallel()
	var way way
	w := setupOpen(t, shared(noLookups), func(o *options) { o.between = way.wrap })
	w.disorder(`"drop":1`)
	w.reconcile(pruning)
	done, deadLettered, unknown := freshKey(), freshKey(), freshKey()
	first := w.pay(done, "pm_ok")
	w.pay(deadLettered, "pm_ok").expect(t, http.StatusCreated, "")
	w.pay(unknown, "pm_reset_charged").expect(t, http.StatusAccepted, "")
	w.signed("evt_twice", chargeEvent("succeeded", "ch_another", deadLettered, w.payment(deadLettered)))
	w.awaitDeadLetter("duplicate_movement", deadLettered)
	w.endRetention(done, deadLettered, unknown)
	w.becomes(done, "expired")
	w.wantMoves(done, "pruner: completed > expired")
	w.prunedFromNow()
	w.wantMoves(deadLettered)
	w.wantMoves(unknown, "owner: in_progress > unknown")

	// An expired key is a new one, for us and for the PSP.
	again := w.pay(done, "pm_ok")
	again.expect(t, http.StatusCreated, "")
	if k := w.keyRow(done); k.Generation != 2 || k.Attempt != 1 ||
		again.text(t, "paymentId") == first.text(t, "paymentId") {
		t.Fatalf("key is %+v, the answers are %s and %s", k, first.body, again.body)
	}
	if len(w.ledger("acme", done).Charges) != 1 || len(w.ledger("acme", done+".g2").Charges) != 1 {
		t.Fatal("the PSP did not see two generations, once each")
	}

	// What is resolved after its time must still be there for the client to learn.
	w.makeDue()
	w.becomes(unknown, "completed")
	w.prunedFromNow()
	w.wantMoves(unknown, "owner: in_progress > unknown", "lookup: unknown > completed")
	w.replaysSuccess(unknown, func() reply { return w.pay(unknown, "pm_reset_charged") })
}

// A deleted key is new to the client. To the PSP it is not: it never forgets, and would refuse the bare key with
// another body.
func TestDeletedKeyThatIsUsedAgainIsChargedOnce(t *testing.T) {
	t.Parallel()
	w := setupOpen(t, shared(noLookups))
	w.reconcile(pruning)
	key := freshKey()
	first := w.pay(key, "pm_ok")
	first.expect(t, http.StatusCreated, "")
	w.endRetention(key)
	w.becomes(key, "expired")
	w.behindTheGuard("UPDATE idempotency_keys SET delete_after = payonce_now() WHERE key = $1", key)
	eventually(t, "the key's deletion",
		func() bool { return w.count("SELECT count(*) FROM idempotency_keys WHERE key = $1", key) == 0 })

	again := w.do(call{method: "POST", path: "/payments", key: key,
		body: strings.ReplaceAll(order("pm_ok"), "12000", "500000")})
	again.expect(t, http.StatusCreated, "")
	if again.text(t, "paymentId") == first.text(t, "paymentId") {
		t.Fatalf("answered as the first payment: %s", again.body)
	}
	if old, now := w.ledger("acme", key).Charges, w.ledger("acme", key+".g2").Charges; len(old) != 1 || len(now) != 1 ||
		now[0].AmountCents != 500000 {
		t.Fatalf("the PSP has %+v and %+v", old, now)
	}
	if k := w.keyRow(key); k != (keyRow{Status: "completed", Attempt: 1, Generation: 2}) {
		t.Fatalf("key is %+v", k)
	}
}

// A key that failed and expired is a new one, too. If money of its old generation comes to light, an operator decides
// before anybody is charged under the key.
func TestMovementOfAnExpiredGenerationIsADeadLetter(t *testing.T) {
	if testing.Short() {
		t.Skip("long: it waits for scans")
	}
	t.Parallel()
	var way way
	w := setupOpen(t, func(o *options) { o.between = way.wrap })
	w.reconcile(pruning)
	key := freshKey()
	way.loseRequests(key)
	w.pay(key, "pm_ok").expect(t, http.StatusAccepted, "")
	payment := w.payment(key)
	w.becomes(key, "failed_retryable")
	w.endRetention(key)
	w.becomes(key, "expired")
	way.requests.Delete(key)
	w.chargeByHand("acme", key, payment)
	w.awaitDeadLetter("late_after_expiry", key)
	held := w.pay(key, "pm_ok")
	held.expect(t, http.StatusConflict, "idempotency_key_held")
	if k := w.keyRow(key); k.Status != "expired" || held.header.Get("Retry-After") != "5" {
		t.Fatalf("key is %+v, the answer %+v", k, held.header)
	}
	w.do(call{path: "/idempotency-keys/" + key}).expect(t, http.StatusConflict, "idempotency_key_held")

	d := w.openOps() // when the charge is refunded
	d.resolve(d.find("late_after_expiry", key), "dismiss").expect(t, http.StatusOK, "")
	second := w.pay(key, "pm_ok")
	second.expect(t, http.StatusCreated, "")
	if k := w.keyRow(key); k.Generation != 2 || second.text(t, "paymentId") == payment ||
		len(w.ledger("acme", key+".g2").Charges) != 1 {
		t.Fatalf("key is %+v, the answer %s", k, second.body)
	}
}

// payment is the id of the payment that a key stands for.
func (w *world) payment(key string) string {
	w.t.Helper()
	return w.resource(key)[len("/payments/"):]
}
