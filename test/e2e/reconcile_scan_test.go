package e2e

import (
	"net/http"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"payonce/demo/mockpsp"
	"payonce/internal/config"
	"payonce/test/pgtest"
)

// What webhooks and lookups have missed, the walk along the PSP's own list finds.

// scans counts the walks along the list of acme's charges that have been finished.
func (w *world) scans() int {
	w.t.Helper()
	return w.count(`SELECT count(*) FROM river_job WHERE kind = 'scan_ledger' AND state = 'completed' AND args ->> 'account' = 'acme'
		AND args ->> 'object' = 'charge'`)
}

// scannedFromNow waits for a walk that has begun after now and ended.
func (w *world) scannedFromNow() {
	w.t.Helper()
	// The next to end may have begun before.
	before := w.scans()
	eventually(w.t, "two scans", func() bool { return w.scans() >= before+2 })
}

// watermark is how far acme's charges have been compared.
func (w *world) watermark() time.Time {
	w.t.Helper()
	return pgtest.Value[time.Time](w.t, w.db,
		"SELECT scanned_to FROM ledger_watermarks WHERE account = 'acme' AND object = 'charge'")
}

// It was believed that there is nothing, and then there is: the PSP was later than it ever should be.
func TestChargeThatLandsAfterNotFoundWasBelievedIsFoundByTheScan(t *testing.T) {
	if testing.Short() {
		t.Skip("long: it waits for a scan")
	}
	t.Parallel()
	w := setupOpen(t, func(o *options) {
		o.psp = func(c *mockpsp.Config) { c.LateDelay = gracePeriod() + lease() }
	})
	w.disorder(`"drop":1`)
	w.reconcile(scanning)
	left, retried := freshKey(), freshKey()
	for _, key := range []string{left, retried} {
		w.pay(key, "pm_late_charge").expect(t, http.StatusAccepted, "")
	}
	w.becomes(left, "failed_retryable")
	w.becomes(retried, "failed_retryable")
	// A second attempt of one of them: under the same key, so that the PSP knows it for the first.
	w.pay(retried, "pm_late_charge").expect(t, http.StatusAccepted, "")
	if k := w.keyRow(retried); k.Attempt != 2 {
		t.Fatalf("key is %+v", k)
	}
	w.becomes(left, "completed")
	w.wantMoves(left, "owner: in_progress > unknown", "lookup: unknown > failed_retryable",
		"scan: failed_retryable > completed")
	w.replaysSuccess(left, func() reply { return w.pay(left, "pm_late_charge") })

	w.becomes(retried, "completed")
	w.wantMoves(retried, "owner: in_progress > unknown", "lookup: unknown > failed_retryable",
		"request: failed_retryable > in_progress",
		"owner: in_progress > unknown", "lookup: unknown > completed")
	w.replaysSuccess(retried, func() reply { return w.pay(retried, "pm_late_charge") })
}

// Also a key that nobody looks up is resolved in the end, but not before those had their time whose business it is.
func TestScanLeavesAKeyToItsOwnerAndToItsLookups(t *testing.T) {
	if testing.Short() {
		t.Skip("long: it waits for scans")
	}
	t.Parallel()
	held := answerGate{newGate()}
	w := setupOpen(t, unhurriedOwner, shared(noLookups), func(o *options) { o.between = held.wrap })
	w.disorder(`"drop":1`)
	w.reconcile(scanning)
	key := freshKey()
	owner := w.inBackground(paymentOf(key, "pm_ok"))
	held.awaitArrival(t)
	w.scannedFromNow()
	w.wantMoves(key)
	if k := w.keyRow(key); k.Status != "in_progress" {
		t.Fatalf("the scan has taken the key from its owner: %+v", k)
	}
	held.open()
	(<-owner).expect(t, http.StatusCreated, "")
	w.wantMoves(key)

	lost := freshKey()
	w.pay(lost, "pm_reset_charged").expect(t, http.StatusAccepted, "")
	w.becomes(lost, "completed")
	w.wantMoves(lost, "owner: in_progress > unknown", "scan: unknown > completed")
	if n := w.count(`SELECT count(*) FROM idempotency_key_events AS found JOIN idempotency_key_events AS lost USING (tenant_id, operation, key)
		WHERE key = $1 AND found.actor = 'scan' AND lost.actor = 'owner' AND found.at >= lost.at + $2::interval`, lost, gracePeriod()-linesLate()); n != 1 {
		t.Fatal("the scan did not wait for the grace period")
	}
	w.replaysSuccess(lost, func() reply { return w.pay(lost, "pm_reset_charged") })
}

// unhurriedOwner lets an owner wait for as long as the test holds its answer, within a grace period of seconds.
func unhurriedOwner(o *options) {
	shared(func(c *config.Shared) { c.PSPTotal = patience })(o)
}

