package e2e

import (
	"net/http"
	"testing"
)

// A process whose schema is older than its binary, or newer by a column less, cannot take payments now. It says so, as
// it does while a table is missing: nothing was charged, and the same key may be sent again.
func TestColumnThatIsNotThereYetIsNoErrorOfOurs(t *testing.T) {
	t.Parallel()
	w := setup(t)
	key := freshKey()
	w.exec("ALTER TABLE tenants DROP COLUMN psp CASCADE")
	w.pay(key, "pm_ok").expect(t, http.StatusServiceUnavailable, "idempotency_store_unavailable")
	if n := w.pspRequests("acme", key); n != 0 {
		t.Errorf("the PSP was asked %d times", n)
	}
}
