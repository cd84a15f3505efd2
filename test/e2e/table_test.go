package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"payonce/internal/config"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
	"payonce/test/wait"
)

func TestNewKeyIsCharged(t *testing.T) {
	t.Parallel()
	w := setup(t)
	key := freshKey()
	r := w.pay(key, "pm_ok")
	r.expect(t, http.StatusCreated, "")
	if r.header.Get("Location") != "/payments/"+r.text(t, "paymentId") || r.text(t, "status") != "succeeded" ||
		r.text(t, "amount") != "120.00" {
		t.Fatalf("unexpected answer: %v %s", r.header, r.body)
	}
	if r.header.Get("Idempotency-Key") != key || r.header.Get("Idempotent-Replayed") != "false" ||
		r.header.Get("Idempotency-Key-Expires") == "" {
		t.Fatalf("headers of a keyed response are missing: %v", r.header)
	}
	l := w.ledger("acme", key)
	if len(l.Charges) != 1 || l.Charges[0].Reference != r.text(t, "paymentId") ||
		l.Charges[0].ID != r.text(t, "pspChargeId") {
		t.Fatalf("the PSP's ledger has %+v", l)
	}
	shown := w.do(call{method: "GET", path: r.header.Get("Location")})
	if shown.expect(t, http.StatusOK, ""); string(shown.undated()) != string(r.body) {
		t.Fatalf("the payment reads %s, its answer %s", shown.body, r.body)
	}
}

// The PSP says, in the one way that is documented for it, that nothing has happened and nothing will. It keeps no
// record of that.
func TestUnknownPaymentMethodIsDeclinedAndStored(t *testing.T) {
	t.Parallel()
	w := setup(t)
	key := freshKey()
	first := w.pay(key, "pm_gold")
	first.expect(t, http.StatusPaymentRequired, "payment_declined")
	if first.text(t, "declineCode") != "unknown_payment_method" || first.member(t, "retryable") != false {
		t.Fatalf("refused with %s", first.body)
	}
	for range 2 {
		again := w.pay(key, "pm_gold")
		if again.same(t, first); again.header.Get("Idempotent-Replayed") != "true" {
			t.Fatalf("the refusal was not replayed: %v", again.header)
		}
	}
	w.pay(key, "pm_ok").expect(t, http.StatusUnprocessableEntity, "idempotency_key_reused_with_different_payload")
	if k := w.keyRow(key); k.Status != "completed" || k.Attempt != 1 || w.pspRequests("acme", key) != 1 {
		t.Fatalf("key is %+v, PSP asked %d times", k, w.pspRequests("acme", key))
	}
	shown := w.do(call{method: "GET", path: first.header.Get("Location")})
	if shown.text(t, "status") != "declined" || shown.text(t, "declineCode") != "unknown_payment_method" ||
		strings.Contains(string(shown.body), "pspChargeId") {
		t.Fatalf("the payment reads %s", shown.body)
	}
	if l := w.ledger("acme", key); len(l.Charges) != 0 {
		t.Fatalf("the PSP's ledger has %+v", l)
	}
}

func TestCompletedKeyIsReplayedToTheByte(t *testing.T) {
	t.Parallel()
	w := setup(t)
	key := freshKey()
	first := w.pay(key, "pm_ok")
	for range 3 {
		// the other spelling of key and body
		again := w.do(call{method: "POST", path: "/payments", key: `"` + key + `"`,
			body: `{ "currency":"USD", "amountCents":12000,"metadata":{},"customerId":"cus-1" }`})
		again.same(t, first)
		if again.header.Get("Idempotent-Replayed") != "true" {
			t.Fatal("a replay does not say so")
		}
	}
	if n := w.pspRequests("acme", key); n != 1 {
		t.Fatalf("PSP asked %d times", n)
	}
}