func TestScanGoesOnWhereTheLastOneEnded(t *testing.T) {
	t.Parallel()
	var way way
	w := setupOpen(t, func(o *options) { o.between = way.wrap })
	w.disorder(`"drop":1`)
	const overlap = 50 * time.Millisecond
	narrow := func(c *config.Reconciler) { scanning(c); c.ScanOverlap = overlap }
	explained := w.pay(freshKey(), "pm_ok")
	first := w.reconcile(narrow)
	w.scannedFromNow()
	before := w.watermark()
	first.stop()

	// What lands while nobody scans is neither skipped nor is everything read again for it.
	orphan := w.chargeByHand("acme", "somebody-elses-key", "invoice-7")
	way.lists.Clear()
	w.reconcile(narrow)
	eventually(t, "a dead letter of the orphan", func() bool {
		return w.count("SELECT count(*) FROM dead_letters WHERE kind = 'unknown_movement' AND evidence::text LIKE '%' || $1 || '%'", orphan) == 1
	})
	w.scannedFromNow()
	if after := w.watermark(); !after.After(before) {
		t.Fatalf("the watermark went from %s to %s", before, after)
	}
	charges := 0
	way.lists.Range(func(raw, _ any) bool {
		query, err := url.ParseQuery(raw.(string))
		if err != nil {
			t.Fatal(err)
		}
		if from, err := time.Parse(time.RFC3339Nano, query.Get("createdAfter")); err == nil &&
			!from.Before(before.Add(-overlap)) {
			charges++
		}
		return true
	})
	if charges == 0 {
		t.Fatal("the list was not read from the watermark on")
	}
	if n := w.count("SELECT count(*) FROM dead_letters"); n != 1 {
		t.Fatalf("%d dead letters, and only one movement is not ours", n)
	}
	w.wantMoves(explained.header.Get("Idempotency-Key"))
}

// A ledger that cannot be read is an operator's case after twelve runs, also when no process lives for as long. Nothing
// is skipped: the scan goes on trying, and finds what has moved meanwhile.
func TestScanThatKeepsFailingIsAnOperatorsCase(t *testing.T) {
	if testing.Short() {
		t.Skip("long: it waits for scans")
	}
	t.Parallel()
	var way way
	w := setupOpen(t, func(o *options) { o.between = way.wrap })
	w.disorder(`"drop":1`)
	failed := func() int {
		// whichever of its lists is ahead
		return w.count("SELECT coalesce(max(failed_runs), 0) FROM ledger_watermarks WHERE account = 'acme'")
	}
	way.deaf.Store(true)
	r := w.reconcile(scanning)
	eventually(t, "a failed run", func() bool { return failed() > 0 })
	r.stop()
	before := failed()
	orphan := w.chargeByHand("acme", "somebody-elses-key", "invoice-7")
	w.reconcile(scanning)
	eventually(t, "a dead letter of each account", func() bool { return w.deadLetters("scan_failing", "") == 2 })
	if n := failed(); n < 12 || n <= before {
		t.Fatalf("a dead letter after %d runs, %d of them before the restart", n, before)
	}
	d := w.openOps()
	for range 2 { // acme's and globex's
		l := d.find("scan_failing", "")
		d.resolve(l, "retry").expect(t, http.StatusConflict, "action_not_applicable")
		d.resolve(l, "dismiss").expect(t, http.StatusOK, "")
	}
	way.deaf.Store(false)
	eventually(t, "a dead letter of the orphan", func() bool {
		return w.count("SELECT count(*) FROM dead_letters WHERE kind = 'unknown_movement' AND evidence::text LIKE '%' || $1 || '%'", orphan) == 1
	})
	eventually(t, "the end of the failures", func() bool { return failed() == 0 })
	// Once the dead letter about one list is closed, that about the account's other list may follow, and no more.
	if n := w.count("SELECT count(*) FROM dead_letters WHERE kind = 'scan_failing'"); n > 4 {
		t.Fatalf("%d dead letters of four lists", n)
	}
}

// A refund that somebody makes at the PSP is booked late: the scan has passed its place before the list has it, and no
// webhook tells of it. The overlap brings the next scan back.
func TestRefundThatIsBookedBehindTheScanIsFoundByTheOverlap(t *testing.T) {
	t.Parallel()
	eachProvider(t, func(t *testing.T, at func(*options)) {
		const late = time.Hour
		var ahead atomic.Int64 // of our time, the PSP's clock
		ahead.Store(int64(-10 * time.Second))
		w := setupOpen(t, at, func(o *options) {
			o.webhooks = false
			o.psp = func(c *mockpsp.Config) {
				c.LateDelay = late
				c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
			}
		})
		w.reconcile(func(c *config.Reconciler) { scanning(c); c.ScanOverlap = 2 * late })
		behind, newer := w.pay(freshKey(), "pm_ok"), w.pay(freshKey(), "pm_ok")
		w.hand(http.MethodPut, "/_faults", "", "", `{"rates":{"booked_late":1}}`).expect(t, http.StatusOK, "")
		w.door("/_refunds", `{"chargeId":"`+behind.text(t, "pspChargeId")+`","amountCents":4500}`)
		w.hand(http.MethodPut, "/_faults", "", "", `{"rates":{}}`).expect(t, http.StatusOK, "")
		ahead.Store(0)
		w.door("/_refunds", `{"chargeId":"`+newer.text(t, "pspChargeId")+`"}`)
		w.wantPayment(newer.text(t, "paymentId"), `"amountRefundedCents":12000`)
		if all := w.refundsOf(behind.text(t, "paymentId")); len(all) > 0 {
			t.Fatalf("the list had the refund at once: %q", all)
		}
		ahead.Store(int64(late))
		w.wantPayment(behind.text(t, "paymentId"), `"amountRefundedCents":4500`)
		w.wantNoOtherDeadLetters()
	})
}
