package httpapi_test

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"payonce/internal/httpapi"
	"payonce/test/pgtest"
)

const noDeadLetter = "01a1fa62-0788-707e-9472-6f0b342d2a95"

func TestOperatorsSideOpensToOperatorsKeysOnly(t *testing.T) {
	t.Parallel()
	c := openConsole(t)
	deadLetter := c.stray()
	const dismissal = `{"action":"dismiss","reason":"seen to it","version":1}`
	routes := [][3]string{
		{"GET", "/operator/summary", ""},
		{"GET", "/operator/dead-letters", ""},
		{"GET", "/operator/keys", ""},
		{"GET", "/operator/payments", ""},
		{"GET", "/operator/webhooks", ""},
		{"GET", "/operator/statements", ""},
		{"GET", "/operator/breaks", ""},
		{"GET", "/operator/search?q=order-0000000042", ""},
		{"GET", "/operator/dead-letters/" + deadLetter, ""},
		{"POST", "/operator/dead-letters/plan", `{"action":"dismiss"}`},
		{"POST", "/operator/dead-letters/run", `{"plan":"x","reason":"x"}`},
		{"POST", "/operator/dead-letters/" + deadLetter + "/resolve", dismissal},
	}
	for _, r := range routes {
		if s := c.ask("", r[0], r[1], r[2]).expect(t, 401,
			"unauthenticated"); s.header.Get("WWW-Authenticate") != `Bearer realm="payonce"` {
			t.Errorf("%s: %v", r[1], s.header)
		}
		if s := c.ask("guess", r[0], r[1], r[2]).expect(t, 401,
			"unauthenticated"); !strings.Contains(s.header.Get("WWW-Authenticate"), "invalid_token") {
			t.Errorf("%s: %v", r[1], s.header)
		}
		c.ask(merchantKey, r[0], r[1], r[2]).expect(t, 403, "forbidden")
	}
	for _, r := range routes {
		if r[0] == "POST" {
			c.ask(readerKey, r[0], r[1], r[2]).expect(t, 403, "forbidden")
			continue
		}
		c.ask(readerKey, r[0], r[1], "").expect(t, 200, "")
		c.ask(namelessKey, r[0], r[1], "").expect(t, 403, "forbidden")
	}
	if s := c.get("/operator/dead-letters/"+deadLetter).expect(t, 200, ""); !strings.Contains(s.body, `"audit":[]`) {
		t.Errorf("somebody without a permission has left a trace: %s", s.body)
	}
}

// The database refuses such a key. Should it ever exist, it is still a tenant's.
func TestTenantsKeyWithAnOperatorsScopeStaysOutside(t *testing.T) {
	t.Parallel()
	c := openConsole(t)
	for _, sql := range []string{
		"ALTER TABLE api_keys DROP CONSTRAINT api_keys_scopes_fit_owner",
		"UPDATE api_keys SET scopes = ARRAY['payments:read', 'ops:read', 'ops:resolve'] WHERE tenant_id IS NOT NULL",
	} {
		pgtest.Exec(t, c.pool, sql)
	}
	c.ask(merchantKey, "GET", "/operator/summary", "").expect(t, 403, "forbidden")
}

func TestMachinesAskWithoutAKey(t *testing.T) {
	t.Parallel()
	c := openConsole(t)
	c.http = c.server.Client() // these are not in the document
	c.ask("", "GET", "/livez", "").expect(t, 200, "")
	if s := c.ask("", "GET", "/readyz", "").expect(t, 200, ""); !strings.Contains(s.body, `"database":"ok"`) {
		t.Errorf("ready is %s", s.body)
	}
	c.ask("", "GET", "/metrics", "").expect(t, 200, "")
}

func TestOperatorsPathThatIsNotThere(t *testing.T) {
	t.Parallel()
	c := openConsole(t)
	c.get("/operator").expect(t, 404, "not_found")
	s := c.ask(annKey, "DELETE", "/operator/dead-letters", "").expect(t, 405, "method_not_allowed")
	if got := s.header.Values("Allow"); !slices.Equal(got, []string{"GET", "HEAD"}) {
		t.Errorf("allowed are %v", got)
	}
	s = c.ask(annKey, "GET", "/operator/dead-letters/"+noDeadLetter+"/resolve", "").expect(t, 405, "method_not_allowed")
	if got := s.header.Values("Allow"); !slices.Equal(got, []string{"POST"}) {
		t.Errorf("allowed are %v", got)
	}
	if s := c.ask(annKey, "HEAD", "/operator/dead-letters", "").expect(t, 200, ""); s.body != "" {
		t.Errorf("HEAD has the body %s", s.body)
	}
}

func TestOperatorsRequestsAreCountedByRoute(t *testing.T) {
	t.Parallel()
	c := openConsole(t)
	if s := c.get("/operator/dead-letters/"+noDeadLetter).expect(t, 404,
		"not_found"); s.header.Get("X-Request-Id") != "req_1" {
		t.Errorf("headers are %v", s.header)
	}
	c.get("/operator/nowhere").expect(t, 404, "not_found")
	c.http = c.server.Client()
	s := c.ask("", "GET", "/metrics", "")
	for _, route := range []string{"/operator/dead-letters/{deadLetterId}", "none"} {
		want := fmt.Sprintf(`payonce_http_request_duration_seconds_count{route=%q,status="404"} 1`, route)
		if !strings.Contains(s.body, want) {
			t.Errorf("%s is missing", want)
		}
	}
}

