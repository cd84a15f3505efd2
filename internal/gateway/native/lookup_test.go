package native_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payonce/internal/gateway"
	"payonce/test/wait"
)

const nothingHeld = `{"data":[],"hasMore":false}`

// listing is a PSP's whole list of records.
func listing(records ...string) string {
	return `{"data":[` + strings.Join(records, ",") + `],"hasMore":false}`
}

// lookup asks for aCharge. Whatever comes of it, the reason holds nothing that a log must not.
func (c *client) lookup() gateway.Lookup {
	c.t.Helper()
	return c.lookedUp(c.Lookup(c.t.Context(), aCharge(), gateway.EndNothing))
}

func (c *client) lookedUp(l gateway.Lookup) gateway.Lookup {
	c.t.Helper()
	if failed, ok := l.(gateway.LookupFailed); ok {
		c.checked(gateway.Indeterminate{Reason: failed.Reason})
	}
	return l
}

func lookupFailed(t *testing.T, l gateway.Lookup, reason string) {
	t.Helper()
	if l != (gateway.LookupFailed{Reason: reason}) {
		t.Fatalf("lookup %T %+v, want LookupFailed: %s", l, l, reason)
	}
}

func found(t *testing.T, l gateway.Lookup, want ...gateway.Record) {
	t.Helper()
	if diff := cmp.Diff(gateway.Lookup(gateway.Found{Records: want}), l); diff != "" {
		t.Fatalf("lookup differs (-want +got):\n%s", diff)
	}
}

func TestLookupIsSentAsTheContractSays(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	s := serving(t, func(w http.ResponseWriter, r *http.Request) {
		got <- requestText(r)
		_, _ = io.WriteString(w, nothingHeld)
	})
	c := newClient(t, s.URL)
	for object, path := range map[gateway.Object]string{gateway.ChargeObject: "/v1/charges",
		gateway.RefundObject: "/v1/refunds"} {
		r := asked(object, "canary-account", "a&limit=1#é/%")
		if l := c.Lookup(t.Context(), r, gateway.EndNothing); l != (gateway.NotFound{}) {
			t.Fatalf("lookup %T %+v", l, l)
		}
		want := "GET " + path + "?idempotencyKey=a%26limit%3D1%23%C3%A9%2F%25&limit=100" + `
Accept: application/json
Authorization: Bearer ` + secret + `
Cache-Control: no-cache
Psp-Account: canary-account
`
		if diff := cmp.Diff(want, wait.For(t, "the request", got)); diff != "" {
			t.Fatalf("request differs (-want +got):\n%s", diff)
		}
	}
}

// requestText is the request line and all headers but those of Go itself.
func requestText(r *http.Request) string {
	var headers strings.Builder
	_ = r.Header.WriteSubset(&headers, map[string]bool{"User-Agent": true})
	return r.Method + " " + r.RequestURI + "\n" + strings.ReplaceAll(headers.String(), "\r\n", "\n")
}

func TestLookupFindsWhatTheLedgerHolds(t *testing.T) {
	t.Parallel()
	charge, declined := parsed(t, chargeHeld), parsed(t, chargeRefused)
	found(t, newClient(t, answering(t, 200, listing(chargeHeld)).URL).lookup(), charge)
	found(t, newClient(t, answering(t, 200, listing(chargeRefused)).URL).lookup(), declined)
	// There should not be more than one. The caller of Lookup must see all of them.
	found(t, newClient(t, answering(t, 200, listing(chargeHeld, chargeRefused)).URL).lookup(), charge, declined)
}

