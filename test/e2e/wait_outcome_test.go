package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"payonce/internal/config"
	"payonce/internal/payment"
	"payonce/internal/payments"
	"payonce/test/pgproxy"
)

// preferring is a call with a preference.
func preferring(c call, preference string) call {
	c.header = http.Header{"Prefer": {preference}}
	return c
}

// lookingAt is a read of the payment that a reply is about.
func lookingAt(r reply) call { return call{method: "GET", path: r.header.Get("Location")} }

// awaitReads returns when a process has been answered so many reads of a payment. Before it waits, a request reads it
// twice; a POST, once for each reservation.
func awaitReads(t *testing.T, proxy *pgproxy.Proxy, n int) {
	t.Helper()
	eventually(t, "all wait", func() bool { return statements(proxy.Answered(), "GetPayment") >= n })
}

func (r reply) applied() string { return r.header.Get("Preference-Applied") }

// at is the same world, seen through another process.
func (w *world) at(url string) *world {
	other := *w
	other.api = &httptest.Server{URL: url}
	return &other
}

// The process that executes the payment wakes its own request, and the other process finds the end by its next read.
func TestReadOfAPaymentWaitsForItsOutcome(t *testing.T) {
	t.Parallel()
	gate := newGate()
	w, proxy := setupProxied(t, func(o *options) { o.between = gate.wrap })
	other, otherProxy := setupProxied(t, func(o *options) { o.url = w.db.Config().ConnString() })
	key := freshKey()
	owner := w.inBackground(paymentOf(key, "pm_ok"))
	gate.awaitArrival(t)
	look := lookingAt(w.do(preferring(paymentOf(key, "pm_ok"), "respond-async")))

	if r := w.do(look); r.text(t, "status") != "processing" || r.applied() != "" {
		t.Fatalf("without a preference: %q, %s", r.applied(), r.body)
	}
	if r := w.do(preferring(look, "wait=1")); r.text(t, "status") != "processing" || r.applied() != "wait=1" {
		t.Fatalf("at the limit: %q, %s", r.applied(), r.body)
	}
	before := statements(proxy.Answered(), "GetPayment")
	here, there := w.inBackground(preferring(look, "wait=86400")), other.inBackground(preferring(look, "wait=10"))
	awaitReads(t, proxy, before+2)
	awaitReads(t, otherProxy, 2)
	gate.open()
	(<-owner).expect(t, http.StatusCreated, "")
	for name, r := range map[string]reply{"the same process": <-here, "another process": <-there} {
		if r.status != http.StatusOK || r.text(t, "status") != "succeeded" || r.applied() != "wait=10" {
			t.Errorf("%s answers %d, %q: %s", name, r.status, r.applied(), r.body)
		}
	}
	if r := w.do(preferring(look, "wait=10")); r.text(t, "status") != "succeeded" || r.applied() != "wait=10" {
		t.Errorf("with an outcome: %q, %s", r.applied(), r.body)
	}
	missing := call{method: "GET", path: "/payments/pay_01k9z3w5m8fk2v7q4d6h0r1txe"}
	w.do(preferring(missing, "wait=10")).expect(t, http.StatusNotFound, "not_found")
}

// The PSP's answer is lost, and the reconciler, another process, finds the outcome. Requests that repeat it wait. The
// first one does not: an answer that it got later would be called a replay, and nobody was answered before.
func TestUnknownKeyIsWaitedFor(t *testing.T) {
	t.Parallel()
	w, proxy := setupProxied(t, func(o *options) {
		o.settings = func(c *config.API) {
			quick(&c.Shared)
			c.FirstLookup = 100 * time.Millisecond
		}
	})
	key := freshKey()
	lost := w.do(preferring(paymentOf(key, "pm_reset_charged"), "wait=10"))
	lost.expect(t, http.StatusAccepted, "")
	before := statements(proxy.Answered(), "GetPayment")
	again := w.inBackground(preferring(paymentOf(key, "pm_reset_charged"), "wait=10"))
	look := w.inBackground(preferring(lookingAt(lost), "wait=10"))
	awaitReads(t, proxy, before+4)
	w.reconcile()

	answer := <-again
	answer.expect(t, http.StatusCreated, "")
	if r := <-look; r.text(t, "status") != "succeeded" {
		t.Errorf("the read answers %s", r.body)
	}
	if answer.applied() != "wait=10" || answer.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("answered with %v", answer.header)
	}
	if n := w.pspPosts("acme", key); n != 1 {
		t.Errorf("the PSP was asked %d times to charge", n)
	}
}

