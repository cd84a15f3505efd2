package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"payonce/internal/tenants"
)

// A canary goes in wherever something can be sent, through the three programs as they are shipped, with
// LOG_LEVEL=debug. What comes out is searched for all of them, in every spelling. secrets_test.go asks the same of
// single answers; here are the outputs as a whole.

// places are all that a canary is sent in. What of it may come out where is in allowed, and nowhere else.
func places() []string {
	return slices.Concat([]string{
		// Secrets of ours, of tenants and of payers.
		"database password", "PSP secret", "webhook secret", "API key", "operator's API key", "wrong API key",
		"basic auth", "signature", "card",
		// What is in the wrong place, or nothing of ours.
		"query name", "query value", "path", "method", "no HTTP", "unknown member", "wrong value", "broken JSON",
		"endless body", "malformed key", "webhook id", "forged webhook",
	}, business(), sentHeaders())
}

// business is what a tenant tells us about itself, and gets back. It is nobody else's.
func business() []string {
	return []string{"description", "metadata name", "metadata value", "customer", "payment key", "refund key",
		"refund reason", "operator's reason", "webhook data"}
}

func sentHeaders() []string {
	return []string{"User-Agent", "X-Request-Id", "Prefer", "Referer", "Cookie", "X-Forwarded-For", "Forwarded",
		"Traceparent", "Tracestate", "Baggage", "Accept", "Origin",
		"Content-Encoding", "Content-Type", "X-Canary", "Proxy-Authorization", "If-None-Match"}
}

// allowed is what may come out where. Logs, metrics, refusals and other tenants' answers are not in it.
func allowed() map[string][]string {
	return map[string][]string{
		// To whom it belongs. A key is echoed, a path is in a problem's instance: both are taken out of refusals before
		// they are searched. A member that is unknown is pointed to only when its name could be one of ours, which no
		// canary's is.
		"own answers": {"description", "metadata name", "metadata value", "customer", "payment key", "refund key",
			"refund reason"},
		// An operator must find the case again, also by its customer, and see what the PSP has said about it.
		"operator's answers": {"payment key", "refund key", "customer", "operator's reason", "webhook id",
			"webhook data"},
	}
}

func TestProgramsAsShippedKeepSecrets(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("long: it builds the programs")
	}
	dir := buildPrograms(t)
	t.Run("no canary comes out", func(t *testing.T) {
		t.Parallel()
		searchEverything(t, dir)
	})
	t.Run("what cannot start keeps its secrets", func(t *testing.T) {
		t.Parallel()
		startWrongly(t, dir)
	})
}

func searchEverything(t *testing.T, dir string) {
	w := setup(t)
	w.addKey("acme", canary("API key"), tenants.PaymentsRead, tenants.PaymentsWrite)
	w.addKey("", canary("operator's API key"), tenants.OpsRead, tenants.OpsResolve)
	p := newPrograms(t, dir)
	c := newCollector(t)
	p.settings = []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.server.URL, "TRACE_RATIO=1"}
	p.run(w)
	out := &outputs{programs: p, world: *w, texts: map[string]string{}}
	out.world.api = &httptest.Server{URL: "http://" + p.public}
	out.world.http = &http.Client{Timeout: patience}

	out.pays()
	out.asksWrongly()
	out.webhooks()
	out.decides()
	out.looksAround()
	out.withoutDatabase()
	p.stop()
	for name, log := range p.logs {
		out.texts[name] = log.String()
	}
	out.texts["traces"] = c.received()
	for name, sign := range map[string]string{
		"own answers": canary("description"), "operator's answers": canary("operator's reason"),
		"refusals": "invalid_request", "api log": `"msg":"request"`,
		"reconciler log": `"msg":"reconciling"`, "mockpsp log": "mock PSP is ready", "api metrics": "payonce_",
		"reconciler metrics": "payonce_", "others' answers": "hasMore",
		"without database": "idempotency_store_unavailable", "traces": "PSP lookup",
	} {
		if !strings.Contains(out.texts[name], sign) {
			t.Errorf("the %s lack %q: nothing is there to be searched\n%.2000s", name, sign, out.texts[name])
		}
	}
	for name, text := range out.texts {
		for _, place := range flown(text, places()) {
			if !slices.Contains(allowed()[name], place) {
				t.Errorf("%s: the canary of %q (%s) is in\n%s", name, place, canary(place), around(text, canary(place)))
			}
		}
	}
}

