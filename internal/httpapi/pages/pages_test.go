package pages_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"html"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"payonce/internal/httpapi/pages"
	"payonce/internal/look"
	"payonce/internal/problem"
)

const (
	publicURL   = "https://pay.example"
	operatorURL = "http://localhost:8081"
	pspURL      = "http://localhost:8082"
)

func openapi() []byte { return []byte("openapi: 3.1.0\n") }

func get(t *testing.T, path string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	return getFrom(t, publicURL, http.MethodGet, path, header...)
}

func getFrom(t *testing.T, publicURL, method, path string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	answer := httptest.NewRecorder()
	at := pages.Addresses{Public: publicURL, Operator: operatorURL, PSP: pspURL}
	pages.Handler(at, openapi).ServeHTTP(answer, request)
	return answer
}

// getOperators asks the pages of the operator's listener.
func getOperators(t *testing.T, path string) *httptest.ResponseRecorder {
	t.Helper()
	answer := httptest.NewRecorder()
	at := pages.Addresses{Public: publicURL, Operator: operatorURL, PSP: pspURL}
	pages.OperatorHandler(at, openapi, http.NotFoundHandler()).
		ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return answer
}

// The demo's API keys are refused everywhere else, and its payment methods do nothing there.
func TestOnlyTheDemoShowsItsKeys(t *testing.T) {
	t.Parallel()
	whole, err := os.ReadFile("../openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	document := func() []byte { return whole }
	for demo, at := range map[bool]pages.Addresses{
		true:  {Public: publicURL, Operator: operatorURL, PSP: pspURL},
		false: {Public: publicURL, Operator: operatorURL},
	} {
		public := pages.Handler(at, document)
		operators := pages.OperatorHandler(at, document, http.NotFoundHandler())
		for address, handler := range map[string]http.Handler{
			"/": public, "/docs": public, "/openapi.yaml": public, "/problems/not_found": public,
			"/problems/method_not_allowed": public, "/docs of operators": operators,
			"/openapi.yaml of operators": operators,
		} {
			path, _, _ := strings.Cut(address, " ")
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
			shown := answer.Body.String()
			has := strings.Contains(shown, "-acme-key") || strings.Contains(shown, "demo-operator-key")
			if answer.Code != http.StatusOK || has != demo || strings.Contains(shown, "<!-- ") {
				t.Errorf("demo: %t, %s: %d; it has a key of the demo: %t", demo, address, answer.Code, has)
			}
			var parsed map[string]any
			if err := yaml.Unmarshal([]byte(shown), &parsed); strings.HasSuffix(path, ".yaml") && err != nil {
				t.Errorf("demo: %t, %s: %v", demo, path, err)
			}
			if strings.HasSuffix(path, ".yaml") && strings.Contains(shown, "pm_stuck") != demo {
				t.Errorf("demo: %t, %s: it has the payment methods of the demo: %t", demo, path, !demo)
			}
		}
		for _, entry := range problem.All() {
			answer := httptest.NewRecorder()
			public.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet,
				"/problems/"+string(entry.Code), nil))
			_, see, _ := strings.Cut(answer.Body.String(), "<h2>See it</h2>")
			if !demo && regexp.MustCompile("pm_|demo-|8082").MatchString(see) {
				t.Errorf("%s shows what only the demo has: %s", entry.Code, see)
			}
		}
	}
}

func TestEveryProblemTypeHasItsPage(t *testing.T) {
	t.Parallel()
	for _, entry := range problem.All() {
		answer := get(t, "/problems/"+string(entry.Code))
		if answer.Code != http.StatusOK {
			t.Errorf("%s: status %d", entry.Code, answer.Code)
		}
		text := html.UnescapeString(answer.Body.String())
		for _, part := range []string{entry.Title, entry.Meaning, entry.WhatToDo, string(entry.Code), entry.Unseen} {
			if !strings.Contains(text, part) {
				t.Errorf("%s: the page lacks %q", entry.Code, part)
			}
		}
		if strings.Contains(text, "not retryable") == entry.Retryable {
			t.Errorf("%s: the page is wrong about retryable=%v", entry.Code, entry.Retryable)
		}
		if strings.Contains(text, "not proven safe") == entry.NewKeySafe {
			t.Errorf("%s: the page is wrong about newKeySafe=%v", entry.Code, entry.NewKeySafe)
		}
	}
}

