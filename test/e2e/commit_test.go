package e2e

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"payonce/internal/config"
	"payonce/test/pgproxy"
	"payonce/test/pgtest"
)

// What happens when a connection breaks while a commit is under way. The client of the database cannot tell a
// transaction that never arrived from one whose acknowledgement was lost, nor either from one that is still to land.

// setupProxied is setup with a proxy between the API and its database. What the test itself asks the database goes past
// it.
func setupProxied(t *testing.T, with ...func(*options)) (*world, *pgproxy.Proxy) {
	t.Helper()
	var proxy *pgproxy.Proxy
	between := func(o *options) {
		o.database = func(url string) string {
			proxy = pgproxy.Start(t, url)
			return proxy.URL()
		}
	}
	w := setup(t, append(slices.Clone(with), between)...)
	return w, proxy
}

// unreachablePSP is an address where nothing listens.
const unreachablePSP = "http://127.0.0.1:1"

// unreachable is for a world whose API reaches no PSP.
func unreachable(o *options) { o.settings = func(c *config.API) { c.PSPURL = unreachablePSP } }

// withoutPSP is an API on the same database that reaches no PSP.
func (w *world) withoutPSP() *world {
	w.t.Helper()
	return setup(w.t, unreachable, func(o *options) { o.url = w.db.Config().ConnString() })
}

// failedKeys are keys whose first attempt is proven not to have been executed.
func failedKeys(w *world, n int) <-chan string {
	w.t.Helper()
	unreachable := w.withoutPSP()
	keys := make(chan string, n)
	for range n {
		key := freshKey()
		unreachable.pay(key, "pm_ok").expect(w.t, http.StatusServiceUnavailable, "psp_unavailable")
		keys <- key
	}
	return keys
}

// endLease lets the lease of a key run out.
func (w *world) endLease(key string) {
	w.t.Helper()
	w.behindTheGuard("UPDATE idempotency_keys SET locked_until = payonce_now() - interval '1 second' WHERE key = $1", key)
}

func (w *world) behindTheGuard(sql string, args ...any) {
	w.t.Helper()
	pgtest.TimePasses(w.t, w.db, sql, args...)
}

// metric reads one figure of /metrics.
func (w *world) metric(name string) int {
	w.t.Helper()
	n, there := figureIn(w.t, string(w.operator("/metrics").body), name)
	if !there {
		w.t.Fatalf("no metric %s", name)
	}
	return int(n)
}

// figureIn reads one figure of a page of metrics.
func figureIn(t testing.TB, page, name string) (n float64, there bool) {
	t.Helper()
	for line := range strings.Lines(page) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				t.Fatal(err)
			}
			return n, true
		}
	}
	return 0, false
}

func (w *world) ambiguousCommits() int { return w.metric("payonce_commit_ambiguous_total") }

// inBackground sends a payment, and gives its reply when it comes.
func (w *world) inBackground(c call) <-chan reply {
	replies := make(chan reply, 1)
	go func() {
		r, err := w.try(c)
		if err != nil {
			w.t.Error(err)
		}
		replies <- r
	}()
	return replies
}

func paymentOf(key, method string) call {
	return call{method: "POST", path: "/payments", key: key, body: order(method)}
}

// chargedOnce checks that the key's one payment was charged by one request, and that the answer is replayed from now
// on.
func (w *world) chargedOnce(key, pspKey string, r reply) {
	w.t.Helper()
	r.expect(w.t, http.StatusCreated, "")
	if l := w.ledger("acme", pspKey); len(l.Charges) != 1 || l.Charges[0].Reference != r.text(w.t, "paymentId") ||
		w.pspRequests("acme", pspKey) != 1 {
		w.t.Fatalf("the PSP was asked %d times and has %+v", w.pspRequests("acme", pspKey), l)
	}
	again := w.pay(key, "pm_ok")
	again.same(w.t, r)
	if again.header.Get("Idempotent-Replayed") != "true" {
		w.t.Fatal("the replay does not say so")
	}
	if n := w.count("SELECT count(*) FROM payments WHERE id = (SELECT subject FROM idempotency_keys WHERE key = $1) AND status = 'succeeded'", key); n != 1 {
		w.t.Fatal("the key's payment has not succeeded")
	}
}

// interrupted are the two ends of a connection at which a commit breaks.
var interrupted = map[string]pgproxy.Action{
	"cut before the server": pgproxy.CutBefore,
	"acknowledgement lost":  pgproxy.DropAcknowledgement,
}

