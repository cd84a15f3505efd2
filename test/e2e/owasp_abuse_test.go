package e2e

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"payonce/internal/tenants"
	"payonce/test/wait"
)

// Items 4, 6 and 7: using up the server, using the business against itself, and having the server ask others.

// Beside it: TestHeadersBeyondTheirLimitAreRefused, TestHostileClientsAreCutOffWhileHonestOnesAreServed,
// TestTenThousandIdleConnectionsAreNoBurden and TestTenantBeyondItsRateIsToldWhenToComeBack.
func TestOWASPAPI4UnrestrictedResourceConsumption(t *testing.T) {
	t.Parallel()
	s := setupSides(t)
	const hurriedKey = "test-hurried-everywhere"
	s.addKey("hurried", hurriedKey, tenants.PaymentsRead, tenants.PaymentsWrite)
	s.exec("UPDATE tenants SET requests_per_second = 1, request_burst = 1 WHERE id = 'hurried'")
	s.furnish()
	for _, o := range documented(t, func(o operation) bool { return o.body != nil }) {
		c := s.callOf(o)
		c.body = long(1<<20 + 1)
		s.at(o).do(c).expect(t, http.StatusRequestEntityTooLarge, "body_too_large")
	}
	for _, o := range documented(t, takesMembers) {
		c := s.callOf(o)
		c.body = `{"a":` + strings.Repeat("[", 8000) + strings.Repeat("]", 8000) + `}`
		s.at(o).do(c).expect(t, http.StatusBadRequest, "invalid_request")
		// What is wrong with 16 KiB is not said at length.
		c.body = `{"metadata":{` + strings.TrimSuffix(strings.Repeat(`" ":"",`, 2000), ",") + `}}`
		if r := s.at(o).do(c); r.status != http.StatusBadRequest || len(r.body) > 4*len(c.body) {
			t.Errorf("%s answers %d bytes to %d", o, len(r.body), len(c.body))
		}
	}
	for _, o := range documented(t, func(o operation) bool { return o.has("query", "cursor") }) {
		if !o.has("query", "limit") {
			t.Errorf("%s has no limit", o)
		}
		for _, limit := range []string{"0", "-1", "101", "1000000000", "99999999999999999999", "1e2", "0x10", "all"} {
			c := s.callOf(o)
			c.path += "?limit=" + limit
			s.at(o).do(c).expect(t, http.StatusBadRequest, "invalid_request")
		}
	}
	s.unmoved()
	for _, o := range documented(t, ofTenants) {
		limited := false
		for range 5 { // one a second is allowed
			c := s.callOf(o)
			c.as = hurriedKey
			limited = limited || s.do(c).status == http.StatusTooManyRequests
		}
		if !limited {
			t.Errorf("%s knows no rate", o)
		}
	}
	c := paymentOf(s.acme["key"], "pm_ok")
	c.header = http.Header{"Prefer": {"wait=86400"}}
	if r := s.do(c); r.header.Get("Preference-Applied") != "wait=10" {
		t.Errorf("a client may wait for %q", r.header.Get("Preference-Applied"))
	}
}

// Beside it: TestTwoHundredAtOnceAreOneCharge, TestTenRefundsAtOnceNeverExceedThePayment, TestOtherPayloadIsAMismatch,
// TestLostOutcomeIsPendingAndNeverExecutedAgain.
func TestOWASPAPI6UnrestrictedAccessToSensitiveBusinessFlows(t *testing.T) {
	t.Parallel()
	w := setup(t)
	// One key in all its spellings, for one intent in many, at once.
	key := freshKey()
	replies := w.together(40, func(i int) call {
		c := call{method: "POST", path: "/payments", key: []string{key, `"` + key + `"`}[i%2], body: order("pm_ok")}
		if i%4 > 1 {
			c.body = ` { "paymentMethod" : "pm\u005fok" , "currency":"USD", "amountCents":12000,"customerId":"cus-1"}`
		}
		return c
	})
	var payment reply
	for _, r := range replies {
		switch r.status {
		case http.StatusCreated:
			payment = r
		case http.StatusConflict:
		default:
			t.Fatalf("answered %d %s", r.status, r.body)
		}
	}
	w.chargedOnce(key, key, w.pay(key, "pm_ok"))
	id := payment.text(t, "paymentId")

	// The money back, under keys enough to get it many times over: by refunds, by those of the whole rest, and all of
	// it twice.
	bodies := []string{`{}`, `{"amountCents":5000}`, `{"amountCents":12000}`, `{"amountCents":1}`}
	for _, r := range w.together(40, func(i int) call {
		return refundOf(id, fmt.Sprintf("%s-%d", freshKey(), i),
			bodies[i%len(bodies)])
	}) {
		if r.status != http.StatusCreated && r.status != http.StatusConflict {
			t.Fatalf("answered %d %s", r.status, r.body)
		}
	}
	if n := w.count("SELECT coalesce(sum(amount_minor), 0) FROM refunds WHERE status = 'succeeded'"); n > 12000 {
		t.Fatalf("%d was given back of 12000", n)
	}
	var books struct {
		Refunds []struct{ AmountCents int }
	}
	w.askPSP("/_ledger?account=acme", &books)
	back := 0
	for _, r := range books.Refunds {
		back += r.AmountCents
	}
	if back > 12000 || back == 0 {
		t.Fatalf("the PSP has given back %d of 12000", back)
	}
	// What was given back is not charged again by asking again, nor does the answer change.
	w.pay(key, "pm_ok").same(t, payment)
	if n := w.pspPosts("acme", key); n != 1 {
		t.Fatalf("the PSP was asked %d times", n)
	}
}

