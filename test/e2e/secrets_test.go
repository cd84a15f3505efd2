package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json"

	"payonce/internal/config"
)

// Whatever clients send may be secret, or may have got into the wrong place. Each value below holds the word canary. It
// must not come out in a log, whatever the level, nor in a refusal. Three echoes are part of the contract: a valid
// Idempotency-Key in the header of that name, the request's own path in a problem's instance, and a pointer to a member
// whose name could be one of ours.

// quiet checks that a refusal repeats nothing.
func (r reply) quiet(t testing.TB, what string) {
	t.Helper()
	if r.status < http.StatusBadRequest {
		return
	}
	var document map[string]any
	if err := json.Unmarshal(r.body, &document); err != nil {
		t.Errorf("%s: %v\n%s", what, err, r.body)
	}
	delete(document, "instance")
	header := r.header.Clone()
	header.Del("Idempotency-Key")
	if all := strings.ToLower(fmt.Sprint(document, header)); strings.Contains(all, "canary") {
		t.Errorf("%s: the refusal repeats it: %s", what, all)
	}
}

// logsAreQuiet checks that nothing was logged that must not be, and that something was.
func (w *world) logsAreQuiet(atLeast int) {
	w.t.Helper()
	eventually(w.t, "a line for each request",
		func() bool { return strings.Count(w.logs.String(), `"msg":"request"`) >= atLeast })
	logs := w.logs.String()
	for line := range strings.Lines(logs) {
		for _, secret := range []string{"canary", acmeKey, globexKey, readonlyKey, operatorKey, pspSecret, "bearer "} {
			if strings.Contains(strings.ToLower(line), secret) {
				w.t.Errorf("the log tells %q: %s", secret, line)
			}
		}
	}
}

func canaryOrder(edit ...string) string {
	return strings.NewReplacer(edit...).Replace(
		`{"customerId":"canary-customer","amountCents":12000,"currency":"USD","paymentMethod":"pm_ok",` +
			`"description":"canary description","metadata":{"canary-name":"canary-value"}}`)
}

func TestWhatIsInAPaymentStaysOutOfLogsAndRefusals(t *testing.T) {
	t.Parallel()
	w := setup(t)
	key := "canary-key-0123456789"
	pay := func(key, body string) reply {
		r := w.do(call{method: "POST", path: "/payments", key: key, body: body})
		r.quiet(t, body)
		return r
	}
	paid := pay(key, canaryOrder())
	paid.expect(t, http.StatusCreated, "")
	if !strings.Contains(string(paid.body), "canary description") {
		t.Fatal("the canaries do not fly")
	}
	requests := 1
	for _, method := range []string{"pm_ok", "pm_declined", "pm_500_charged", "pm_wrong_amount", "pm_reset_charged",
		"pm_canary_unknown"} {
		key := "canary-" + freshKey()
		pay(key, canaryOrder("pm_ok", method))
		pay(key, canaryOrder("pm_ok", method))
		pay(key, canaryOrder("12000", "1")).expect(t, http.StatusUnprocessableEntity, "")
		requests += 3
	}
	for _, body := range []string{
		canaryOrder(`USD`, `canary`), canaryOrder(`pm_ok`, `canary-pm`), canaryOrder(`12000`, `"canary"`),
		canaryOrder(`12000`, `canary`),
		canaryOrder(`canary-customer`, `canary customer`), canaryOrder(`canary-name`, `canary name`),
		canaryOrder(`canary-name`, `name`, `"canary-value"`, `["canary"]`),
		canaryOrder(`"amountCents"`, `"canary <name>":1,"amountCents"`),
		canaryOrder(`canary description`, `canary \u0000`), canaryOrder(`}}`, `}`),
		canaryOrder(`canary description`, "canary \xff"), canaryOrder(`{"customer`, `canary{"customer`),
		canaryOrder(`}}`, `}}canary`),
		canaryOrder(`canary description`, strings.Repeat("canary", 100)),
		canaryOrder(`canary description`, "canary 4111111111111111"), long(20000) + "canary",
	} {
		pay(freshKey(), body).expect(t, pay(freshKey(), body).status, "")
		requests += 2
	}
	id := paid.text(t, "paymentId")
	for _, reason := range []string{"canary reason", "pm_500_charged canary", `canary \u0000`} {
		r := w.refund(id, "canary-"+freshKey(), `{"amountCents":1,"reason":"`+reason+`"}`)
		r.quiet(t, reason)
		requests++
	}
	w.logsAreQuiet(requests)
}