// atBothEnds runs a claim for each of them in one world. In each run the event is met, and counted as one ambiguous
// commit.
func atBothEnds(t *testing.T, w *world, proxy *pgproxy.Proxy, query string, claim func(w *world)) {
	t.Helper()
	for name, action := range interrupted {
		t.Run(query+" "+name, func(t *testing.T) {
			w := w.in(t)
			before := w.ambiguousCommits()
			event := proxy.On(query, action)
			claim(w)
			event.Await(t)
			if n := w.ambiguousCommits() - before; n != 1 {
				t.Fatalf("%d ambiguous commits counted, want 1", n)
			}
		})
	}
}

// in is the same world, for a part of its test.
func (w *world) in(t testing.TB) *world {
	part := *w
	part.t = t
	return &part
}

func TestInterruptedCommitOfAPaymentIsInvisible(t *testing.T) {
	t.Parallel()
	w, proxy := setupProxied(t)
	for _, query := range []string{"ReserveKeys", "CompleteKeys"} {
		atBothEnds(t, w, proxy, query, func(w *world) {
			key := freshKey()
			r := w.pay(key, "pm_ok")
			if r.header.Get("Idempotent-Replayed") != "false" {
				w.t.Fatal("the first answer calls itself a replay")
			}
			w.chargedOnce(key, key, r)
			if k := w.keyRow(key); k != (keyRow{Status: "completed", Attempt: 1, Generation: 1}) {
				w.t.Fatalf("key is %+v", k)
			}
			if n := w.count("SELECT count(*) FROM payments WHERE idempotency_key = $1", key); n != 1 {
				w.t.Fatalf("%d payments, want 1", n)
			}
		})
	}
}

// transitions checks a key's timeline.
func (w *world) transitions(key string, want ...string) {
	w.t.Helper()
	got := pgtest.Values[string](w.t, w.db,
		"SELECT from_status || ' ' || to_status FROM idempotency_key_events WHERE key = $1 ORDER BY id", key)
	if !slices.Equal(got, want) {
		w.t.Fatalf("timeline is %q, want %q", got, want)
	}
}

func TestInterruptedCommitOfARetakeIsInvisible(t *testing.T) {
	t.Parallel()
	w, proxy := setupProxied(t)
	failed := failedKeys(w, len(interrupted))
	atBothEnds(t, w, proxy, "RetakeKey", func(w *world) {
		key := <-failed
		w.chargedOnce(key, key, w.pay(key, "pm_ok"))
		if k := w.keyRow(key); k != (keyRow{Status: "completed", Attempt: 2, Generation: 1}) {
			w.t.Fatalf("key is %+v", k)
		}
		w.transitions(key, "in_progress failed_retryable", "failed_retryable in_progress")
	})
}

func TestInterruptedCommitOfARenewalIsInvisible(t *testing.T) {
	t.Parallel()
	w, proxy := setupProxied(t)
	atBothEnds(t, w, proxy, "RenewKey", func(w *world) {
		key := freshKey()
		first := w.pay(key, "pm_ok")
		w.exec("UPDATE idempotency_keys SET status = 'expired', delete_after = payonce_now() + interval '30 days' WHERE key = $1", key)
		r := w.pay(key, "pm_ok")
		w.chargedOnce(key, key+".g2", r)
		if k := w.keyRow(key); k != (keyRow{Status: "completed", Attempt: 1, Generation: 2}) ||
			r.text(w.t, "paymentId") == first.text(w.t, "paymentId") {
			w.t.Fatalf("key is %+v, answers are %s and %s", k, first.body, r.body)
		}
	})
}

func TestInterruptedCommitOfARefundIsInvisible(t *testing.T) {
	t.Parallel()
	w, proxy := setupProxied(t)
	for _, query := range []string{"BeginRefund", "RecordRefund"} {
		for _, body := range []string{`{}`, `{"amountCents":5000}`} {
			atBothEnds(t, w, proxy, query, func(w *world) {
				payment := w.pay(freshKey(), "pm_ok").text(w.t, "paymentId")
				key := freshKey()
				w.refundedOnce(payment, key, body, w.do(refundOf(payment, key, body)))
			})
		}
	}
}

func refundOf(paymentID, key, body string) call {
	return call{method: "POST", path: "/payments/" + paymentID + "/refunds", key: key, body: body}
}