func TestUnknownCodeIsA404ThatListsTheKnownOnes(t *testing.T) {
	t.Parallel()
	answer := get(t, "/problems/no_such_code")
	if answer.Code != http.StatusNotFound {
		t.Errorf("status %d, want 404", answer.Code)
	}
	if contentType := answer.Header().Get("Content-Type"); !strings.HasPrefix(contentType, "text/html") {
		t.Errorf("content type %q", contentType)
	}
	for _, entry := range problem.All() {
		if !strings.Contains(answer.Body.String(), `href="/problems/`+string(entry.Code)+`"`) {
			t.Errorf("%s is not listed", entry.Code)
		}
	}
}

var preformatted = regexp.MustCompile(`(?s)<pre tabindex="0"><code>(.*?)</code></pre>`)

func TestEveryCurlLineIsAShellCommandForThisServer(t *testing.T) {
	t.Parallel()
	paths := []string{"/"}
	for _, entry := range problem.All() {
		if entry.Curl != "" {
			paths = append(paths, "/problems/"+string(entry.Code))
		}
	}
	for _, path := range paths {
		commands := preformatted.FindAllStringSubmatch(get(t, path).Body.String(), -1)
		if len(commands) == 0 {
			t.Errorf("%s shows no command", path)
		}
		for _, command := range commands {
			line := html.UnescapeString(command[1])
			if !strings.Contains(line, publicURL+"/") || strings.Contains(line, "$BASE") ||
				strings.Contains(line, "$OPERATOR") || strings.Contains(line, "$PSP") || strings.Contains(line, "KRW") {
				t.Errorf("%s: the command is not for this server, or not in dollars: %s", path, line)
			}
			// A line may be broken at a continuation or after a semicolon; elsewhere it would be two commands.
			for _, part := range strings.Split(strings.ReplaceAll(line, " \\\n", " "), ";\n") {
				if strings.Contains(part, "\n") {
					t.Errorf("%s: the command falls apart at its lines: %s", path, line)
				}
			}
			if message, err := exec.CommandContext(t.Context(), "sh", "-n", "-c", line).CombinedOutput(); err != nil {
				t.Errorf("%s: the shell refuses %s: %s", path, line, message)
			}
		}
	}
}

var address = regexp.MustCompile(`(?:href|src|data-document)="([^"]*)"`)

// Follows every link from the start page, so a page that moves breaks here. Of other servers, there are the operator's
// reference and the provider's page, and nothing else.
func TestEveryAddressIsOnThisServerAndAnswers(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	queue := []string{"/"}
	for len(queue) > 0 {
		path := queue[0]
		queue = queue[1:]
		if seen[path] || strings.HasPrefix(path, "data:") || strings.HasPrefix(path, "#") {
			continue
		}
		seen[path] = true
		if path == operatorURL+"/docs" || path == operatorURL+"/console/" || path == pspURL+"/" {
			continue
		}
		if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") {
			t.Errorf("%s is on another server", path)
			continue
		}
		answer := get(t, path)
		if answer.Code != http.StatusOK {
			t.Errorf("%s: status %d", path, answer.Code)
		}
		if strings.HasPrefix(answer.Header().Get("Content-Type"), "text/html") {
			for _, found := range address.FindAllStringSubmatch(answer.Body.String(), -1) {
				queue = append(queue, html.UnescapeString(found[1]))
			}
		}
	}
	for _, path := range []string{
		"/docs", "/problems", "/openapi.yaml", "/docs/docs.js", "/docs/docs.css", "/problems/not_found",
		operatorURL + "/docs", pspURL + "/",
	} {
		if !seen[path] {
			t.Errorf("%s is not linked from anywhere", path)
		}
	}
}

func TestPolicyAllowsTheStylesheetAndNoScript(t *testing.T) {
	t.Parallel()
	style := regexp.MustCompile(`(?s)<style>(.*?)</style>`)
	for _, path := range []string{"/", "/problems", "/problems/not_found", "/problems/no_such_code"} {
		answer := get(t, path)
		sheets := style.FindAllStringSubmatch(answer.Body.String(), -1)
		if len(sheets) != 1 {
			t.Fatalf("%s has %d style elements, want 1", path, len(sheets))
		}
		hash := sha256.Sum256([]byte(sheets[0][1]))
		policy := answer.Header().Get("Content-Security-Policy")
		if want := "style-src 'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) +
			"'"; !strings.Contains(policy, want) {
			t.Errorf("%s: policy %q does not allow its own stylesheet, %s", path, policy, want)
		}
		if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "script-src") ||
			strings.Contains(policy, "unsafe") {
			t.Errorf("%s: policy %q is too lax", path, policy)
		}
	}
}