// around is the line in which a canary sits, if it does so as it was sent.
func around(text, sent string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(strings.ToLower(line), sent) {
			return fmt.Sprintf("%.1500s", line)
		}
	}
	return "another spelling"
}

// outputs collects what the programs say.
type outputs struct {
	*programs

	world world
	texts map[string]string
}

// do asks as acme, unless the call says otherwise, and keeps the answer.
func (o *outputs) do(c call) reply {
	o.t.Helper()
	if c.as == "" {
		c.as = canary("API key")
	}
	r := o.world.do(c)
	switch {
	case r.status < http.StatusBadRequest:
		o.keep("own answers", fmt.Sprint(r.header, string(r.body)))
	default:
		var d map[string]any
		if err := json.Unmarshal(r.body, &d); err != nil && len(r.body) > 0 {
			o.t.Fatalf("%v\n%s", err, r.body)
		}
		delete(d, "instance")
		header := r.header.Clone()
		header.Del("Idempotency-Key")
		o.keep("refusals", fmt.Sprintln(header, d))
	}
	return r
}

func (o *outputs) keep(name, text string) { o.texts[name] += text + "\n" }

func canaryPayment(method string, edit ...string) string {
	return strings.NewReplacer(edit...).Replace(fmt.Sprintf(
		`{"customerId":%q,"amountCents":12000,"currency":"USD","paymentMethod":%q,"description":%q,"metadata":{%q:%q}}`,
		canary("customer"), method, canary("description"), canary("metadata name"), canary("metadata value")))
}

// pays takes every way that a payment can take, and has one refunded.
func (o *outputs) pays() {
	o.t.Helper()
	var paid reply
	for i, method := range []string{"pm_ok", "pm_declined", "pm_500_charged", "pm_reset_charged", "pm_wrong_amount",
		"pm_stuck", "pm_late_charge", "pm_nothing"} {
		c := call{method: "POST", path: "/payments", key: fmt.Sprintf("%s-%d", canary("payment key"), i),
			body: canaryPayment(method)}
		r := o.do(c)
		o.do(c)
		c.body = canaryPayment(method, "12000", "1")
		o.do(c).expect(o.t, http.StatusUnprocessableEntity, "")
		if i == 0 {
			paid = r
		}
		o.do(call{method: "GET", path: "/idempotency-keys/" + c.key})
	}
	paid.expect(o.t, http.StatusCreated, "")
	id := paid.text(o.t, "paymentId")
	for _, amount := range []string{"1", "99999"} {
		r := o.do(call{method: "POST", path: "/payments/" + id + "/refunds", key: canary("refund key") + "-" + amount,
			body: fmt.Sprintf(`{"amountCents":%s,"reason":%q}`, amount, canary("refund reason"))})
		if r.status == http.StatusCreated {
			o.do(call{method: "GET", path: r.header.Get("Location")}).expect(o.t, http.StatusOK, "")
		}
	}
	for _, path := range []string{"/payments", "/payments?customerId=" + canary("customer"), "/payments/" + id} {
		o.do(call{method: "GET", path: path}).expect(o.t, http.StatusOK, "")
		r := o.world.do(call{method: "GET", path: path, as: globexKey})
		o.keep("others' answers", fmt.Sprint(r.header, strings.ReplaceAll(string(r.body), path, "")))
	}
}

