package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"payonce/internal/tenants"
	"payonce/test/heldport"
)

// A canary goes in wherever something can be sent, through the three programs as they are shipped, with
// LOG_LEVEL=debug. What comes out is searched for all of them, in every spelling.

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
	return []string{"reference", "description", "metadata name", "metadata value", "customer", "payment key",
		"refund key", "refund reason", "operator's reason", "webhook data"}
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
		"own answers": {"reference", "description", "metadata name", "metadata value", "customer", "payment key",
			"refund key", "refund reason"},
		// An operator must find the case again, also by its customer or reference, and see what the PSP has said
		// about it.
		"operator's answers": {"payment key", "refund key", "customer", "reference", "operator's reason",
			"webhook id", "webhook data"},
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
		`{"customerId":%q,"amountCents":12000,"currency":"USD","paymentMethod":%q,`+
			`"reference":%q,"description":%q,"metadata":{%q:%q}}`, canary("customer"), method, canary("reference"),
		canary("description"), canary("metadata name"), canary("metadata value")))
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
	for _, path := range []string{"/payments", "/payments?customerId=" + canary("customer"),
		"/payments?reference=" + canary("reference"), "/payments/" + id} {
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
		canaryPayment("pm_ok", canary("customer"), cardCanary), canaryPayment("pm_ok", canary("reference"), cardCanary),
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
		"/payments?customerId=" + canary("query value") + "%20",
		"/payments?reference=" + canary("query value") + "%00"} {
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

// The operator's side of the search for canaries, and what programs say that cannot work or have no database.

// operators asks the operator's listener, and keeps the answer.
func (o *outputs) operators(c call) reply {
	o.t.Helper()
	if c.as == "" {
		c.as = canary("operator's API key")
	}
	at := o.world
	at.api = &httptest.Server{URL: "http://" + o.operator}
	r := at.do(c)
	kind := "operator's answers"
	if r.status >= http.StatusBadRequest {
		kind = "refusals"
	}
	o.keep(kind, fmt.Sprint(r.header, strings.ReplaceAll(string(r.body), c.path, "")))
	return r
}

// decides has an operator decide about one dead letter, and try the same with others.
func (o *outputs) decides() {
	o.t.Helper()
	deadLetters := func() (ids []string) {
		var list struct {
			Data []struct{ ID, Kind string }
		}
		r := o.operators(call{method: "GET", path: "/operator/dead-letters?limit=100"})
		if err := json.Unmarshal(r.body, &list, json.MatchCaseInsensitiveNames(true)); err != nil {
			o.t.Fatal(err)
		}
		for _, l := range list.Data {
			ids = append(ids, l.ID)
		}
		return ids
	}
	// Of the wrong amount, of the one that the PSP is silent about, and of three webhooks.
	eventually(o.t, "the dead letters", func() bool { return len(deadLetters()) >= 5 })
	for _, id := range deadLetters() {
		path := "/operator/dead-letters/" + id
		for _, body := range []string{
			fmt.Sprintf(`{"action":"executed","reason":%q,"version":1}`, canary("operator's reason")),
			fmt.Sprintf(`{"action":"dismiss","reason":%q,"version":1}`, canary("operator's reason")),
			fmt.Sprintf(`{"action":%q,"reason":"a","version":1}`, canary("wrong value")),
			fmt.Sprintf(`{%q:1}`, canary("unknown member")+"!"), `{"` + canary("broken JSON"),
			fmt.Sprintf(`{"action":"executed","reason":"card %s","version":1}`, cardCanary),
		} {
			o.operators(call{method: "POST", path: path + "/resolve", body: body})
		}
		o.operators(call{method: "GET", path: path}).expect(o.t, http.StatusOK, "")
		o.operators(call{method: "GET", path: path, as: canary("wrong API key")}).expect(o.t, http.StatusUnauthorized,
			"")
	}
	o.operators(call{method: "GET", path: "/operator/summary"}).expect(o.t, http.StatusOK, "")
	for _, list := range []string{"dead-letters?status=resolved", "keys", "payments", "webhooks", "statements",
		"breaks", "search?q=" + canary("query value")} {
		o.operators(call{method: "GET", path: "/operator/" + list}).expect(o.t, http.StatusOK, "")
	}
	o.operators(call{method: "GET", path: "/operator/dead-letters?cursor=" + canary("query value") + "&" +
		canary("query name") + "=1"})
	o.operators(call{method: "GET", path: "/operator/dead-letters/" + canary("path")}).expect(o.t, http.StatusNotFound,
		"")
}

// looksAround reads what needs no API key.
func (o *outputs) looksAround() {
	o.t.Helper()
	for name, addr := range map[string]string{"api": o.operator, "reconciler": o.reconciler} {
		for _, path := range []string{"/metrics", "/readyz", "/livez"} {
			status, text := ask("http://" + addr + path)
			if status != http.StatusOK {
				o.t.Errorf("%s%s is %d", name, path, status)
			}
			o.keep(name+" metrics", text)
		}
	}
}

// withoutDatabase runs the API where nobody answers for its database.
func (o *outputs) withoutDatabase() {
	o.t.Helper()
	addr, operator := heldport.Address(o.t), heldport.Address(o.t)
	p := newPrograms(o.t, o.dir)
	p.start("api", operator, append(slices.Clone(o.environment), "DATABASE_URL=postgres://payonce_api:"+
		canary("database password")+"@127.0.0.1:1/payonce",
		"HTTP_ADDR="+addr, "OPERATOR_ADDR="+operator, "DB_ACQUIRE_TIMEOUT=100ms"), "serve")
	for _, url := range []string{"http://" + operator + "/readyz", "http://" + operator + "/metrics", "http://" + addr +
		"/payments"} {
		req, err := http.NewRequestWithContext(o.t.Context(), http.MethodGet, url, nil)
		if err != nil {
			o.t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+canary("API key"))
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			o.t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if _ = res.Body.Close(); err != nil {
			o.t.Fatal(err)
		}
		o.keep("without database", fmt.Sprint(res.Header, string(body)))
	}
	p.stop()
	o.keep("without database", p.logs["api log"].String())
}

// A setting that was mistyped must not be in the log of the program that refuses to start.
func startWrongly(t *testing.T, dir string) {
	p := newPrograms(t, dir)
	secret, password := canary("PSP secret"), canary("database password")
	good := []string{"DATABASE_URL=postgres://u:" + password + "@127.0.0.1:1/d?connect_timeout=1", "PSP_SECRET=" +
		secret, "WEBHOOK_SECRETS=" + webhookCanary(), "MOCKPSP_SECRET=" + secret}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	said := ""
	for _, bad := range []string{
		"DATABASE_URL=postgres://u:" + password + "@h:port/d", "DATABASE_URL=host=h password = " + password + " port=x",
		"DATABASE_URL=host=h password='" + password + " port=x",
		"DATABASE_URL=postgres://u:a@" + password + "@h:port/d", "DATABASE_URL=" + password,
		"DATABASE_URL=postgres://h/d?port=x&password=" + password,
		"DATABASE_URL=mysql://u:" + password + "@h/d", "WEBHOOK_SECRETS=" + canary("webhook secret"),
		"WEBHOOK_SECRETS=" + webhookCanary() + "!",
		"WEBHOOK_SECRETS=whsec_" + canary("webhook secret")[:8], "PSP_URL=http://u:" + secret + "@psp.example",
		"LEASE=1s", "LOG_LEVEL=loud", "PSP_SECRET=",
		"HTTP_ADDR=" + taken.Addr().String(),
	} {
		said += p.fails("api", unset(append(good, bad, "OPERATOR_ADDR=127.0.0.1:0")...), "serve")
		if name, _, _ := strings.Cut(bad, "="); name != "WEBHOOK_SECRETS" && name != "HTTP_ADDR" {
			said += p.fails("reconciler", unset(append(good, bad)...), "run")
		}
	}
	said += p.fails("reconciler", unset(append(good, "RECONCILER_ADDR="+taken.Addr().String())...), "run")
	said += p.fails("mockpsp", unset(append(good, "MOCKPSP_WEBHOOK_URL=http://x", "MOCKPSP_WEBHOOK_SECRET="+
		canary("webhook secret"), "MOCKPSP_ADDR=127.0.0.1:0")...))
	said += p.fails("mockpsp", unset(append(good, "MOCKPSP_ADDR="+taken.Addr().String())...))
	for _, command := range [][]string{{"migrate"}, {"keys", "list"}, {"keys", "create", "--tenant", "acme"},
		{"healthcheck"}} {
		said += p.fails("api", unset(append(good, "OPERATOR_ADDR=127.0.0.1:1")...), command...)
	}
	for _, command := range [][]string{{"key", "show", "k", "--tenant", "acme"}, {"statement"}} {
		said += p.fails("reconciler", unset(append(good, "PSP_URL=http://127.0.0.1:1")...), command...)
	}
	for _, name := range []string{"api", "reconciler", "mockpsp"} {
		said += p.fails(name, unset(good...), "--help")
	}
	for _, place := range flown(said, places()) {
		t.Errorf("%s is said:\n%s", place, around(said, canary(place)))
	}
	if flown(said+canary("PSP secret"), places()) == nil || !strings.Contains(said, "DATABASE_URL") ||
		!strings.Contains(said, "is taken by another process") {
		t.Errorf("nothing was said:\n%s", said)
	}
}

// The two that follow ask the same of single answers.

// quiet checks that a refusal repeats nothing. Three echoes are part of the contract: a valid Idempotency-Key in the
// header of that name, the request's own path in a problem's instance, and a pointer to a member whose name could be
// one of ours.
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
