package controls

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// start opens the link of the page at 127.0.0.1:8081.
func start(c *Controls, token string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/demo/start?token="+token, nil)
	r.Host = "127.0.0.1:8081"
	c.ServeHTTP(w, r)
	return w
}

func newForTest(t *testing.T, operatorURL string) *Controls {
	t.Helper()
	c := New(Config{
		Port: "8081", OperatorURL: operatorURL, OperatorKey: "demo-operator-key", StartToken: "the-token",
		Log: slog.New(slog.DiscardHandler), Now: time.Now,
	})
	t.Cleanup(c.Close)
	return c
}

func TestStartLinkBringsTheConsolesCookies(t *testing.T) {
	t.Parallel()
	var asked []string
	console := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method, r.URL.Path, r.Host, r.Header.Get("Origin"), r.PostFormValue("key"))
		w.Header().Add("Set-Cookie", "session=s1; Path=/console; HttpOnly; SameSite=Strict")
		w.Header().Add("Set-Cookie", "other=o1")
		w.Header().Set("Location", "/console/")
		w.WriteHeader(http.StatusSeeOther)
	}))
	t.Cleanup(console.Close)
	c := newForTest(t, console.URL)
	got := start(c, "the-token")
	if got.Code != http.StatusSeeOther || got.Header().Get("Location") != "/demo/" ||
		!slices.Equal(got.Header().Values("Set-Cookie"),
			[]string{"session=s1; Path=/console; HttpOnly; SameSite=Strict", "other=o1"}) {
		t.Errorf("%d %v", got.Code, got.Header())
	}
	if want := []string{"POST", "/console/sign-in", "127.0.0.1:8081", "http://127.0.0.1:8081",
		"demo-operator-key"}; !slices.Equal(asked, want) {
		t.Errorf("the console was asked %q, want %q", asked, want)
	}
	if again := start(c, "the-token"); again.Code != http.StatusGone || len(again.Header().Values("Set-Cookie")) > 0 {
		t.Errorf("again: %d %v", again.Code, again.Header())
	}
}

func TestStartLinkStaysGoodWhileTheAPIIsAway(t *testing.T) {
	t.Parallel()
	away := true
	console := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if away {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusSeeOther)
	}))
	t.Cleanup(console.Close)
	c := newForTest(t, console.URL)
	if got := start(c, "the-token"); got.Code != http.StatusBadGateway ||
		!strings.Contains(got.Body.String(), "the link is still good") {
		t.Errorf("while it is away: %d %s", got.Code, got.Body)
	}
	if got := start(c, "another"); got.Code != http.StatusGone {
		t.Errorf("another token: %d", got.Code)
	}
	away = false
	if got := start(c, "the-token"); got.Code != http.StatusSeeOther {
		t.Errorf("when it is back: %d", got.Code)
	}
}

func TestPageHasNoButtonForADatabaseOfOthers(t *testing.T) {
	t.Parallel()
	c := newForTest(t, "http://127.0.0.1:1")
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/demo/", nil)
	r.Host = "localhost:8081"
	c.ServeHTTP(w, r)
	if w.Code != http.StatusOK || strings.Contains(w.Body.String(), "crash-database") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	w = httptest.NewRecorder()
	r = httptest.NewRequest(http.MethodPost, "/demo/crash-database", nil)
	r.Host = "localhost:8081"
	c.ServeHTTP(w, r)
	if w.Code != http.StatusNotFound {
		t.Errorf("the button: %d", w.Code)
	}
}

// The script and the style are files of this listener, and nothing is written into the page: the policy forbids it.
func TestPageKeepsToItsPolicy(t *testing.T) {
	t.Parallel()
	c := newForTest(t, "http://127.0.0.1:1")
	c.told.begin("pay", payment{Key: `"><script>alert(1)</script>`, Token: "pm_ok", Amount: 1})
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/demo/?key="+url.QueryEscape(`"><script>alert(1)</script>`), nil)
	r.Host = "localhost:8081"
	c.ServeHTTP(w, r)
	page := w.Body.String()
	if w.Header().Get("Content-Security-Policy") != policy || strings.Contains(page, "<script>") ||
		strings.Contains(page, "<style") || strings.Contains(page, " style=") || strings.Contains(page, " onclick=") {
		t.Errorf("%v\n%s", w.Header(), page)
	}
	for _, file := range []string{"live.js", "style.css"} {
		w = httptest.NewRecorder()
		r = httptest.NewRequest(http.MethodGet, "/demo/assets/"+file, nil)
		r.Host = "localhost:8081"
		c.ServeHTTP(w, r)
		if w.Code != http.StatusOK || !strings.Contains(page, "/demo/assets/"+file) {
			t.Errorf("%s: %d", file, w.Code)
		}
	}
}

func TestRequestsUnderWayAndTheLogAreBounded(t *testing.T) {
	t.Parallel()
	goOn := make(chan struct{})
	api := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-goOn }))
	t.Cleanup(api.Close)
	c := newForTest(t, "http://127.0.0.1:1")
	c.config.PublicURL = api.URL
	for range maxSending {
		c.send("pay", payment{Key: "k", Token: "pm_ok", Amount: 1}, patience)
	}
	c.send("one too many", payment{Key: "k", Token: "pm_ok", Amount: 1}, patience)
	if newest := c.told.newestFirst()[0]; newest.What != "one too many" || newest.Waits ||
		newest.Answer != "not sent: 16 requests are under way" {
		t.Errorf("the seventeenth: %+v", newest)
	}
	for range 2 * maxTold {
		c.told.note("a button", "done")
	}
	if n := len(c.told.newestFirst()); n != maxTold {
		t.Errorf("the log has %d lines", n)
	}
	close(goOn)
}