// Every one of these is unknown for us, and must never be executed again, whatever the PSP has really done.
func TestLostOutcomeIsPendingAndNeverExecutedAgain(t *testing.T) {
	t.Parallel()
	for method, charged := range map[string]int{
		"pm_timeout_charged": 1, "pm_silent_charged": 1, "pm_timeout_not_charged": 0, "pm_500_charged": 1,
		"pm_500_not_charged": 0, "pm_never": 0, "pm_reset_charged": 1, "pm_late_charge": 1, "pm_wrong_amount": 1,
		"pm_stuck": 1,
	} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			w := setup(t, func(o *options) {
				o.settings = func(c *config.API) { c.PSPTotal = 300 * time.Millisecond }
			})
			key := freshKey()
			for range 3 {
				r := w.pay(key, method)
				r.expect(t, http.StatusAccepted, "")
				if r.text(t, "status") != "processing" || r.header.Get("Location") != "/payments/"+
					r.text(t, "paymentId") || r.header.Get("Retry-After") == "" {
					t.Fatalf("unexpected answer: %v %s", r.header, r.body)
				}
			}
			if n := w.pspRequests("acme", key); n != 1 {
				t.Fatalf("PSP asked %d times", n)
			}
			if k := w.keyRow(key); k.Status != "unknown" {
				t.Fatalf("key is %+v", k)
			}
			eventually(t, "the ledger's final state",
				func() bool { return len(w.ledger("acme", key).Charges) == charged })
		})
	}
}

func TestUnreachablePSPReleasesTheKey(t *testing.T) {
	t.Parallel()
	back := setup(t)
	w, key := back.withoutPSP(), freshKey()
	r := w.pay(key, "pm_ok")
	r.expect(t, http.StatusServiceUnavailable, "psp_unavailable")
	if r.header.Get("Retry-After") == "" || r.member(t, "retryable") != true {
		t.Fatalf("unexpected answer: %v %s", r.header, r.body)
	}
	if k := w.keyRow(key); k.Status != "failed_retryable" || k.Attempt != 1 {
		t.Fatalf("key is %+v", k)
	}
	payment := w.do(call{method: "GET", path: "/payments/" + r.text(t, "paymentId")})
	if payment.text(t, "status") != "failed" {
		t.Fatalf("payment is %s", payment.body)
	}

	// The same key again, when the PSP is back: the next attempt, for the same payment.
	again := back.pay(key, "pm_ok")
	again.expect(t, http.StatusCreated, "")
	if again.text(t, "paymentId") != r.text(t, "paymentId") {
		t.Fatalf("a retry made another payment: %s, then %s", r.body, again.body)
	}
	if k := w.keyRow(key); k.Status != "completed" || k.Attempt != 2 || k.Generation != 1 {
		t.Fatalf("key is %+v", k)
	}
}

func TestOpenBreakerRefusesBeforeReserving(t *testing.T) {
	t.Parallel()
	w := setup(t, func(o *options) {
		o.settings = func(c *config.API) { c.PSPBreakerFailures, c.PSPBreakerOpen = 1, time.Hour }
	})
	completed := freshKey()
	first := w.pay(completed, "pm_ok")
	w.pay(freshKey(), "pm_500_charged").expect(t, http.StatusAccepted, "")

	key := freshKey()
	w.pay(key, "pm_ok").expect(t, http.StatusServiceUnavailable, "psp_unavailable")
	if n := w.count("SELECT count(*) FROM idempotency_keys WHERE key = $1", key); n != 0 {
		t.Fatal("a key was reserved while the breaker was open")
	}
	w.pay(completed, "pm_ok").same(t, first)
}

// takenBefore has a key stand for a request that the rules of an earlier version took, and those of today refuse.
func (w *world) takenBefore(key, path string, request any) (body string) {
	w.t.Helper()
	fingerprint, err := idempotency.FingerprintOf(http.MethodPost, path, request)
	if err != nil {
		w.t.Fatal(err)
	}
	w.behindTheGuard("UPDATE idempotency_keys SET fingerprint = $2 WHERE key = $1", key, fingerprint[:])
	raw, err := json.Marshal(request)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(raw)
}

