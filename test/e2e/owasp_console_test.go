package e2e

import (
	"html"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"payonce/internal/console"
	"payonce/internal/tenants"
)

// The OWASP items for the console. Its routes are those of console.Routes, so one that is added later is covered.

// addressOf fills the wildcards of a route of the console.
func (s *sides) addressOf(pattern string) (method, path string) {
	method, path, _ = strings.Cut(pattern, " ")
	path = strings.NewReplacer("/payments/{id}", "/payments/"+s.acme["paymentId"],
		"/endpoints/{tenant}/{id}", "/endpoints/acme/"+s.acme["endpointId"]).Replace(path)
	return method, strings.NewReplacer("{tenant}", "acme", "{operation}", "payments", "{key}", s.acme["key"],
		"{id}", s.acme["deadLetterId"], "{event}", s.acme["eventId"], "{name}", "style.css", "{$}",
		"").Replace(path)
}

// form is what a route takes that changes something.
func form(method string) url.Values {
	if method == http.MethodGet {
		return nil
	}
	return url.Values{"action": {"dismiss"}, "plan": {"x"}, "reason": {"a reason"}, "version": {"1"}, "key": {"x"}}
}

// Items 1, 2 and 5: nothing is shown or changed without a session, and a session is worth what its API key is worth.
func TestOWASPConsoleAuthorization(t *testing.T) {
	if testing.Short() {
		t.Skip("long: every page, by every right")
	}
	t.Parallel()
	s := setupSides(t)
	s.furnish()
	nobody, reader := s.browse(), s.browse()
	reader.signIn(operatorKey).expect(t, http.StatusSeeOther, "")
	for _, pattern := range slices.Sorted(maps.Keys(console.Routes())) {
		permission := console.Routes()[pattern]
		method, path := s.addressOf(pattern)
		r := nobody.send(method, path, form(method))
		for name, value := range s.acme {
			if name != "file" && name != "code" && permission != "" && !strings.Contains(path, value) &&
				strings.Contains(string(r.body), value) {
				t.Errorf("%s shows somebody without a session the %s", pattern, name)
			}
		}
		switch live := strings.HasSuffix(path, "/live"); {
		case permission == "":
		case live:
			if !strings.Contains(string(r.body), "event: signed-out") || strings.Contains(string(r.body), "<") {
				t.Errorf("%s without a session is\n%s", pattern, r.body)
			}
		case method == http.MethodGet:
			r.expect(t, http.StatusSeeOther, "")
			if to := r.header.Get("Location"); !strings.HasPrefix(to, "/console/sign-in?next=%2Fconsole") {
				t.Errorf("%s leads to %s", pattern, to)
			}
		default:
			r.expect(t, http.StatusUnauthorized, "")
		}
		if permission == tenants.OpsResolve {
			reader.send(method, path, form(method)).expect(t, http.StatusForbidden, "")
		}
		if permission == tenants.OpsRead && !strings.HasSuffix(path, "/live") {
			reader.get(path).expect(t, http.StatusOK, "")
		}
	}
	s.unmoved()
	if page := string(reader.get("/console/dead-letters/" + s.acme["deadLetterId"]).body); strings.Contains(page,
		"<textarea") || !strings.Contains(page, "may read only") {
		t.Errorf("somebody who may read only sees\n%s", page)
	}
	for _, key := range []string{acmeKey, readonlyKey, "unknown", "", " ", strings.Repeat("x", 10_000)} {
		b := s.browse()
		r := b.signIn(key)
		r.expect(t, http.StatusUnauthorized, "")
		if r.header.Get("Set-Cookie") != "" || key != "" && key != " " && strings.Contains(string(r.body), key) {
			t.Errorf("%.20q is answered with %v\n%s", key, r.header, r.body)
		}
	}
	b := s.browse()
	if to := b.send(http.MethodPost, "/console/sign-in", url.Values{"key": {operatorKey},
		"next": {"//evil.example/console/"}}).header.Get("Location"); to != "/console/" {
		t.Errorf("signing in leads to %s", to)
	}
	b.get("/console/").expect(t, http.StatusOK, "")
	b.send(http.MethodPost, "/console/sign-out", url.Values{}).expect(t, http.StatusSeeOther, "")
	b.get("/console/").expect(t, http.StatusSeeOther, "")
	s.exec("UPDATE api_keys SET expires_at = now() WHERE tenant_id IS NULL")
	eventually(t, "the end of the session", func() bool {
		return reader.get("/console/").status == http.StatusSeeOther
	})
}

