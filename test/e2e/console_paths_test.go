package e2e

import (
	"net/http"
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