// After an upgrade, a client may repeat what an earlier version has taken. What came of it counts, and not the rules of
// today: a 400 would say that nothing was charged.
func TestReplayComesBeforeTodaysRules(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const pan = "4111 1111 1111 1111"
	payments := map[string]func(*payment.CreateRequest){
		"/currency":      func(r *payment.CreateRequest) { r.Currency = "HRK" },
		"/description":   func(r *payment.CreateRequest) { r.Description = pan },
		"/paymentMethod": func(r *payment.CreateRequest) { r.PaymentMethod = "pm_NotOfThisPSP" },
	}
	for place, change := range payments {
		t.Run(place, func(t *testing.T) {
			request := payment.CreateRequest{CustomerID: "cus-1", AmountCents: price, Currency: "USD",
				PaymentMethod: "pm_ok"}
			change(&request)
			w.replaysBeforeTheRules("/payments", request, place, paymentOf)
		})
	}
	id := w.paid()
	w.replaysBeforeTheRules("/payments/"+id+"/refunds", payment.RefundRequest{AmountCents: 1, Reason: pan}, "/reason",
		func(key, method string) call {
			return refundOf(id, key, fmt.Sprintf(`{"amountCents":1,"reason":%q}`, method))
		})
}

func (w *world) replaysBeforeTheRules(path string, request any, place string, plain func(key, method string) call) {
	t := w.t
	t.Helper()
	unused := freshKey()
	for method, want := range map[string]int{"pm_ok": http.StatusCreated, "pm_declined": http.StatusPaymentRequired,
		"pm_500_charged": http.StatusAccepted} {
		key := freshKey()
		first := w.do(plain(key, method))
		if first.status != want {
			t.Fatalf("%s: %d %s", method, first.status, first.body)
		}
		c := call{method: http.MethodPost, path: path, key: key, body: w.takenBefore(key, path, request)}
		again := w.do(c)
		if again.status != want || want != http.StatusAccepted && !bytes.Equal(again.body, first.body) {
			t.Errorf("%s: the key's own request is answered %d %s", method, again.status, again.body)
		}
		if n := w.pspRequests("acme", key); n != 1 {
			t.Errorf("PSP asked %d times", n)
		}
		c.key = unused
		refused := w.do(c)
		refused.expect(t, http.StatusBadRequest, "invalid_request")
		if diff := cmp.Diff([]string{place}, refused.reasons(t)); diff != "" {
			t.Errorf("places (-want +got):\n%s", diff)
		}
		w.untouched(unused)
	}
}

func TestOtherPayloadIsAMismatch(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, method := range []string{"pm_ok", "pm_declined", "pm_500_charged"} {
		key := freshKey()
		w.pay(key, method)
		other := strings.Replace(order(method), "12000", "12001", 1)
		r := w.do(call{method: "POST", path: "/payments", key: key, body: other})
		r.expect(t, http.StatusUnprocessableEntity, "idempotency_key_reused_with_different_payload")
		if n := w.pspRequests("acme", key); n != 1 {
			t.Fatalf("PSP asked %d times", n)
		}
	}
}