// A page may be short. What lies behind it counts as well, and a PSP that comes to no end has not answered.
func TestLookupReadsToTheEnd(t *testing.T) {
	t.Parallel()
	var pages atomic.Int32
	s := serving(t, func(w http.ResponseWriter, r *http.Request) {
		pages.Add(1)
		if r.FormValue("cursor") == "x" {
			_, _ = io.WriteString(w, listing(chargeRefused))
			return
		}
		_, _ = io.WriteString(w, `{"data":[`+chargeHeld+`],"hasMore":true,"nextCursor":"x"}`)
	})
	found(t, newClient(t, s.URL).lookup(), parsed(t, chargeHeld), parsed(t, chargeRefused))

	pages.Store(0)
	s = serving(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"data":[%s],"hasMore":true,"nextCursor":"%d"}`, chargeHeld, pages.Add(1))
	})
	lookupFailed(t, newClient(t, s.URL).lookup(), "answer without an end")
	if n := pages.Load(); n != 5 {
		t.Fatalf("%d pages were read, want 5", n)
	}

	pages.Store(0)
	s = serving(t, func(w http.ResponseWriter, _ *http.Request) {
		pages.Add(1)
		_, _ = io.WriteString(w, `{"data":[`+chargeHeld+`],"hasMore":true,"nextCursor":"x"}`)
	})
	lookupFailed(t, newClient(t, s.URL).lookup(), "answer without an end")
	if n := pages.Load(); n != 2 {
		t.Fatalf("%d pages were read, want 2: the second leads back to itself", n)
	}
}

func TestOnlyAWellFormedEmptyListIsNotFound(t *testing.T) {
	t.Parallel()
	for _, body := range []string{nothingHeld,
		` {"object":"list","nextCursor":"","hasMore":false,"data":[ ],"x":{"data":[1]}} `} {
		if l := newClient(t, answering(t, 200, body).URL).lookup(); l != (gateway.NotFound{}) {
			t.Fatalf("%s: lookup %T %+v", body, l, l)
		}
	}
}

// A PSP that has ignored the filter, or the account, has not said what is under our key.
func TestListOfSomethingElseProvesNothing(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ reason, from, to string }{
		"another key":      {"answer has another key", `"canary-key-0123456789"`, `"canary-key-0123456789.g2"`},
		"no key":           {"answer has another key", `"idempotencyKey":"canary-key-0123456789",`, ``},
		"another account":  {"record of another account", `canary-account`, `canary-globex`},
		"another object":   {"record of another object", `"object":"charge"`, `"object":"refund","chargeId":"ch_0"`},
		"malformed":        {"record with a malformed amountCents", `12000`, `-1`},
		"not even JSON of": {"record is not the JSON of one", `"ch_1"`, `1`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			odd := replace(chargeHeld, row.from, row.to)
			for _, body := range []string{listing(odd), listing(chargeHeld, odd)} {
				lookupFailed(t, newClient(t, answering(t, 200, body).URL).lookup(), row.reason)
			}
		})
	}
	lookupFailed(t, newClient(t, answering(t, 200, listing(chargeRefused, chargeHeld)).URL).lookup(),
		"answer is not oldest first")
}

// The charge of a known id is read alone. What could not be read is no record: the caller would take it for somebody
// else's.
func TestOnlyTheAnswerThatAChargeIsMissingIsNotFound(t *testing.T) {
	t.Parallel()
	ch := aCharge()
	ch.ObjectID = "ch_1"
	read := func(status int, body string) gateway.Lookup {
		c := newClient(t, answering(t, status, body).URL)
		return c.lookedUp(c.Lookup(t.Context(), ch, gateway.EndNothing))
	}
	found(t, read(200, chargeHeld), parsed(t, chargeHeld))
	if l := read(404, "{}"); l != (gateway.NotFound{}) {
		t.Fatalf("lookup %T %+v", l, l)
	}
	lookupFailed(t, read(500, "{}"), "PSP answered 500")
	lookupFailed(t, read(200, "{}"), "record with a malformed object")
	lookupFailed(t, read(200, chargeRefused), "answer has another id")
}

func TestLookupWithoutKeyOrAccountIsNotSent(t *testing.T) {
	t.Parallel()
	s := serving(t, func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("asked for %s of %q", r.RequestURI, r.Header.Get("PSP-Account"))
		_, _ = io.WriteString(w, nothingHeld)
	})
	c := newClient(t, s.URL)
	ask := func(r gateway.Request) gateway.Lookup {
		return c.lookedUp(c.Lookup(t.Context(), r, gateway.EndNothing))
	}
	for _, o := range []gateway.Object{gateway.ChargeObject, gateway.RefundObject} {
		lookupFailed(t, ask(asked(o, "acme", "")), "no key to look up")
		for _, account := range []string{"", " ", " acme", "acme ", "acme\r\nX: y", strings.Repeat("a", 256)} {
			lookupFailed(t, ask(asked(o, account, "key")), "no such account")
		}
	}
}

// asked is a request of which a lookup needs no more than these.
func asked(o gateway.Object, account, key string) gateway.Request {
	if o == gateway.RefundObject {
		return gateway.Refund{Account: account, Key: key}
	}
	return gateway.Charge{Account: account, Key: key}
}

// A page that is too long is asked for again with a limit of 1, at which it may have more.
func TestReadMayHave16MiBAndNoMore(t *testing.T) {
	t.Parallel()
	fits := nothingHeld + strings.Repeat(" ", 16<<20-len(nothingHeld))
	if l := newClient(t, answering(t, 200, fits).URL).lookup(); l != (gateway.NotFound{}) {
		t.Fatalf("lookup %T %+v", l, l)
	}
	lookupFailed(t, newClient(t, answering(t, 200, fits+" ").URL).lookup(), "answer longer than 16777216 bytes")
	var asks atomic.Int32
	s := serving(t, func(w http.ResponseWriter, _ *http.Request) {
		asks.Add(1)
		_, _ = io.WriteString(w, nothingHeld)
		endless(w, " ")
	})
	lookupFailed(t, newClient(t, s.URL).lookup(), "answer longer than 16777216 bytes")
	if n := asks.Load(); n != 2 {
		t.Fatalf("the PSP was asked %d times, want 2", n)
	}
}