// refundedOnce checks that the PSP has one refund, that the payment knows of exactly that, and that the answer is
// replayed.
func (w *world) refundedOnce(paymentID, key, body string, r reply) {
	w.t.Helper()
	r.expect(w.t, http.StatusCreated, "")
	refunds := w.ledger("acme", key).Refunds
	if len(refunds) != 1 || w.pspRequests("acme", key) != 1 {
		w.t.Fatalf("the PSP was asked %d times and has %+v", w.pspRequests("acme", key), refunds)
	}
	shown := w.do(call{method: "GET", path: "/payments/" + paymentID})
	if got := shown.member(w.t, "amountRefundedCents"); got != float64(refunds[0].AmountCents) {
		w.t.Fatalf("%d were refunded, the payment says %v", refunds[0].AmountCents, got)
	}
	if n := w.count(`SELECT count(*) FROM payments p JOIN refunds r ON r.tenant_id = p.tenant_id AND r.payment_id = p.id
		WHERE p.refund_held_minor = r.amount_minor AND r.idempotency_key = $1`, key); n != 1 {
		w.t.Fatal("what is held for refunds is not the one refund")
	}
	w.do(refundOf(paymentID, key, body)).same(w.t, r)
}

// A transaction that was sent may land long after its client has given it up, and after others have acted on its
// absence.

func TestLateReservationFindsItsOwnKeyCompleted(t *testing.T) {
	t.Parallel()
	w, proxy := setupProxied(t)
	key := freshKey()
	late := proxy.On("ReserveKeys", pgproxy.HoldBefore)
	answer := w.inBackground(paymentOf(key, "pm_ok"))
	late.Await(t)
	late.CutClients()
	// The same reservation, sent again on another connection.
	r := <-answer
	w.chargedOnce(key, key, r)

	late.Release()
	late.AwaitLanding(t)
	w.chargedOnce(key, key, r)
	w.nothingElseReserved(t)
}

func TestLateReservationLandsWhileThePSPIsAsked(t *testing.T) {
	t.Parallel()
	gate := newGate()
	w, proxy := setupProxied(t, func(o *options) { o.between = gate.wrap })
	key := freshKey()
	late := proxy.On("ReserveKeys", pgproxy.HoldBefore)
	answer := w.inBackground(paymentOf(key, "pm_ok"))
	late.Await(t)
	late.CutClients()
	gate.awaitArrival(t)

	late.Release()
	late.AwaitLanding(t)
	if k := w.keyRow(key); k != (keyRow{Status: "in_progress", Attempt: 1, Generation: 1}) {
		t.Fatalf("key is %+v", k)
	}
	gate.open()
	w.chargedOnce(key, key, <-answer)
	w.nothingElseReserved(t)
}

func TestLateReservationThatLandsBeforeItIsSentAgainIsTheOwner(t *testing.T) {
	t.Parallel()
	w, proxy := setupProxied(t)
	key := freshKey()
	late := proxy.On("ReserveKeys", pgproxy.HoldBefore)
	again := proxy.On("ReserveKeys", pgproxy.HoldBefore)
	answer := w.inBackground(paymentOf(key, "pm_ok"))
	late.Await(t)
	late.CutClients()
	again.Await(t)

	late.Release()
	late.AwaitLanding(t)
	again.Release()
	w.chargedOnce(key, key, <-answer)
	w.nothingElseReserved(t)
}

// Its request was told that the store is away, the client has retried, and the retry has become the owner.
func TestLateReservationCannotOustTheOwner(t *testing.T) {
	t.Parallel()
	w, proxy := setupProxied(t)
	key := freshKey()
	late := w.givenUp(proxy, key)
	r := w.pay(key, "pm_ok")
	w.chargedOnce(key, key, r)

	late.Release()
	late.AwaitLanding(t)
	w.chargedOnce(key, key, r)
	w.nothingElseReserved(t)
}

// Nobody waits for it any more: the key is reserved and never executed, until its lease is over and the PSP has been
// asked.
func TestLateReservationWithoutARequestIsNotExecuted(t *testing.T) {
	t.Parallel()
	w, proxy := setupProxied(t)
	key := freshKey()
	late := w.givenUp(proxy, key)
	late.Release()
	late.AwaitLanding(t)
	w.do(preferring(paymentOf(key, "pm_ok"), "wait=0")).
		expect(t, http.StatusConflict, "idempotency_key_in_progress")
	w.endLease(key)
	w.pay(key, "pm_ok").expect(t, http.StatusAccepted, "")
	if n := w.pspRequests("acme", key); n != 0 || w.keyRow(key).Status != "unknown" {
		t.Fatalf("PSP asked %d times, key is %+v", n, w.keyRow(key))
	}
}