func TestInFlightDuplicate(t *testing.T) {
	t.Parallel()
	gate := newGate()
	w := setup(t, func(o *options) { o.between = gate.wrap })
	key := freshKey()
	first := w.inBackground(paymentOf(key, "pm_ok"))
	gate.awaitArrival(t)

	busy := w.do(preferring(paymentOf(key, "pm_ok"), "wait=0"))
	busy.expect(t, http.StatusConflict, "idempotency_key_in_progress")
	if busy.header.Get("Retry-After") == "" || busy.text(t, "paymentId") == "" {
		t.Fatalf("unexpected answer: %v %s", busy.header, busy.body)
	}
	async := w.do(call{method: "POST", path: "/payments", key: key, body: order("pm_ok"),
		header: http.Header{"Prefer": {"respond-async"}}})
	async.expect(t, http.StatusAccepted, "")
	if async.header.Get("Preference-Applied") != "respond-async" || async.header.Get("Location") == "" {
		t.Fatalf("unexpected answer: %v", async.header)
	}
	tooShort := w.do(call{method: "POST", path: "/payments", key: key, body: order("pm_ok"),
		header: http.Header{"Prefer": {"wait=1"}}})
	tooShort.expect(t, http.StatusConflict, "idempotency_key_in_progress")

	patient := w.inBackground(preferring(paymentOf(key, "pm_ok"), "wait=10"))
	silent := w.inBackground(paymentOf(key, "pm_ok"))
	eventually(t, "both wait", func() bool { return w.metric("payonce_requests_waiting") == 2 })
	gate.open()
	r := <-first
	r.expect(t, http.StatusCreated, "")
	for preferred, answer := range map[string]<-chan reply{"wait=10": patient, "": silent} {
		again := <-answer
		again.same(t, r)
		if again.applied() != preferred || again.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("with the preference %q: %v", preferred, again.header)
		}
	}
	if n := w.pspRequests("acme", key); n != 1 {
		t.Fatalf("PSP asked %d times", n)
	}
}

// The setting bounds the wait of a request that prefers nothing. 0 is the 409 at once, and a preference is not bounded.
func TestSettingSaysHowLongASecondRequestWaits(t *testing.T) {
	t.Parallel()
	for _, setting := range []time.Duration{0, 300 * time.Millisecond} {
		w, gate, key, first := heldPayment(t, "pm_ok", func(o *options) {
			o.settings = func(c *config.API) { c.InFlightWait = setting }
		})
		began := time.Now()
		busy := w.pay(key, "pm_ok")
		busy.expect(t, http.StatusConflict, "idempotency_key_in_progress")
		if took := time.Since(began); took < setting || busy.applied() != "" {
			t.Errorf("%s: answered after %s, with the preference %q", setting, took, busy.applied())
		}
		preferred := w.inBackground(preferring(paymentOf(key, "pm_ok"), "wait=10"))
		eventually(t, "it waits", func() bool { return w.metric("payonce_requests_waiting") == 1 })
		gate.open()
		(<-first).expect(t, http.StatusCreated, "")
		(<-preferred).expect(t, http.StatusCreated, "")
	}
}

// The end of the execution ends the wait of a request that prefers nothing, also where its outcome is lost.
func TestSecondRequestIsToldThatTheOutcomeIsLost(t *testing.T) {
	t.Parallel()
	w, gate, key, first := heldPayment(t, "pm_500_charged")
	second := w.inBackground(paymentOf(key, "pm_500_charged"))
	eventually(t, "it waits", func() bool { return w.metric("payonce_requests_waiting") == 1 })
	gate.open()
	(<-first).expect(t, http.StatusAccepted, "")
	(<-second).expect(t, http.StatusAccepted, "")
	w.pay(key, "pm_500_charged").expect(t, http.StatusAccepted, "") // at once
}

func TestFailedRetryableIsExecutedAgainOnlyWhileThePSPRemembers(t *testing.T) {
	t.Parallel()
	w := setup(t, unreachable)
	key := freshKey()
	w.pay(key, "pm_ok").expect(t, http.StatusServiceUnavailable, "psp_unavailable")
	w.pay(key, "pm_ok").expect(t, http.StatusServiceUnavailable, "psp_unavailable")
	if k := w.keyRow(key); k.Attempt != 2 {
		t.Fatalf("key is %+v", k)
	}
	w.behindTheGuard("UPDATE idempotency_keys SET reserved_at = payonce_now() - interval '25 hours'")
	w.pay(key, "pm_ok").expect(t, http.StatusGone, "idempotency_key_expired")
	if k := w.keyRow(key); k.Attempt != 2 || k.Status != "failed_retryable" {
		t.Fatalf("key is %+v", k)
	}
}