func TestWhatIsInHeadersAndPathsStaysOutOfLogsAndRefusals(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var calls []call
	for _, name := range []string{"User-Agent", "X-Request-Id", "Prefer", "Referer", "Cookie", "X-Forwarded-For",
		"Forwarded", "Traceparent", "Accept", "Origin", "X-Canary"} {
		c := paymentOf(freshKey(), "pm_declined")
		c.header = http.Header{name: {"canary"}}
		calls = append(calls, c)
	}
	for name, value := range map[string]string{
		"Content-Type": "canary", "Content-Encoding": "canary", "Idempotency-Key": "canary key 0123456789",
		"Authorization": "Bearer canary-api-key",
	} {
		c := paymentOf("", "pm_ok")
		c.header = http.Header{"Idempotency-Key": {freshKey()}, name: {value}}
		calls = append(calls, c)
	}
	calls = append(calls, paymentOf("canary@example.com", "pm_ok"), paymentOf("canary-4111111111111111", "pm_ok"),
		paymentOf(`"canary-0123456789`, "pm_ok"),
		call{method: "GET", path: "/payments"}.authorized(
			"Canary "+acmeKey), call{method: "GET", path: "/payments"}.authorized("Bearer canary", "Bearer canary"))
	for _, path := range []string{
		"/canary", "/payments/canary", "/payments/pay_canary", "/refunds/canary", "/idempotency-keys/canary-0123456789",
		"/idempotency-keys/canary", "/docs/canary.js.map",
		"/payments?canary=1", "/payments?canary=1&canary=2", "/payments?customerId=canary%20",
		"/payments?status=canary", "/payments?limit=canary",
		"/payments?cursor=canary", "/payments?customerId=canary", "/payments?%zzcanary",
		"/idempotency-keys/0123456789abcdef?operation=canary", "/?canary=1",
	} {
		calls = append(calls, call{method: "GET", path: path}, call{method: "CANARY", path: path})
	}
	for _, c := range calls {
		r, err := w.try(c)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(r.header.Get("Content-Type"), "text/") {
			continue // a page, which is the same for everybody
		}
		r.quiet(t, fmt.Sprint(c.method, " ", c.path, " ", c.header))
	}
	w.logsAreQuiet(len(calls))
}

// What never becomes a request is the HTTP server's to refuse.
func TestWhatIsNotHTTPStaysOutOfLogsAndRefusals(t *testing.T) {
	t.Parallel()
	w := setup(t)
	addr := w.served(func(*http.Server) {})
	const end = "Connection: close\r\n\r\n"
	for _, raw := range []string{
		"CANARY\r\n\r\n", "GET /canary\r\n\r\n", "GET /canary CANARY/1.1\r\n\r\n",
		"GET canary HTTP/1.1\r\nHost: x\r\n" + end, "GET / HTTP/1.1\r\nHost: canary canary\r\n" + end,
		"GET / HTTP/1.1\r\nHost: x\r\ncanary\r\n" + end, "GET / HTTP/1.1\r\nHost: x\r\nCanary Name: x\r\n" + end,
		"GET / HTTP/1.1\r\nHost: x\r\nX: canary\x01\r\n" + end,
		"GET /%zzcanary HTTP/1.1\r\nHost: x\r\n" + end, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: canary\r\n" +
			end,
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: canary\r\n" + end, "GET / HTTP/9.9\r\nHost: canary\r\n" + end,
		"GET / HTTP/1.1\r\nX: canary\r\n" + end,
		"GET / HTTP/1.1\r\nHost: x\r\nX: canary" + long(32<<10) + "\r\n" + end, "\x16\x03\x01canary\r\n\r\n",
		"POST /payments HTTP/1.1\r\nHost: x\r\nExpect: canary\r\nContent-Length: 2\r\n" + end,
	} {
		answer := talk(t, addr, raw)
		if !strings.HasPrefix(answer, "HTTP/1.1 4") && !strings.HasPrefix(answer, "HTTP/1.1 5") ||
			strings.Contains(strings.ToLower(answer), "canary") {
			t.Errorf("%.60q is answered\n%.300s", raw, answer)
		}
	}
	w.logsAreQuiet(0)
}

