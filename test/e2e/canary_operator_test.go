package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

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
	addr, operator := freeAddress(o.t), freeAddress(o.t)
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
	for _, command := range [][]string{{"dlq", "list"}, {"statement"}} {
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