func TestExpiredKeyIsANewGeneration(t *testing.T) {
	t.Parallel()
	w := setup(t)
	key := freshKey()
	first := w.pay(key, "pm_ok")
	w.exec("UPDATE idempotency_keys SET status = 'expired', delete_after = payonce_now() + interval '30 days' WHERE key = $1", key)
	w.do(call{method: "GET", path: "/idempotency-keys/" + key}).expect(t, http.StatusGone, "idempotency_key_expired")

	other := strings.Replace(order("pm_ok"), "12000", "500", 1) // any fingerprint
	second := w.do(call{method: "POST", path: "/payments", key: key, body: other})
	second.expect(t, http.StatusCreated, "")
	if second.text(t, "paymentId") == first.text(t, "paymentId") {
		t.Fatal("a new generation shares the old one's payment")
	}
	if k := w.keyRow(key); k.Generation != 2 || k.Attempt != 1 {
		t.Fatalf("key is %+v", k)
	}
	if len(w.ledger("acme", key).Charges) != 1 || len(w.ledger("acme", key+".g2").Charges) != 1 {
		t.Fatal("the PSP did not see the generations under keys of their own")
	}
}

func TestRequestThatMeetsAnExpiredLeaseMakesTheKeyUnknown(t *testing.T) {
	t.Parallel()
	gate := newGate()
	w := setup(t, func(o *options) { o.between = gate.wrap })
	key := freshKey()
	first := w.inBackground(paymentOf(key, "pm_ok"))
	gate.awaitArrival(t)
	w.endLease(key)
	w.pay(key, "pm_ok").expect(t, http.StatusAccepted, "")
	if k := w.keyRow(key); k.Status != "unknown" {
		t.Fatalf("key is %+v", k)
	}
	// The owner was late, not dead, and holds a success.
	gate.open()
	r := <-first
	r.expect(t, http.StatusCreated, "")
	w.pay(key, "pm_ok").same(t, r)
	if n := w.pspRequests("acme", key); n != 1 {
		t.Fatalf("PSP asked %d times", n)
	}
	if n := w.count("SELECT count(*) FROM idempotency_key_events WHERE key = $1 AND reason IN ('lease over', 'the PSP says succeeded')", key); n != 2 {
		t.Fatalf("%d events on the timeline, want 2", n)
	}
}

func TestStoreDownNeverReachesThePSP(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.pay(freshKey(), "pm_ok").expect(t, http.StatusCreated, "") // the API key is known from here on
	broken := setup(t, func(o *options) {
		o.database = func(string) string { return "postgres://nobody@127.0.0.1:1/none" }
	})
	key := freshKey()
	r := broken.pay(key, "pm_ok")
	r.expect(t, http.StatusServiceUnavailable, "idempotency_store_unavailable")
	if r.header.Get("Retry-After") == "" || broken.pspRequests("acme", key) != 0 {
		t.Fatal("the PSP was asked, or no Retry-After")
	}
}

func TestTwoTenantsWithEqualKeys(t *testing.T) {
	t.Parallel()
	w := setup(t)
	key := freshKey()
	acme := w.do(call{method: "POST", path: "/payments", key: key, body: order("pm_ok")})
	globex := w.do(call{method: "POST", path: "/payments", key: key, as: globexKey, body: order("pm_ok")})
	acme.expect(t, http.StatusCreated, "")
	globex.expect(t, http.StatusCreated, "")
	if acme.text(t, "paymentId") == globex.text(t, "paymentId") || globex.header.Get("Idempotent-Replayed") != "false" {
		t.Fatal("two tenants met in one key")
	}
	if len(w.ledger("acme", key).Charges) != 1 || len(w.ledger("globex", key).Charges) != 1 {
		t.Fatal("the PSP did not charge each tenant's account once")
	}
	theirs := w.do(call{method: "GET", path: "/payments/" + acme.text(t, "paymentId"), as: globexKey})
	none := w.do(call{method: "GET", path: "/payments/pay_00000000000000000000000000", as: globexKey})
	theirs.expect(t, http.StatusNotFound, "not_found")
	if theirs.text(t, "detail") != none.text(t, "detail") {
		t.Fatal("another tenant's payment can be told from none")
	}
}