// The time to read a request is shorter than the longest wait. Its end must not end the wait.
func TestWaitOutlastsTheTimeToReadARequest(t *testing.T) {
	t.Parallel()
	w, gate, key, owner := heldPayment(t, "pm_ok")
	look := lookingAt(w.do(preferring(paymentOf(key, "pm_ok"), "respond-async")))
	addr := w.served(func(s *http.Server) { s.ReadTimeout = 200 * time.Millisecond })
	head := " HTTP/1.1\r\nHost: x\r\nConnection: close\r\nPrefer: wait=1\r\nAuthorization: Bearer " + acmeKey + "\r\n"
	body := order("pm_ok")
	for request, want := range map[string]string{
		"GET " + look.path + head + "\r\n": "HTTP/1.1 200 ",
		fmt.Sprintf("POST /payments%sIdempotency-Key: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			head, key, len(body), body): "HTTP/1.1 409 ",
	} {
		answer := talk(t, addr, request)
		if !strings.HasPrefix(answer, want) || !strings.Contains(answer, "Preference-Applied: wait=1\r\n") {
			t.Errorf("%.20s is answered %q", request, answer)
		}
	}
	gate.open()
	(<-owner).expect(t, http.StatusCreated, "")
}

// A shutdown does not wait for those who wait. They are answered with the present state.
func TestShutdownDoesNotWaitForThoseWhoWait(t *testing.T) {
	t.Parallel()
	w, proxy := setupProxied(t)
	p := w.run(func(c *config.API) { c.DatabaseURL, c.DrainLimit = w.own.DatabaseURL, 5*time.Second })
	key := freshKey()
	lost := w.pay(key, "pm_reset_charged")
	lost.expect(t, http.StatusAccepted, "")
	before := statements(proxy.Answered(), "GetPayment")
	there := w.at(p.public)
	post := there.inBackground(preferring(paymentOf(key, "pm_reset_charged"), "wait=10"))
	get := there.inBackground(preferring(lookingAt(lost), "wait=10"))
	awaitReads(t, proxy, before+4)
	p.interrupt()
	if err := p.end(); err != nil {
		t.Fatalf("ended: %v", err)
	}
	r := <-post
	r.expect(t, http.StatusAccepted, "")
	if r.header.Get("Connection") != "close" {
		t.Errorf("the last answer leaves its connection open: %v", r.header)
	}
	if r.applied() != "" {
		t.Errorf("the request says that it has waited: %q", r.applied())
	}
	if r := <-get; r.status != http.StatusOK || r.text(t, "status") != "processing" || r.applied() != "" {
		t.Errorf("the read is answered %d, %q: %s", r.status, r.applied(), r.body)
	}
}

// seedUnknown makes n payments of acme by SQL, the outcome of each of which is unknown. It gives their ids.
func (w *world) seedUnknown(n int) (ids []string) {
	w.t.Helper()
	for range n {
		id := uuid.Must(uuid.NewV7())
		ids = append(ids, payment.ID(id).String())
		w.behindTheGuard(`WITH key AS (
				INSERT INTO idempotency_keys (tenant_id, operation, key, status, fingerprint, attempt, generation,
					lease_id, subject, created_at, reserved_at, unknown_since, reconcile_after, expires_at)
				SELECT 'acme', 'POST /payments', 'unknown-order-' || $2::text, 'unknown', sha256(''), 1, 1, $1, $1,
					now(), now(), now(), now() + interval '1 hour', now() + interval '1 day'
			) INSERT INTO payments (id, tenant_id, idempotency_key, generation, customer_id, amount_minor, currency,
				payment_method, status)
			SELECT $1, 'acme', 'unknown-order-' || $2::text, 1, 'cus-1', 100, 'USD', 'pm_ok', 'processing'`, id, id.String())
	}
	return ids
}

// waitingCost bounds what all requests that wait at the same time cost the process, in bytes of heap and stacks, in
// addition to their connections: the requests, their contexts and timers, larger stacks, and the waits.
const waitingCost = 20_000_000

// Reads wait, each for a payment of its own.
func TestThousandWaitingReadsCostAtMost20MB(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("long: builds the programs")
	}
	w, proxy := setupProxied(t)
	var requests []string
	for _, id := range w.seedUnknown(payments.MaxWaiting / 2) {
		requests = append(requests, "GET /payments/"+id+waitingHead+"\r\n")
	}
	waitingCosts(t, w, proxy, requests)
}

