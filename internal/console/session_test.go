package console

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func sessionsAt(t testing.TB, secret string, now *time.Time) *sessions {
	t.Helper()
	s, err := newSessions([]byte(secret), func() time.Time { return *now })
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func with(cookie *http.Cookie) *http.Request {
	r := &http.Request{Header: http.Header{}}
	r.AddCookie(cookie)
	return r
}

func TestSessionEndsAndCannotBeMade(t *testing.T) {
	t.Parallel()
	now := noon
	s := sessionsAt(t, "a secret of this process", &now)
	cookie := s.cookie("test-operator-key", true)
	if !cookie.HttpOnly || !cookie.Secure || cookie.SameSite != http.SameSiteStrictMode || cookie.Path != "/console" {
		t.Errorf("the cookie is %v", cookie)
	}
	raw, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err != nil || strings.Contains(string(raw), "operator") {
		t.Errorf("the cookie can be read: %q, %v", raw, err)
	}
	if key, _, _, err := s.open(with(cookie)); key != "test-operator-key" || err != nil {
		t.Fatalf("%q, %v", key, err)
	}
	if key, _, _, err := sessionsAt(t, "another secret", &now).open(with(cookie)); err == nil {
		t.Errorf("another process reads %q", key)
	}
	for i := range raw {
		changed := []byte(string(raw))
		changed[i] ^= 1
		forged := *cookie
		forged.Value = base64.RawURLEncoding.EncodeToString(changed)
		if key, _, _, err := s.open(with(&forged)); err == nil {
			t.Fatalf("byte %d was changed, and the session is %q's", i, key)
		}
	}
	now = noon.Add(sessionLength)
	if key, _, _, err := s.open(with(cookie)); err == nil {
		t.Errorf("after its end, the session is %q's", key)
	}
	if end := ended(); end.MaxAge >= 0 || end.Name != cookie.Name || end.Path != cookie.Path {
		t.Errorf("signing out sets %v", end)
	}
}

// Whatever a browser sends, only what was sealed here is a session.
func FuzzSession(f *testing.F) {
	now := noon
	s := sessionsAt(f, "a secret of this process", &now)
	good := s.cookie("test-operator-key", false).Value
	for _, value := range []string{"", "x", good, good + "=", good[1:], strings.Repeat("A", 2000), "%%%"} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		r := &http.Request{Header: http.Header{"Cookie": {cookieName + "=" + value}}}
		if key, _, _, err := s.open(r); err == nil && (value != good || key != "test-operator-key") {
			t.Errorf("%q is a session of %q", value, key)
		}
	})
}

// Nobody is led to another site after signing in.
func FuzzOwnPath(f *testing.F) {
	for _, next := range []string{"", "/console/", "/console/dead-letters?status=open", "//evil.example/console/",
		"https://evil.example/console/", "/console/\\evil.example", "/console/../docs", "/console/sign-out"} {
		f.Add(next)
	}
	c := &Console{config: Config{DemoPage: "/demo/"}}
	for _, next := range []string{"/demo/", "/demo/?key=a&b", "/demo//evil", "/demo/?key=x\\", "//evil.example/demo/"} {
		f.Add(next)
	}
	f.Fuzz(func(t *testing.T, next string) {
		got := c.ownPath(next)
		ours := strings.HasPrefix(got, "/console/") || got == "/demo/" || strings.HasPrefix(got, "/demo/?")
		if !ours || strings.ContainsAny(got, "\\\r\n") {
			t.Errorf("%q leads to %q", next, got)
		}
	})
}