// The PSP is somebody else's machine. What it says goes to the timeline, where operators look, and not into logs.
func TestWhatThePSPSaysStaysOutOfLogsAndRefusals(t *testing.T) {
	t.Parallel()
	answers := []string{
		"500 canary", `201 {"id":"canary","status":"succeeded"}`, "201 canary", `422 {"canary":"canary"}`, "307 canary",
		"402 canary", `404 {"canary":1}`, "418 canary",
	}
	var next atomic.Int32
	w := setup(t, func(o *options) {
		o.between = func(http.Handler) http.Handler {
			return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				status, body, _ := strings.Cut(answers[int(next.Add(1)-1)%len(answers)], " ")
				rw.Header().Set("Location", "/canary")
				rw.Header().Set("X-Canary", "canary")
				rw.WriteHeader(int(status[0]-'0')*100 + int(status[1]-'0')*10 + int(status[2]-'0'))
				_, _ = io.WriteString(rw, body)
			})
		}
	})
	for range answers {
		r := w.pay(freshKey(), "pm_ok")
		r.expect(t, http.StatusAccepted, "")
		if strings.Contains(string(r.body), "canary") {
			t.Errorf("the answer repeats the PSP: %s", r.body)
		}
	}
	if int(next.Load()) != len(answers) {
		t.Fatalf("PSP asked %d times", next.Load())
	}
	w.logsAreQuiet(len(answers))
}

func TestWhatTheDatabaseSaysStaysOutOfRefusals(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.pay(freshKey(), "pm_ok").expect(t, http.StatusCreated, "")
	// The server's message about a violation carries the whole row as its detail.
	w.exec("ALTER TABLE payments ADD CONSTRAINT no_canaries CHECK (description !~ 'canary')")
	r := w.do(call{method: "POST", path: "/payments", key: freshKey(), body: canaryOrder()})
	r.expect(t, http.StatusInternalServerError, "internal_error")
	r.quiet(t, "a violated constraint")
	if strings.Contains(string(r.body), "constraint") || strings.Contains(string(r.body), "SQLSTATE") ||
		!strings.Contains(w.logs.String(), "SQLSTATE 23514") {
		t.Fatalf("the client is told what the log should know: %s", r.body)
	}
	w.exec("ALTER TABLE payments RENAME COLUMN metadata TO canary")
	r = w.do(call{method: "GET", path: "/payments/pay_01k9z3w5m8fk2v7q4d6h0r1txe"})
	r.expect(t, http.StatusServiceUnavailable, "idempotency_store_unavailable")
	if r.quiet(t, "a missing column"); r.header.Get("Retry-After") == "" {
		t.Fatal("no Retry-After")
	}
	logs := strings.ReplaceAll(w.logs.String(), "no_canaries", "")
	if strings.Contains(logs, "canary-") || strings.Contains(logs, "canary description") {
		t.Fatalf("the log tells the row: %s", logs)
	}
}

func TestPasswordsOfOursStayOutOfLogsAndRefusals(t *testing.T) {
	t.Parallel()
	w := setup(t, func(o *options) {
		o.settings = func(c *config.API) { c.PSPSecret = "canary-psp-secret" }
		o.database = func(raw string) string {
			u, err := url.Parse(raw)
			if err != nil {
				t.Fatal(err)
			}
			u.User, u.RawQuery = url.UserPassword("nobody", "canary-password"), ""
			u.Host, u.Path = "127.0.0.1:1", "/none"
			return u.String()
		}
	})
	for _, c := range []call{{method: "GET", path: "/payments"}, paymentOf(freshKey(), "pm_ok")} {
		r := w.do(c)
		r.expect(t, http.StatusServiceUnavailable, storeUnavailable)
		r.quiet(t, "a database that is away")
	}
	w.logsAreQuiet(2)
	if !strings.Contains(w.logs.String(), "refused for now") {
		t.Fatal("the log does not tell why")
	}

	known := setup(t, func(o *options) { o.settings = func(c *config.API) { c.PSPSecret = "canary-psp-secret" } })
	known.pay(freshKey(), "pm_ok").expect(t, http.StatusAccepted, "") // the PSP's 401 is no verdict
	known.logsAreQuiet(1)
}
