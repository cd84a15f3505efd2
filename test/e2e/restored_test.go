package e2e

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"payonce/internal/config"
)

// The database goes back to a time before a payment, and the PSP does not.

// goesBack takes a key and its payment away, as a restore does.
func (w *world) goesBack(key string) {
	w.t.Helper()
	for _, table := range []string{"payments", "idempotency_key_events", "idempotency_keys"} {
		column := "key"
		if table == "payments" {
			column = "idempotency_key"
		}
		w.behindTheGuard("DELETE FROM "+table+" WHERE "+column+" = $1", key)
	}
}

// forgets has the PSP forget its keys, as it does after a day.
func (w *world) forgets() {
	w.t.Helper()
	rec := httptest.NewRecorder()
	w.mock.ServeHTTP(rec, httptest.NewRequest(http.MethodDelete, "/_keys", nil))
	if rec.Code != http.StatusOK {
		w.t.Fatalf("the PSP answers %d: %s", rec.Code, rec.Body)
	}
}

// A client sends a key that a restore has lost. Stripe knows the key with another payment, and forgets it after a day.
// To make another object then, and to cancel it, proves nothing.
func TestKeyThatStripeKnewWithAnotherPaymentIsNotChargedTwice(t *testing.T) {
	t.Parallel()
	w := setupOpen(t, atStripe, shared(soon))
	key := freshKey()
	w.pay(key, "pm_ok").expect(t, http.StatusCreated, "")
	w.goesBack(key)
	w.pay(key, "pm_ok").expect(t, http.StatusAccepted, "")
	w.forgets()

	d := w.openOps()
	w.reconcile(func(c *config.Reconciler) { c.ScanEvery = never })
	d.resolve(d.find("psp_contradicts_request", key), "retry").expect(t, http.StatusOK, "")
	found := d.find("psp_contradicts_request", key) // Stripe has a charge under the key, for another payment.
	if found.Version != 1 {
		t.Fatalf("dead letter is %+v", found)
	}
	w.pay(key, "pm_ok").expect(t, http.StatusAccepted, "")
	w.wantMoved(key, 1)
}