// Second requests wait for one execution.
func TestThousandWaitingPaymentsCostAtMost20MB(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("long: builds the programs")
	}
	gate := newGate()
	w, proxy := setupProxied(t, func(o *options) {
		o.between, o.settings = gate.wrap, func(c *config.API) { c.PSPTotal = patience } // longer than the lease
	})
	key, body := freshKey(), order("pm_ok")
	owner := w.inBackground(paymentOf(key, "pm_ok"))
	gate.awaitArrival(t)
	waitingCosts(t, w, proxy, slices.Repeat([]string{fmt.Sprintf("POST /payments"+waitingHead+
		"Idempotency-Key: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", key, len(body), body)},
		payments.MaxWaiting/2))
	gate.open()
	<-owner
}

const waitingHead = " HTTP/1.1\r\nHost: x\r\nPrefer: wait=10\r\nAuthorization: Bearer " + acmeKey + "\r\n"

// waitingCosts has as many requests of one tenant wait as may. One more is answered at once.
func waitingCosts(t *testing.T, w *world, proxy *pgproxy.Proxy, requests []string) {
	t.Helper()
	one := w.seedUnknown(1)[0]
	// A program of its own, so that neither the clients nor the race detector count. With a small GOGC, the heap has
	// little in it that nobody needs any more.
	p := w.startProcess(`GOGC=10 exec "$0" serve`, filepath.Join(buildPrograms(t), "api"))
	there := w.at("http://" + p.public)
	memory := func() (heapAndStacks, resident float64) {
		return (p.figure("go_memstats_heap_inuse_bytes") + p.figure("go_memstats_stack_inuse_bytes")) / 1e6,
			p.figure("process_resident_memory_bytes") / 1e6
	}
	there.do(lookAt(one))
	empty, emptyResident := memory()
	clients := idle(t, p.public, len(requests))
	connected, _ := memory()

	began := time.Now()
	for i, c := range clients {
		if _, err := io.WriteString(c, requests[i]); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "all wait", func() bool { return p.figure("payonce_requests_waiting") == float64(len(requests)) })
	looks := statements(proxy.Answered(), "ListUndecided")
	eventually(t, "a few reads of what they wait for", func() bool {
		return statements(proxy.Answered(), "ListUndecided") >= looks+12
	})
	waiting, resident := memory()
	for range 50 { // The requests that do not wait leave garbage. Its collection shows what those that wait hold.
		there.do(lookAt(one))
		if now, ofAll := memory(); now < waiting {
			waiting, resident = now, ofAll
		}
	}
	// On a machine that is so slow that the first of them have waited their ten seconds, there is room for one more.
	r := there.do(preferring(lookAt(one), "wait=10"))
	if r.applied() != "" && time.Since(began) < 10*time.Second {
		t.Errorf("not all of them wait, or one more waits as well: %q", r.applied())
	}
	t.Logf("%d waiting requests: %.1f MB of heap and stacks, in addition to %.1f MB for their connections; resident %.1f MB",
		len(requests), waiting-connected, connected-empty, resident-emptyResident)
	if waiting-connected > waitingCost/1e6 {
		t.Errorf("the waits cost %.1f MB, want %.1f at most", waiting-connected, waitingCost/1e6)
	}
}

func lookAt(id string) call { return call{method: "GET", path: "/payments/" + id} }

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

// Two processes, and the one that executes the key is one of them. A waiting request reserves when it comes, again when
// it has joined those who wait, and when the key has come to its end, or another one does so for it.
func TestWhoWaitsReservesThreeTimesAtMostHoweverLongItTakes(t *testing.T) {
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
	eventually(t, "all wait", func() bool {
		return w.metric("payonce_requests_waiting") == waiters && other.metric("payonce_requests_waiting") == waiters &&
			statements(otherProxy.Answered(), "ListUndecided") >= looks
	})
	gate.open()
	first := <-owner
	first.expect(t, http.StatusCreated, "")
	for _, r := range replies {
		(<-r).same(t, first)
	}
	took := time.Since(began)

	own, others := statements(proxy.Rounds(), "ReserveKeys"), statements(otherProxy.Rounds(), "ReserveKeys")
	if own > 1+3*waiters || others > 3*waiters {
		t.Errorf("%d and %d reservations, want %d and %d at most", own, others, 1+3*waiters, 3*waiters)
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
