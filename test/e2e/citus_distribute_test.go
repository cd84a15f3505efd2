package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"payonce/test/cituscluster"
	"payonce/test/pgtest"
)

// An installation that has paid is distributed: no process may be there, and then all that was there is there as
// before.
func TestInstallationThatHasPaidIsDistributed(t *testing.T) {
	t.Parallel()
	if !pgtest.OnCitus() {
		t.Skip("for make citus: " + pgtest.Citus + " is not set")
	}
	c, url := pgtest.OwnCitus(t)
	on := func(o *options) { o.url = url }
	key, refund, lost, gone := freshKey(), freshKey(), freshKey(), freshKey()
	var paid, returned reply
	var moves, guards []string
	t.Run("before", func(t *testing.T) {
		w := setup(t, on)
		paid = w.pay(key, "pm_ok")
		paid.expect(t, http.StatusCreated, "")
		returned = w.do(call{method: "POST", path: "/payments/" + paid.text(t, "paymentId") + "/refunds", key: refund,
			body: `{"amountCents":5000}`})
		returned.expect(t, http.StatusCreated, "")
		w.pay(lost, "pm_never").expect(t, http.StatusAccepted, "")
		w.exec("INSERT INTO idempotency_key_tombstones (tenant_id, operation, key, generation) VALUES ('acme', 'POST /payments', '" + gone + "', 3)")
		moves, guards = w.moves(lost), w.guards()
		if err := pgtest.Distribute(t, c); err == nil ||
			!strings.Contains(err.Error(), "others are connected to this database: payonce") {
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
	if n := w.count("SELECT pg_relation_size('payments') + pg_relation_size('idempotency_keys') + pg_relation_size('idempotency_key_events')"); n != 0 {
		t.Errorf("%d bytes of rows are left on the coordinator", n)
	}
	if got := w.guards(); !slices.Equal(got, guards) {
		t.Errorf("guards are %q, were %q", got, guards)
	}
	if n := w.count("SELECT count(*) FROM run_command_on_shards('refunds', $$ SELECT 'refunds_guard' FROM pg_trigger WHERE tgrelid = '%s'::regclass AND tgname LIKE 'refunds_guard%%' $$) WHERE result <> ''"); n != cituscluster.Shards {
		t.Errorf("%d shards of refunds are guarded", n)
	}
	w.pay(key, "pm_ok").same(t, paid)
	refunds := "/payments/" + paid.text(t, "paymentId") + "/refunds"
	w.do(call{method: "POST", path: refunds, key: refund, body: `{"amountCents":5000}`}).same(t, returned)
	w.do(call{method: "POST", path: refunds, key: freshKey(), body: `{"amountCents":7001}`}).expect(t,
		http.StatusConflict, "refund_exceeds_payment")
	if got := w.moves(lost); len(got) == 0 || !slices.Equal(got, moves) {
		t.Errorf("the timeline is %q, was %q", got, moves)
	}
	last := w.count("SELECT max(id) FROM idempotency_key_events")
	w.pay(freshKey(), "pm_never").expect(t, http.StatusAccepted, "")
	if n := w.count("SELECT max(id) FROM idempotency_key_events"); n <= last {
		t.Errorf("lines of timelines are numbered %d behind %d", n, last)
	}
	w.pay(gone, "pm_ok").expect(t, http.StatusCreated, "")
	if n := w.count("SELECT generation FROM idempotency_keys WHERE tenant_id = 'acme' AND key = $1", gone); n != 4 {
		t.Errorf("a key whose tombstone says 3 goes on as generation %d", n)
	}
}

// guards are the triggers of the tables that are distributed.
func (w *world) guards() []string {
	w.t.Helper()
	all := pgtest.Values[string](w.t, w.db, `SELECT t.tgenabled::text || ' ' || pg_get_triggerdef(t.oid) FROM pg_trigger AS t
		WHERE NOT t.tgisinternal AND t.tgname NOT LIKE 'truncate_trigger_%' AND t.tgrelid::regclass::text
			IN ('idempotency_keys', 'idempotency_key_events', 'idempotency_key_tombstones', 'payments', 'refunds') ORDER BY 1`)
	if len(all) == 0 {
		w.t.Fatal("no triggers")
	}
	return all
}