// givenUp is a reservation that is still under way when its request has been answered.
func (w *world) givenUp(proxy *pgproxy.Proxy, key string) *pgproxy.Event {
	w.t.Helper()
	late := proxy.On("ReserveKeys", pgproxy.HoldBefore)
	proxy.OnNext(3, "FindKey", pgproxy.CutBefore) // and it cannot be read whether it has landed
	answer := w.inBackground(paymentOf(key, "pm_ok"))
	late.Await(w.t)
	late.CutClients()
	(<-answer).expect(w.t, http.StatusServiceUnavailable, "idempotency_store_unavailable")
	if n := w.pspRequests("acme", key); n != 0 {
		w.t.Fatalf("PSP asked %d times without a reservation", n)
	}
	return late
}

// nothingElseReserved checks that there is one key and one payment.
func (w *world) nothingElseReserved(t *testing.T) {
	t.Helper()
	if n := w.count("SELECT (SELECT count(*) FROM idempotency_keys) * 10 + (SELECT count(*) FROM payments)"); n != 11 {
		t.Fatalf("%d keys and %d payments, want one of each", n/10, n%10)
	}
}

func TestLateRetakeFindsTheKeyTaken(t *testing.T) {
	t.Parallel()
	w, proxy := setupProxied(t)
	failed := failedKeys(w, 2)
	for _, order := range []string{"sent again, late", "late, sent again"} {
		t.Run(order, func(t *testing.T) {
			w := w.in(t)
			key := <-failed
			late := proxy.On("RetakeKey", pgproxy.HoldBefore)
			again := proxy.On("RetakeKey", pgproxy.HoldBefore)
			answer := w.inBackground(paymentOf(key, "pm_ok"))
			late.Await(t)
			late.CutClients()
			again.Await(t)
			if order == "late, sent again" {
				late.Release()
				late.AwaitLanding(t)
			}
			again.Release()
			r := <-answer
			late.Release()
			if order == "sent again, late" {
				late.AwaitLanding(t)
			}
			w.chargedOnce(key, key, r)
			if k := w.keyRow(key); k != (keyRow{Status: "completed", Attempt: 2, Generation: 1}) {
				t.Fatalf("key is %+v", k)
			}
		})
	}
}

// The attempt that it would have begun was begun without it, and is over.
func TestLateRetakeOfAnEarlierAttemptTakesNothing(t *testing.T) {
	t.Parallel()
	w, proxy := setupProxied(t, unreachable)
	key := freshKey()
	w.pay(key, "pm_ok").expect(t, http.StatusServiceUnavailable, "psp_unavailable")
	late := proxy.On("RetakeKey", pgproxy.HoldBefore)
	answer := w.inBackground(paymentOf(key, "pm_ok"))
	late.Await(t)
	late.CutClients()
	(<-answer).expect(t, http.StatusServiceUnavailable, "psp_unavailable")
	late.Release()
	late.AwaitLanding(t)
	if k := w.keyRow(key); k != (keyRow{Status: "failed_retryable", Attempt: 2, Generation: 1}) {
		t.Fatalf("key is %+v", k)
	}
}

func TestLateCompletionChangesNothing(t *testing.T) {
	t.Parallel()
	w, proxy := setupProxied(t)
	key := freshKey()
	late := proxy.On("CompleteKeys", pgproxy.HoldBefore)
	answer := w.inBackground(paymentOf(key, "pm_ok"))
	late.Await(t)
	late.CutClients()
	r := <-answer
	late.Release()
	late.AwaitLanding(t)
	w.chargedOnce(key, key, r)
}

// The first landing holds all that is left, so that the second would find nothing to give back.
func TestLateRefundOfTheWholeRestIsTheOwner(t *testing.T) {
	t.Parallel()
	w, proxy := setupProxied(t)
	payment := w.pay(freshKey(), "pm_ok").text(t, "paymentId")
	key := freshKey()
	late := proxy.On("BeginRefund", pgproxy.HoldBefore)
	again := proxy.On("BeginRefund", pgproxy.HoldBefore)
	answer := w.inBackground(refundOf(payment, key, `{}`))
	late.Await(t)
	late.CutClients()
	again.Await(t)
	late.Release()
	late.AwaitLanding(t)
	again.Release()
	w.refundedOnce(payment, key, `{}`, <-answer)
}