func TestReaderHasScriptsAndStylesOfThisServerOnly(t *testing.T) {
	t.Parallel()
	for _, answer := range []*httptest.ResponseRecorder{get(t, "/docs"), getOperators(t, "/docs")} {
		policy := answer.Header().Get("Content-Security-Policy")
		for _, want := range []string{
			"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'",
		} {
			if !slices.Contains(strings.Split(policy, "; "), want) {
				t.Errorf("the policy %q lacks %q", policy, want)
			}
		}
		if strings.Contains(policy, "unsafe") {
			t.Errorf("the policy %q is too lax", policy)
		}
		for _, inline := range []string{"<script>", "<style", " style="} {
			if strings.Contains(answer.Body.String(), inline) {
				t.Errorf("the page has %q, which its policy forbids", inline)
			}
		}
	}
	for _, sheet := range []string{"/docs/docs.css", "/docs/swagger-ui.css"} {
		found := regexp.MustCompile(`@import|url\(["']?[^d"']`).FindString(get(t, sheet).Body.String())
		if found != "" {
			t.Errorf("%s would load a file: %q", sheet, found)
		}
	}
}

func TestReaderHasTheColoursOfTheOtherPages(t *testing.T) {
	t.Parallel()
	if !strings.HasPrefix(get(t, "/docs/docs.css").Body.String(), look.Base()) {
		t.Error("docs.css does not begin with the colours")
	}
}

func TestEachListenerHasAReaderOfItsOwn(t *testing.T) {
	t.Parallel()
	public, operators := get(t, "/docs").Body.String(), getOperators(t, "/docs").Body.String()
	for page, parts := range map[string][]string{
		public:    {`data-listener="public"`, `data-api-key="demo-acme-key"`, `href="` + operatorURL + `/docs"`},
		operators: {`data-listener="operator"`, `data-api-key="demo-operator-key"`, `href="` + publicURL + `/docs"`},
	} {
		for _, part := range parts {
			if !strings.Contains(page, part) {
				t.Errorf("the reader lacks %s:\n%s", part, page)
			}
		}
	}
	// All that the reader loads is on the operator's listener, too. What is not the reader's is not there.
	for _, found := range regexp.MustCompile(`(?:src|data-document)="([^"]*)"`).FindAllStringSubmatch(operators, -1) {
		if answer := getOperators(t, html.UnescapeString(found[1])); answer.Code != http.StatusOK {
			t.Errorf("%s: status %d", found[1], answer.Code)
		}
	}
	for _, path := range []string{"/", "/problems", "/docs/../operator/summary", "/docs/nothing.js"} {
		if answer := getOperators(t, path); answer.Code != http.StatusNotFound {
			t.Errorf("%s: status %d, want 404", path, answer.Code)
		}
	}
}

func TestStartPageNamesNoPageOfAProviderThatHasNone(t *testing.T) {
	t.Parallel()
	answer := httptest.NewRecorder()
	pages.Handler(pages.Addresses{Public: publicURL, Operator: operatorURL}, nil).
		ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	if strings.Contains(answer.Body.String(), "PSP") {
		t.Error("the start page leads to a page of the provider's")
	}
}

