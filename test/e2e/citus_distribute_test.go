package e2e

import (
	"net/http"
	"strings"
	"testing"

	"payonce/test/pgtest"
)

// An installation that has paid is distributed: no process may be there, and then all that was there is there as before.
func TestInstallationThatHasPaidIsDistributed(t *testing.T) {
	t.Parallel()
	if !pgtest.OnCitus() {
		t.Skip("for make citus: " + pgtest.Citus + " is not set")
	}
	c, url := pgtest.OwnCitus(t)
	on := func(o *options) { o.url = url }
	key, refund := freshKey(), freshKey()
	var paid, returned reply
	t.Run("before", func(t *testing.T) {
		w := setup(t, on)
		paid = w.pay(key, "pm_ok")
		paid.expect(t, http.StatusCreated, "")
		returned = w.do(call{method: "POST", path: "/payments/" + paid.text(t, "paymentId") + "/refunds", key: refund, body: `{"amountCents":5000}`})
		returned.expect(t, http.StatusCreated, "")
		if err := pgtest.Distribute(t, c); err == nil || !strings.Contains(err.Error(), "others are connected to this database: payonce") {
			t.Fatalf("distributed beside a process: %v", err)
		}
		if w.count("SELECT count(*) FROM pg_dist_partition") != 0 {
			t.Fatal("a part is distributed")
		}
	})
	for range 2 { // the second time, all is done
		if err := pgtest.Distribute(t, c); err != nil {
			t.Fatal(err)
		}
	}
	w := setup(t, on)
	if n := w.count("SELECT count(*) FROM citus_shards WHERE table_name = 'payments'::regclass"); n == 0 {
		t.Fatal("payments are not distributed")
	}
	w.pay(key, "pm_ok").same(t, paid)
	refunds := "/payments/" + paid.text(t, "paymentId") + "/refunds"
	w.do(call{method: "POST", path: refunds, key: refund, body: `{"amountCents":5000}`}).same(t, returned)
	w.do(call{method: "POST", path: refunds, key: freshKey(), body: `{"amountCents":7001}`}).expect(t, http.StatusConflict, "refund_exceeds_payment")
	other := freshKey()
	w.chargedOnce(other, other, w.pay(other, "pm_ok"))
}
