package e2e

import (
	"net/http"
	"testing"
	"time"

	"payonce/test/pgproxy"
)

// statements counts how often a query was executed in rounds. One round may carry those of several requests.
func statements(rounds [][]string, query string) (n int) {
	for _, round := range rounds {
		for _, executed := range round {
			if executed == query {
				n++
			}
		}
	}
	return n
}

// Two processes, and the one that executes the key is one of them. A waiting request reserves when it comes and when
// the key has come to its end.
func TestWhoWaitsReservesTwiceHoweverLongItTakes(t *testing.T) {
	t.Parallel()
	const waiters, looks, lookEvery = 20, 5, 200 * time.Millisecond
	gate := newGate()
	w, proxy := setupProxied(t, func(o *options) { o.between = gate.wrap })
	other, otherProxy := setupProxied(t, func(o *options) { o.url = w.db.Config().ConnString() })
	key := freshKey()
	owner := w.inBackground(paymentOf(key, "pm_ok"))
	gate.awaitArrival(t)

	began := time.Now()
	waiting := preferring(paymentOf(key, "pm_ok"), "wait=10")
	var replies []<-chan reply
	for range waiters {
		replies = append(replies, w.inBackground(waiting), other.inBackground(waiting))
	}
	// A reservation that is not answered yet may still find the key's end. So may the read of the payment that follows.
	eventually(t, "all wait", func() bool {
		own, others := proxy.Answered(), otherProxy.Answered()
		return statements(own, "ReserveKeys") > waiters && statements(own, "GetPayment") >= waiters &&
			statements(others, "ReserveKeys") >= waiters && statements(others, "GetPayment") >= waiters &&
			statements(others, "ListUndecided") >= looks
	})
	gate.open()
	first := <-owner
	first.expect(t, http.StatusCreated, "")
	for _, r := range replies {
		(<-r).same(t, first)
	}
	took := time.Since(began)

	own, others := statements(proxy.Rounds(), "ReserveKeys"), statements(otherProxy.Rounds(), "ReserveKeys")
	if own != 1+2*waiters || others != 2*waiters {
		t.Errorf("%d and %d reservations, want %d and %d", own, others, 1+2*waiters, 2*waiters)
	}
	for _, p := range []*pgproxy.Proxy{proxy, otherProxy} {
		if n, most := statements(p.Rounds(), "ListUndecided"), int(took/lookEvery)+1; n > most {
			t.Errorf("%d looks for %d who wait, in %s: want %d at most", n, waiters, took, most)
		}
	}
	if n := w.pspRequests("acme", key) + other.pspRequests("acme", key); n != 1 {
		t.Errorf("PSP asked %d times", n)
	}
}

// The process that executes the key seems to be gone. The end of the lease wakes a request that waits: it makes the key
// unknown, and waits for the outcome. Then the owner comes back with it.
func TestEndOfALeaseWakesWhoWaits(t *testing.T) {
	t.Parallel()
	gate := newGate()
	w := setup(t, func(o *options) { o.between = gate.wrap })
	other := setup(t, func(o *options) { o.url = w.db.Config().ConnString() })
	key := freshKey()
	owner := w.inBackground(paymentOf(key, "pm_ok"))
	gate.awaitArrival(t)
	answer := other.inBackground(preferring(paymentOf(key, "pm_ok"), "wait=10"))
	w.endLease(key)
	eventually(t, "the end of the execution", func() bool { return w.keyRow(key).Status == "unknown" })
	gate.open()
	first := <-owner
	first.expect(t, http.StatusCreated, "")
	(<-answer).same(t, first)
}