// Pins the files from the npm package swagger-ui-dist 5.35.0.
func TestVendoredReaderIsTheRelease(t *testing.T) {
	t.Parallel()
	for name, release := range map[string]string{
		"swagger-ui-bundle.js":             "e6a898692f2d768e807c3ba4626068a69a2c5dd960dd6c76f3e4d3a3de180af2",
		"swagger-ui.css":                   "5ed08757e53da3e026d6cbecc61fe5d43585c9560b302d534ad56692519a273d",
		"swagger-ui-bundle.js.LICENSE.txt": "37eb6e7e59aed57b2c1acf076574b818ea07b74265717e0bd67b59e0baf9abbb",
		"swagger-ui.LICENSE.txt":           "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30",
		"swagger-ui.NOTICE.txt":            "0d20d1adef18aee3f40dd258172155521ce702ac445cb5f7b7d60ed32dad2fb2",
	} {
		content, err := os.ReadFile("swaggerui/" + name)
		if err != nil {
			t.Fatal(err)
		}
		hash := sha256.Sum256(content)
		if got := hex.EncodeToString(hash[:]); got != release {
			t.Errorf("%s: sha256 is %s, want %s", name, got, release)
		}
	}
	page := get(t, "/docs").Body.String()
	for _, name := range []string{"swagger-ui-bundle.js", "swagger-ui.css"} {
		if !strings.Contains(page, `="/docs/`+name+`?v=5.35.0"`) {
			t.Errorf("the page does not name the release of %s", name)
		}
	}
	for path, part := range map[string]string{
		"/docs/swagger-ui.LICENSE.txt": "Apache License", "/docs/swagger-ui.NOTICE.txt": "SmartBear",
		"/docs/swagger-ui-bundle.js.LICENSE.txt": "DOMPurify",
	} {
		if !strings.Contains(get(t, path).Body.String(), part) {
			t.Errorf("%s lacks %s", path, part)
		}
	}
}

func TestUnchangedDocumentIsNotSentAgain(t *testing.T) {
	t.Parallel()
	for path, cache := range map[string]string{
		"/openapi.yaml":                       "no-cache",
		"/docs/docs.js":                       "no-cache",
		"/docs/docs.css":                      "no-cache",
		"/docs/swagger-ui-bundle.js?v=5.35.0": "public, max-age=31536000, immutable",
	} {
		first := get(t, path)
		etag := first.Header().Get("ETag")
		if first.Code != http.StatusOK || etag == "" || first.Header().Get("Cache-Control") != cache {
			t.Errorf("%s: status %d, header %v", path, first.Code, first.Header())
		}
		again := get(t, path, "If-None-Match", etag)
		if again.Code != http.StatusNotModified || again.Body.Len() != 0 {
			t.Errorf("%s again: status %d with %d bytes, want 304 without", path, again.Code, again.Body.Len())
		}
		if changed := get(t, path, "If-None-Match", `"another"`); changed.Code != http.StatusOK {
			t.Errorf("%s with another ETag: status %d, want 200", path, changed.Code)
		}
	}
}

func TestOpenAPIDocumentIsServedAsItIs(t *testing.T) {
	t.Parallel()
	answer := get(t, "/openapi.yaml")
	if got := answer.Body.String(); got != "openapi: 3.1.0\n" {
		t.Errorf("body %q", got)
	}
	if got := answer.Header().Get("Content-Type"); got != "application/yaml" {
		t.Errorf("content type %q", got)
	}
}

func TestHeadAnswersLikeGetWithoutABody(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(pages.Handler(pages.Addresses{Public: publicURL, Operator: operatorURL}, openapi))
	t.Cleanup(server.Close)
	for _, path := range []string{"/", "/docs", "/problems/not_found", "/openapi.yaml"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodHead, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := server.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") == "" {
			t.Errorf("HEAD %s: status %d, header %v", path, answer.StatusCode, answer.Header)
		}
	}
}

func TestUnknownPathIsAPageToo(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/docs/nothing.js", "/problems/not_found/more", "/nothing"} {
		answer := get(t, path)
		if answer.Code != http.StatusNotFound || !strings.Contains(answer.Body.String(), `href="/"`) {
			t.Errorf("%s: status %d: %s", path, answer.Code, answer.Body)
		}
	}
}

func TestPublicURLCannotBreakOutOfAPage(t *testing.T) {
	t.Parallel()
	const hostile = `https://x"><script>alert(1)</script>`
	for _, path := range []string{"/", "/problems/not_found"} {
		body := getFrom(t, hostile, http.MethodGet, path).Body.String()
		if strings.Contains(body, "<script") {
			t.Errorf("%s carries a script from the public URL", path)
		}
	}
}

func TestEveryAnswerForbidsSniffing(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/", "/docs", "/problems", "/openapi.yaml", "/docs/docs.js", "/docs/docs.css"} {
		if got := get(t, path).Header().Get("X-Content-Type-Options"); got != "nosniff" {
			t.Errorf("%s: X-Content-Type-Options %q", path, got)
		}
	}
}