// asksWrongly puts canaries where nothing of the kind belongs.
func (o *outputs) asksWrongly() {
	o.t.Helper()
	pay := func(edit func(*call)) {
		c := call{method: "POST", path: "/payments", key: freshKey(), body: order("pm_ok")}
		edit(&c)
		o.do(c)
	}
	for _, name := range sentHeaders() {
		for _, as := range []string{"", "-"} {
			pay(func(c *call) { c.as, c.header = as, http.Header{name: {canary(name)}} })
		}
	}
	basic := base64.StdEncoding.EncodeToString([]byte("user:" + canary("basic auth")))
	for _, value := range []string{"Bearer " + canary("wrong API key"), canary("wrong API key"), "Basic " + basic,
		"Bearer " + canary("wrong API key") + " x"} {
		pay(func(c *call) { *c = c.authorized(value) })
	}
	for _, key := range []string{canary("malformed key") + " x", canary("malformed key") + "@example.com", `"` +
		canary("malformed key"), "k", canary("malformed key") + ".g2", cardCanary} {
		pay(func(c *call) { c.key = key })
	}
	for _, body := range []string{
		canaryPayment("pm_ok", `"amountCents"`, `"`+canary("unknown member")+`!":1,"amountCents"`),
		canaryPayment("pm_ok", "USD", canary("wrong value")),
		canaryPayment("pm_ok", "12000", `"`+canary("wrong value")+`"`),
		canaryPayment("pm_ok", "12000", canary("wrong value")), canaryPayment(canary("wrong value")),
		canaryPayment("pm_ok", canary("description"), canary("wrong value")+`\u0000`),
		canaryPayment("pm_ok", canary("description"), canary("wrong value")+"\xff"),
		`{"` + canary("broken JSON"), canary("broken JSON"), `["` + canary("broken JSON") + `"]`,
		canaryPayment("pm_ok") + canary("broken JSON"),
		strings.Repeat(canary("endless body"), 2000), canaryPayment("pm_ok", canary("description"), "card "+cardCanary),
		canaryPayment("pm_" + cardCanary),
		canaryPayment("pm_ok", canary("customer"), cardCanary),
		canaryPayment("pm_ok", canary("metadata name"), cardCanary), canaryPayment("pm_ok", "12000", cardCanary),
	} {
		pay(func(c *call) { c.body = body })
	}
	for _, path := range []string{"/" + canary("path"), "/payments/" + canary("path"), "/payments/pay_" +
		canary("path") + "/refunds", "/refunds/" + canary("path"),
		"/idempotency-keys/" + canary("path"), "/payments?" + canary("query name") + "=" + canary("query value"),
		"/payments?status=" + canary("query value"),
		"/payments?cursor=" + canary("query value") + "&limit=" + canary("query value"),
		"/idempotency-keys/0123456789abcdef?operation=" + canary("query value"),
		"/payments?customerId=" + canary("query value") + "%20"} {
		o.do(call{method: "GET", path: path})
		o.do(call{method: strings.ToUpper(canary("method")), path: path})
	}
	const end = "\r\nConnection: close\r\n\r\n"
	for _, raw := range []string{
		canary("no HTTP") + end, "GET /" + canary("no HTTP") + " HTTP/9.9\r\nHost: x" + end,
		"GET / HTTP/1.1\r\nHost: " + canary("no HTTP") + " x" + end,
		"GET / HTTP/1.1\r\nHost: x\r\n" + canary("no HTTP") + end, "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: " +
			canary("no HTTP") + end,
		"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: " + canary("no HTTP") + end,
		"GET / HTTP/1.1\r\nHost: x\r\nX: " + canary("no HTTP") + long(32<<10) + end,
		"\x16\x03\x01" + canary("no HTTP") + end, "OPTIONS * HTTP/1.1\r\nHost: " + canary("no HTTP") + end,
	} {
		o.keep("refusals", talk(o.t, o.public, raw))
		o.keep("refusals", talk(o.t, o.operator, raw))
	}
}

// webhooks sends some that are genuine and some that are not.
func (o *outputs) webhooks() {
	o.t.Helper()
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	key := canary("webhook secret") + canary("webhook secret")
	for i, body := range []string{
		chargeEvent("succeeded", "ch_"+canary("webhook data"), canary("webhook data")+"-key", canary("webhook data")),
		`{"type":"` + canary("webhook data") + `","data":{}}`, canary("webhook data"),
	} {
		id := fmt.Sprintf("%s%d", canary("webhook id"), i)
		mac := hmac.New(sha256.New, []byte(key))
		fmt.Fprintf(mac, "%s.%s.%s", id, stamp, body)
		genuine := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
		for _, signature := range []string{"v1," + base64.StdEncoding.EncodeToString([]byte(canary("signature"))),
			genuine, genuine} {
			o.do(call{method: "POST", path: "/webhooks/psp", as: "-", body: body, header: http.Header{
				"Webhook-Id": {id}, "Webhook-Timestamp": {stamp}, "Webhook-Signature": {signature},
			}})
		}
	}
	for _, header := range []http.Header{{}, {"Webhook-Id": {canary("webhook id") + "."}},
		{"Webhook-Id": {"evt"}, "Webhook-Timestamp": {canary("forged webhook")},
			"Webhook-Signature": {canary("signature")}}} {
		o.do(call{method: "POST", path: "/webhooks/psp", as: "-", body: `{"forged":"` + canary("forged webhook") + `"}`,
			header: header})
	}
	eventually(o.t, "the processing of the webhooks", func() bool {
		return o.world.count("SELECT count(*) FROM webhook_events WHERE id LIKE 'c4n4ry%' AND processed_at IS NOT NULL") == 3
	})
}
