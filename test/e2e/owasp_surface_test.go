package e2e

import (
	"bytes"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payonce/internal/config"
	"payonce/internal/httpapi"
)

// Items 8 and 9: what the servers give away by their settings, and whether what they serve is what is written down.

// Beside it: TestOtherMethodIsRefusedWithThoseAllowed (TRACE among them), TestWhatTheDatabaseSaysStaysOutOfRefusals,
// TestServerHasTheLimitsOfTheContract, TestPanicIsAnInternalErrorWithoutItsCause, those of package pages, and
// deploy/composecheck for the containers.
func TestOWASPAPI8SecurityMisconfiguration(t *testing.T) {
	t.Parallel()
	s := setupSides(t)
	s.furnish()
	for _, o := range documented(t, func(operation) bool { return true }) {
		good := s.callOf(o)
		good.header = http.Header{"Origin": {"https://evil.example"}, "X-Forwarded-Host": {"evil.example"},
			"X-Forwarded-Proto": {"gopher"}}
		wrong := good
		wrong.as = "nobody"
		for _, c := range []call{good, wrong} {
			s.harmless(o, s.at(o).do(c))
		}
		preflight := s.callOf(o)
		preflight.method, preflight.as = http.MethodOptions, "-"
		preflight.header = http.Header{"Origin": {"https://evil.example"}, "Access-Control-Request-Method": {o.method},
			"Access-Control-Request-Headers": {"authorization"}}
		r := s.at(o).do(preflight)
		r.expect(t, http.StatusMethodNotAllowed, "method_not_allowed")
		s.harmless(o, r)
	}
	for _, h := range []http.Handler{s.app.Public, s.app.Operator} {
		for _, path := range []string{
			"/debug/pprof/", "/debug/vars", "/.git/config", "/.env", "/actuator", "/admin", "/swagger.json",
			"/docs/../payments", "/docs//docs.js", "/docs/%2e%2e/%2e%2e/etc/passwd",
			"/docs/docs.js/", "/docs/style.css", "/problems/..%2f..%2fetc", "/problems//evil.example/..", "/docs/.",
			"/docs/templates/index.html", "//evil.example/..",
		} {
			r := unchecked(h, call{method: http.MethodGet, path: path})
			if r.status != http.StatusNotFound || r.header.Get("X-Content-Type-Options") != "nosniff" ||
				r.header.Get("Location") != "" {
				t.Errorf("%s is answered %d %v", path, r.status, r.header)
			}
			if bytes.Contains(r.body, []byte(`"instance":"//`)) {
				t.Errorf("the problem at %s leads to another host: %s", path, r.body)
			}
		}
	}
	s.answersItself()
}

// harmless checks the headers of an answer.
func (s *sides) harmless(o operation, r reply) {
	s.t.Helper()
	if r.status == http.StatusNoContent {
		return
	}
	h := r.header
	contentType := h.Get("Content-Type")
	if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("X-Request-Id") == "" || contentType == "" {
		s.t.Errorf("%s: %d with %v", o, r.status, h)
	}
	if strings.Contains(contentType, "json") && h.Get("Cache-Control") != "no-store" {
		s.t.Errorf("%s: somebody's answer may be kept by caches: %v", o, h)
	}
	if policy := h.Get("Content-Security-Policy"); strings.HasPrefix(contentType, "text/html") &&
		(!strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "frame-ancestors 'none'") ||
			h.Get("Referrer-Policy") != "no-referrer") {
		s.t.Errorf("%s: a page without a policy: %v", o, h)
	}
	for name := range h {
		if strings.HasPrefix(name, "Access-Control-") ||
			slices.Contains([]string{"Server", "X-Powered-By", "Set-Cookie", "Via", "X-Aspnet-Version"}, name) {
			s.t.Errorf("%s: has the header %s", o, name)
		}
	}
	if strings.Contains(string(r.body), "evil.example") || strings.Contains(h.Get("Location"), "://") {
		s.t.Errorf("%s believes a header about where it is: %v %s", o, h, r.body)
	}
}

// answersItself checks that nothing is answered by net/http that we have answers for.
func (s *sides) answersItself() {
	s.t.Helper()
	addr := s.served(func(*http.Server) {})
	const end = "\r\nHost: evil.example\r\nConnection: close\r\n"
	for request, want := range map[string]string{
		"OPTIONS * HTTP/1.1" + end:                                           "404",
		"CONNECT evil.example:443 HTTP/1.1" + end:                            "404",
		"GET http://evil.example/payments HTTP/1.1" + end:                    "401",
		"GET /openapi.yaml HTTP/1.1" + end + "Range: bytes=0-5\r\n":          "200",
		"GET /openapi.yaml HTTP/1.1" + end + "Range: bytes=99999999-\r\n":    "200",
		"GET /openapi.yaml HTTP/1.1" + end + "If-Match: \"x\"\r\n":           "200",
		"GET /docs/docs.js HTTP/1.1" + end + "If-None-Match: \"x\", W/*\r\n": "200",
		"GET /docs/docs.js HTTP/1.1" + end + "If-None-Match: *\r\n":          "304",
	} {
		answer := talk(s.t, addr, request+"\r\n")
		head, _, _ := strings.Cut(answer, "\r\n\r\n")
		if !strings.HasPrefix(head, "HTTP/1.1 "+want+" ") || !strings.Contains(head, "X-Request-Id: req_") ||
			strings.Contains(head, "Accept-Ranges") {
			s.t.Errorf("%q is answered\n%s", request, head)
		}
		if strings.Contains(answer, "evil.example") && !strings.HasPrefix(request, "CONNECT") {
			s.t.Errorf("%q is believed: %.600s", request, answer)
		}
	}
}