// together sends n requests at once.
func (w *world) together(n int, of func(i int) call) []reply {
	w.t.Helper()
	calls, replies := make([]call, n), make([]reply, n)
	for i := range calls {
		calls[i] = of(i)
	}
	wait.AtOnce(n, func(i int) {
		r, err := w.try(calls[i])
		if err != nil {
			w.t.Error(err)
		}
		replies[i] = r
	})
	return replies
}

// trap is an address that nobody may connect to, and the count of those who did.
type trap struct {
	url  string
	hits atomic.Int32
}

func setTrap(t *testing.T) *trap {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	r := &trap{url: "http://" + l.Addr().String()}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r.hits.Add(1)
			_ = c.Close()
		}
	}()
	return r
}

// Beside it: TestRedirectIsNeverFollowed, TestChargeIDCannotLeaveItsPlaceInThePath,
// TestPageThatLeadsAstrayIsRefused.
func TestOWASPAPI7ServerSideRequestForgery(t *testing.T) {
	t.Parallel()
	trap := setTrap(t)
	var astray atomic.Bool
	w := setupOpen(t, shared(soon), func(o *options) {
		o.between = func(psp http.Handler) http.Handler {
			return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if !astray.Load() {
					psp.ServeHTTP(rw, r)
					return
				}
				rw.Header().Set("Location", trap.url+r.URL.Path)
				rw.Header().Set("Link", "<"+trap.url+">; rel=next")
				rw.Header().Set("Refresh", "0; url="+trap.url)
				rw.WriteHeader(http.StatusTemporaryRedirect)
			})
		}
	})
	w.reconcile(scanning)
	d := w.openOps()
	// From clients and from the PSP's webhooks, wherever a text may stand.
	key := trap.url + "/" + freshKey()
	c := call{method: "POST", path: "/payments", key: key, header: http.Header{
		"Referer": {trap.url}, "Origin": {trap.url}, "X-Forwarded-Host": {strings.TrimPrefix(trap.url, "http://")},
		"Forwarded":      {"host=" + trap.url},
		"X-Callback-Url": {trap.url}, "X-Webhook-Url": {trap.url}, "Soapaction": {trap.url},
	}, body: fmt.Sprintf(`{"customerId":"cus-1","amountCents":12000,"currency":"USD","description":%[1]q,"metadata":{"callback_url":%[1]q,"webhook":%[1]q}}`, trap.url)}
	paid := w.do(c)
	paid.expect(t, http.StatusCreated, "")
	w.refund(paid.text(t, "paymentId"), freshKey(), fmt.Sprintf(`{"amountCents":1,"reason":%q}`, trap.url)).expect(t,
		http.StatusCreated, "")
	w.signed("evt_urls",
		fmt.Sprintf(`{"type":"charge.succeeded","url":%[1]q,"data":{"id":%[1]q,"object":"charge","account":%[1]q,"idempotencyKey":%[1]q,`+
			`"reference":%[1]q,"amountCents":1,"currency":"USD","status":"succeeded","createdAt":"2026-01-02T03:04:05.000000Z","receiptUrl":%[1]q}}`, trap.url))
	w.signed("evt_type", fmt.Sprintf(`{"type":%q,"data":{}}`, trap.url))
	eventually(t, "the processing of the webhooks", func() bool {
		return w.count("SELECT count(*) FROM webhook_events WHERE processed_at IS NOT NULL AND id IN ('evt_urls', 'evt_type')") == 2
	})
	// From the PSP's answers: to charges, to lookups until they are given up, and to the scan of its list.
	astray.Store(true)
	lost := freshKey()
	w.pay(lost, "pm_ok").expect(t, http.StatusAccepted, "")
	d.find("lookups_exhausted", lost)
	if n := trap.hits.Load(); n != 0 {
		t.Fatalf("%d requests went where somebody has pointed", n)
	}
	if res, err := net.Dial("tcp", strings.TrimPrefix(trap.url, "http://")); err != nil {
		t.Fatalf("nobody could have gone there: %v", err)
	} else {
		_ = res.Close()
	}
	eventually(t, "the trap's snapping", func() bool { return trap.hits.Load() == 1 })
}
