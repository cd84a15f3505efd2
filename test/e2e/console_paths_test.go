package e2e

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// The database refuses a text with a zero byte, and one that is not UTF-8. No key has such a name. It must not be asked
// about in the one query for the pages of all keys: that query would fail for all of them.
func TestKeyThatTheDatabaseCannotNameIsNoKey(t *testing.T) {
	t.Parallel()
	b := setup(t).browse()
	b.http.Timeout = patience // a stream has no end
	b.signIn(operatorKey).expect(t, http.StatusSeeOther, "")
	for _, page := range []string{"/console/keys/acme/payments/%00", "/console/keys/acme/payments/%ff",
		"/console/keys/%00/payments/key", "/console/keys/%c3%28/refunds/key"} {
		for _, part := range []string{"", "/live", "/picture.svg", "/picture.mmd", "/picture.txt"} {
			if r := b.get(page + part); r.status != http.StatusNotFound {
				t.Errorf("%s is %d", page+part, r.status)
			}
		}
	}
}

// A session that somebody has copied, from a shared browser or a log of a proxy, is worth nothing after its owner has
// signed out. It is the same session in every text that base64 reads as the same bytes.
func TestSignedOutSessionIsOver(t *testing.T) {
	t.Parallel()
	b := setup(t).browse()
	r := b.signIn(operatorKey)
	r.expect(t, http.StatusSeeOther, "")
	copied := r.header.Get("Set-Cookie")
	name, value, _ := strings.Cut(strings.Split(copied, ";")[0], "=")
	other := b.signIn(operatorKey)
	other.expect(t, http.StatusSeeOther, "")
	kept := strings.Split(other.header.Get("Set-Cookie"), ";")[0]
	b.http.Jar = nil
	reads := func(cookie string) int { return b.send(http.MethodGet, "/console/", nil, "Cookie", cookie).status }
	if got := reads(name + "=" + value); got != http.StatusOK {
		t.Fatalf("the session reads %d", got)
	}
	b.send(http.MethodPost, "/console/sign-out", url.Values{}, "Cookie", name+"="+value).
		expect(t, http.StatusSeeOther, "")
	for _, last := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" {
		if got := reads(name + "=" + value[:len(value)-1] + string(last)); got != http.StatusSeeOther {
			t.Fatalf("the session that is over, with %c at its end, reads %d", last, got)
		}
	}
	if got := reads(kept); got != http.StatusOK {
		t.Errorf("another session of the same operator reads %d", got)
	}
}