func TestTwoHundredAtOnceAreOneCharge(t *testing.T) {
	t.Parallel()
	w := setup(t)
	key := freshKey()
	const racers = 200
	replies := make(chan reply, racers)
	for range racers {
		go func() {
			r, err := w.try(call{method: "POST", path: "/payments", key: key, body: order("pm_ok"),
				header: http.Header{"Prefer": {"wait=10"}}})
			if err != nil {
				t.Error(err)
			}
			replies <- r
		}()
	}
	first := <-replies
	first.expect(t, http.StatusCreated, "")
	originals := 0
	for i := range racers {
		r := first
		if i > 0 {
			r = <-replies
		}
		r.same(t, first)
		if r.header.Get("Idempotent-Replayed") == "false" {
			originals++
		}
	}
	if l := w.ledger("acme", key); len(l.Charges) != 1 || w.pspRequests("acme", key) != 1 || originals != 1 {
		t.Fatalf("%d charges, PSP asked %d times, %d answers claim to be the first", len(l.Charges),
			w.pspRequests("acme", key), originals)
	}
}

// No send without a durable reservation before it: the PSP looks into our database when it is asked.
func TestPSPIsAskedOnlyAfterTheReservationIsCommitted(t *testing.T) {
	t.Parallel()
	var w *world
	seen := make(chan string, 10)
	w = setup(t, func(o *options) {
		o.between = func(psp http.Handler) http.Handler {
			return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				var state string
				err := w.db.QueryRow(r.Context(), `SELECT k.status || ' ' || p.status FROM idempotency_keys k JOIN payments p ON p.tenant_id = k.tenant_id AND p.id = k.subject
					WHERE k.key = $1`, r.Header.Get("Idempotency-Key")).Scan(&state)
				if err != nil {
					state = err.Error()
				}
				seen <- state
				psp.ServeHTTP(rw, r)
			})
		}
	})
	w.pay(freshKey(), "pm_ok").expect(t, http.StatusCreated, "")
	if state := <-seen; state != "in_progress processing" {
		t.Fatalf("the PSP was asked while the database said: %s", state)
	}
}

func TestClientThatHangsUpIsChargedOnceAllTheSame(t *testing.T) {
	t.Parallel()
	gate := newGate()
	w := setup(t, func(o *options) { o.between = gate.wrap })
	key := freshKey()
	ctx, hangUp := context.WithCancel(context.Background())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, err := w.try(call{ctx: ctx, method: "POST", path: "/payments", key: key, body: order("pm_ok")})
		if err == nil {
			t.Error("the client was answered before it hung up")
		}
	}()
	gate.awaitArrival(t)
	hangUp()
	<-gone
	gate.open()
	eventually(t, "completion without a client", func() bool { return w.keyRow(key).Status == "completed" })
	r := w.pay(key, "pm_ok")
	r.expect(t, http.StatusCreated, "")
	if r.header.Get("Idempotent-Replayed") != "true" || len(w.ledger("acme", key).Charges) != 1 {
		t.Fatal("the hang-up was not invisible")
	}
}

// gate stops the first request on its way to the PSP until it is opened.
type gate struct{ arrived, opened chan struct{} }

func newGate() *gate { return &gate{make(chan struct{}, 100), make(chan struct{})} }

func (g *gate) wrap(psp http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Only a request that has been read to its end hears that its client has gone.
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		g.arrived <- struct{}{}
		select {
		case <-g.opened:
		case <-r.Context().Done():
		}
		psp.ServeHTTP(w, r)
	})
}

// wrapRefunds lets everything through that is no refund.
func (g *gate) wrapRefunds(psp http.Handler) http.Handler {
	held := g.wrap(psp)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/refunds") {
			held.ServeHTTP(w, r)
			return
		}
		psp.ServeHTTP(w, r)
	})
}

func (g *gate) open() { close(g.opened) }

func (g *gate) awaitArrival(t testing.TB) {
	t.Helper()
	wait.For(t, "an arrival at the PSP", g.arrived)
}