type page struct {
	Data []struct {
		ID     string `json:"id"`
		Status string `json:"status"`
	} `json:"data"`
	HasMore    bool   `json:"hasMore"`
	NextCursor string `json:"nextCursor"`
}

func TestDeadLettersAreListedPageByPage(t *testing.T) {
	t.Parallel()
	c := openConsole(t)
	var want []string
	for range 3 {
		want = append([]string{c.stray()}, want...)
	}
	closed := c.stray()
	c.resolve(closed, `{"action":"dismiss","reason":"seen to it","version":1}`).expect(t, 200, "")

	var got []string
	for query := "limit=2"; ; {
		var p page
		c.get("/operator/dead-letters?"+query).expect(t, 200, "").into(t, &p)
		for _, l := range p.Data {
			got = append(got, l.ID)
		}
		if !p.HasMore || len(got) > len(want) {
			break
		}
		query = "limit=2&cursor=" + url.QueryEscape(p.NextCursor)
	}
	if !slices.Equal(got, want) {
		t.Errorf("open are %v, want %v", got, want)
	}
	var p page
	if c.get("/operator/dead-letters?status=resolved").expect(t, 200, "").into(t, &p); len(p.Data) != 1 ||
		p.Data[0].ID != closed || p.Data[0].Status != "resolved" {
		t.Errorf("resolved are %+v", p)
	}
}

func TestDeadLetterFilterThatIsNoneIsRefused(t *testing.T) {
	t.Parallel()
	c := openConsole(t)
	for query, parameter := range map[string]string{
		"status=closed": "status", "status=": "status", "limit=0": "limit", "limit=101": "limit", "limit=ten": "limit",
		"cursor=x": "cursor", "cursor=": "cursor", "status=open&status=open": "status", "kind=x": "kind",
		"kinds=unknown_movement": "query", "age=": "age", "tenant=": "tenant", "openedAfter=now": "openedAfter",
		"%zz": "query",
	} {
		s := c.get("/operator/dead-letters?"+query).expect(t, 400, "invalid_request")
		if !strings.Contains(s.body, `"parameter":"`+parameter+`"`) {
			t.Errorf("%s: %s", query, s.body)
		}
	}
	c.get("/operator/summary?x=1").expect(t, 400, "invalid_request")
}

func TestDeadLetterIsShownWithAllThatBelongsToIt(t *testing.T) {
	t.Parallel()
	c := openConsole(t)
	deadLetter := c.lost("pm_ok")
	s := c.get("/operator/dead-letters/"+deadLetter).expect(t, 200, "")
	for _, want := range []string{
		`"keyStatus":"unknown"`, `"paymentStatus":"processing"`, `"paymentId":"pay_`, `"operation":"POST /payments"`,
		`"key":"` + orderKey + `"`,
		`"tenant":"acme"`, `"to":"unknown"`, `"audit":[]`, `"version":1`, `"evidence":{"id":"ch_1"}`, `"ageSeconds":`,
	} {
		if !strings.Contains(s.body, want) {
			t.Errorf("%s is missing in %s", want, s.body)
		}
	}
	for _, id := range []string{noDeadLetter, "x", strings.ToUpper(deadLetter), "urn:uuid:" + deadLetter,
		strings.ReplaceAll(deadLetter, "-", "")} {
		c.get("/operator/dead-letters/"+id).expect(t, 404, "not_found")
		c.resolve(id, `{"action":"retry","reason":"x","version":1}`).expect(t, 404, "not_found")
	}
}

func TestSummaryIsShown(t *testing.T) {
	t.Parallel()
	c := openConsole(t)
	c.lost("pm_ok")
	s := c.get("/operator/summary").expect(t, 200, "")
	if !strings.Contains(s.body, `"unknown":1`) || !strings.Contains(s.body, `"open":{"lookups_exhausted":1}`) {
		t.Errorf("summary is %s", s.body)
	}
}

// The won is in the document as a currency without decimals, and in no example: the pages and the README pay in
// dollars.
func TestExamplesOfTheDocumentAreInDollars(t *testing.T) {
	t.Parallel()
	for line := range strings.Lines(string(httpapi.OpenAPI())) {
		if strings.Contains(line, "KRW") && !strings.Contains(line, "12000 KRW is ₩12,000") {
			t.Errorf("in won: %s", line)
		}
	}
}

// The document names the default address of the operator's listener; the tests go elsewhere.
func TestDocumentNamesTheOperatorsListener(t *testing.T) {
	t.Parallel()
	text := string(httpapi.OpenAPI())
	if paths, servers := strings.Count(text, "\n  /operator/"), strings.Count(
		text, "servers: [{ url: http://localhost:8081 }]"); paths != 12 || servers != paths {
		t.Errorf("%d paths, %d with their server", paths, servers)
	}
}

// A plan is a text that the operator brings back, so it may say anything. A tenant or a kind that PostgreSQL cannot
// hold is no failure of ours.
func TestPlanThatNamesWhatCannotBeIsMalformed(t *testing.T) {
	t.Parallel()
	c := openConsole(t)
	for _, filter := range []string{`"tenant":"acme\u0000"`, `"kind":"\u0000"`} {
		plan := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil,
			`{"action":"dismiss",%s,"openedBefore":"2026-11-20T09:30:00Z","digest":"%s"}`, filter,
			base64.StdEncoding.EncodeToString(make([]byte, 32))))
		c.ask(annKey, "POST", "/operator/dead-letters/run", fmt.Sprintf(`{"plan":%q,"reason":"a reason"}`, plan)).
			expect(t, 400, "invalid_request")
	}
}