// What nobody has set is on the safe side: nothing secret has a default, and what is not for the public cannot be
// reached from outside.
func TestOWASPAPI8DefaultsAreSafe(t *testing.T) {
	t.Parallel()
	unset := func(string) string { return "" }
	api, err := config.Load(unset)
	if err != nil {
		t.Fatal(err)
	}
	reconciler, err := config.LoadReconciler(unset)
	if err != nil {
		t.Fatal(err)
	}
	for setting, addr := range map[string]string{"OPERATOR_ADDR": api.OperatorAddr,
		"RECONCILER_ADDR": reconciler.Addr} {
		host, _, err := net.SplitHostPort(addr)
		if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
			t.Errorf("%s is %s by default", setting, addr)
		}
	}
	if api.DatabaseURL != "" || api.PSPSecret != "" || len(api.WebhookSecrets) > 0 || api.LogLevel != slog.LevelInfo {
		t.Errorf("a default that everybody knows: %+v", api)
	}
	var help bytes.Buffer
	if err := config.Describe(&help, nil, config.API{}, config.Reconciler{}); err != nil {
		t.Fatal(err)
	}
	for _, known := range []string{"demo-psp-secret", "whsec_ZGVtby", "demo-acme-key", "password@"} {
		if strings.Contains(help.String(), known) {
			t.Errorf("--help offers %q", known)
		}
	}
}

// Beside it: package contract, which fails any test that sees an answer the document does not have;
// TestMetricsTellOutcomesAndNobodysBusiness.
func TestOWASPAPI9ImproperInventoryManagement(t *testing.T) {
	t.Parallel()
	s := setupSides(t)
	var written, served [2][]string
	for _, o := range documented(t, func(operation) bool { return true }) {
		side := 0
		if o.operator {
			side = 1
		}
		// The pages have a router of their own.
		path := strings.NewReplacer("/docs/{file}", "/docs/*", "/problems/{code}", "/problems/*").Replace(o.path)
		written[side] = append(written[side], o.method+" "+path)
		// It is not only routed, it answers.
		if r := s.at(o).do(s.callOf(o)); r.status == http.StatusNotFound &&
			strings.Contains(string(r.body), "nothing at this path") || r.status == http.StatusMethodNotAllowed {
			t.Errorf("%s is written down and not served", o)
		}
	}
	// These are for machines on a private network, and in no document for people.
	written[1] = append(written[1], "GET /livez", "GET /readyz", "GET /metrics")
	// The reader is on both, and written down once.
	written[1] = append(written[1], "GET /docs", "GET /docs/*", "GET /openapi.yaml")
	// The console has a router of its own, whose routes are tested in owasp_console_test.go.
	written[1] = append(written[1], "GET /", "GET /console", "GET /console/*", "POST /console/*")
	for side, h := range []http.Handler{s.app.Public, s.app.Operator} {
		served[side] = httpapi.Routes(h)
		slices.Sort(written[side])
		slices.Sort(served[side])
		if diff := cmp.Diff(written[side], served[side]); diff != "" {
			t.Errorf("listener %d (-written down +served):\n%s", side, diff)
		}
	}
	// What is published is this document, for this server and without what is for the demo.
	published := s.do(call{method: "GET", path: "/openapi.yaml", as: "-"})
	want := strings.NewReplacer("http://localhost:8080", s.own.PublicURL, "http://localhost:8081",
		s.own.OperatorURL(), "demo-acme-key", "YOUR_API_KEY", "demo-operator-key", "YOUR_API_KEY").Replace(
		string(regexp.MustCompile(`(?s) *<!-- demo -->.*?<!-- end -->\n`).ReplaceAll(httpapi.OpenAPI(), nil)))
	if string(published.body) != want {
		t.Error("another document is published")
	}
	// Operators get the same one, in which the public operations have the public address.
	const here = "url: /\n    description: The server that shows you this page."
	toOperators := unchecked(s.app.Operator, call{method: "GET", path: "/openapi.yaml"})
	if !strings.Contains(want, here) || string(toOperators.body) != strings.Replace(want, here, "url: "+s.own.PublicURL+
		"\n    description: The public API.", 1) {
		t.Error("another document is published to operators")
	}
	for _, old := range []string{"/v1/payments", "/v0/payments", "/api/payments", "/beta/payments",
		"/internal/payments", "/graphql", "/payments.json"} {
		s.do(call{method: "GET", path: old}).expect(t, http.StatusNotFound, "not_found")
	}
}