// Item 8 and cross-site requests: another site can neither send a form nor show a page, and no page runs or loads
// anything that is not of this server.
func TestOWASPConsoleOtherSites(t *testing.T) {
	t.Parallel()
	s := setupSides(t)
	s.furnish()
	b := s.browse()
	b.signIn(resolvingKey).expect(t, http.StatusSeeOther, "")
	for _, pattern := range slices.Sorted(maps.Keys(console.Routes())) {
		method, path := s.addressOf(pattern)
		if strings.HasSuffix(path, "/live") {
			continue // A stream has no end. Its headers are set where all others are.
		}
		if method == http.MethodPost {
			for _, header := range [][2]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}} {
				b.send(method, path, form(method), header[0], header[1]).expect(t, http.StatusForbidden, "")
			}
			b.send(method, path, form(method), "Sec-Fetch-Site", "", "Origin", "https://evil.example").expect(t,
				http.StatusForbidden, "")
			continue
		}
		r := b.get(path)
		policy := r.header.Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'none'; ") || !strings.Contains(policy, "frame-ancestors 'none'") ||
			strings.Contains(policy, "script-src 'unsafe") || r.header.Get("X-Content-Type-Options") != "nosniff" ||
			r.header.Get("Referrer-Policy") != "no-referrer" ||
			!strings.HasPrefix(r.header.Get("Cache-Control"), "no-") {
			t.Errorf("%s has the headers %v", pattern, r.header)
		}
		for _, part := range []string{"<script>", " style=", " onclick=", "javascript:", "http-equiv"} {
			if strings.Contains(string(r.body), part) && strings.Contains(r.header.Get("Content-Type"), "html") {
				t.Errorf("%s has %s", pattern, part)
			}
		}
	}
	s.unmoved()
	b.send(http.MethodPost, "/console/sign-in", url.Values{"key": {strings.Repeat("x", 1<<20)}}).expect(t,
		http.StatusUnauthorized, "")
	for _, path := range []string{"/console/nothing", "/console/assets/live.js.map", "/console/assets/..%2fconsole.go",
		"/console/keys/acme/nothing/x", "/console/dead-letters/x", "/console/dead-letters?cursor=x",
		"/console/keys?key=",
		"/console/keys?status=x", "/console/payments/x", "/console/payments/" + nobody()["paymentId"],
		"/console/breaks?kind=x", "/console/webhooks?limit=0", "/console/payments?createdAfter=x"} {
		if r := b.get(path); r.status != http.StatusNotFound && r.status != http.StatusBadRequest {
			t.Errorf("%s is %d", path, r.status)
		}
	}
	for _, method := range []string{http.MethodPut, http.MethodDelete, http.MethodTrace} {
		if r := b.send(method, "/console/", nil); r.status != http.StatusMethodNotAllowed {
			t.Errorf("%s /console/ is %d", method, r.status)
		}
	}
}

// A program has no session. It may send its API key with each request that reads, and with no other: what is worth a
// session is worth a key, and a form is for people.
func TestOWASPConsoleForPrograms(t *testing.T) {
	t.Parallel()
	s := setupSides(t)
	s.furnish()
	b := s.browse()
	for _, pattern := range slices.Sorted(maps.Keys(console.Routes())) {
		method, path := s.addressOf(pattern)
		if console.Routes()[pattern] == "" || strings.HasSuffix(path, "/live") {
			continue
		}
		for _, key := range []string{acmeKey, readonlyKey, "unknown", ""} {
			r := b.send(method, path, form(method), "Authorization", "Bearer "+key)
			r.expect(t, http.StatusUnauthorized, "")
			if !strings.HasPrefix(r.header.Get("WWW-Authenticate"), "Bearer ") {
				t.Errorf("%s does not ask %q for another key", pattern, key)
			}
		}
		want := http.StatusOK
		if method != http.MethodGet {
			want = http.StatusUnauthorized
		}
		r := b.send(method, path, form(method), "Authorization", "Bearer "+resolvingKey)
		r.expect(t, want, "")
		if r.header.Get("Set-Cookie") != "" {
			t.Errorf("%s begins a session for a program", pattern)
		}
	}
	s.unmoved()
}

// What a stranger writes is text on every page: in a reference, in a description, in metadata, in a key.
func TestConsoleShowsTextOfStrangersAsText(t *testing.T) {
	t.Parallel()
	w := setupOpen(t)
	b := w.browse()
	b.signIn(operatorKey).expect(t, http.StatusSeeOther, "")
	const hostile = `<script>alert(1)</script>\u202e\ud83d\ude00 {{.}}`
	key := `<img-src=x>/..%2F"'&?#` + freshKey()
	paid := w.do(call{method: "POST", path: "/payments", key: key, body: `{"customerId":"cus-1","amountCents":1,` +
		`"currency":"USD","reference":"` + hostile + `","description":"` + hostile + `","metadata":{"a":"` + hostile +
		`"}}`})
	paid.expect(t, http.StatusCreated, "")
	id, reference := paid.text(t, "paymentId"), url.QueryEscape(paid.text(t, "reference"))
	for _, list := range []string{"/console/payments?reference=", "/console/search?q="} {
		if page := string(b.get(list + reference).body); !strings.Contains(page, "/console/payments/"+id) {
			t.Errorf("%s does not find the payment by its reference:\n%s", list, page)
		}
	}
	overview := string(b.get("/console/").body)
	found := keyLink.FindStringSubmatch(overview)
	if found == nil {
		t.Fatalf("the overview has no link to the key:\n%s", overview)
	}
	address := html.UnescapeString(found[1])
	page := b.get(address)
	page.expect(t, http.StatusOK, "")
	for _, list := range []string{"/console/payments", "/console/keys", "/console/search?q=" + url.QueryEscape(key)} {
		if page := string(b.get(list).body); strings.Contains(page, "<img") ||
			!strings.Contains(page, "&lt;img-src=x&gt;") {
			t.Errorf("%s shows the key as\n%s", list, page)
		}
	}
	svg, text := b.get(address+"/picture.svg"), b.get(address+"/picture.txt")
	if kind := text.header.Get("Content-Type"); kind != "text/plain; charset=utf-8" {
		t.Errorf("the text is %s, so a browser may show it as a page", kind)
	}
	ofPayment := string(b.get("/console/payments/" + id).body)
	for name, body := range map[string]string{"overview": overview, "key": string(page.body),
		"payment": ofPayment, "svg": string(svg.body)} {
		for _, part := range []string{"<script>alert", "<img-src"} {
			if strings.Contains(body, part) {
				t.Errorf("%s has %q", name, part)
			}
		}
	}
	if !strings.Contains(string(page.body), "&lt;script&gt;alert(1)") {
		t.Errorf("the description is not shown:\n%s", page.body)
	}
	if !strings.Contains(ofPayment, "<bdi>&lt;script&gt;alert(1)") {
		t.Errorf("the reference is not shown:\n%s", ofPayment)
	}
}
