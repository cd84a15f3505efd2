package native_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payonce/internal/gateway"
)

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

func TestCompressedReadProvesNothing(t *testing.T) {
	t.Parallel()
	s := serving(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, nothingHeld)
		_ = z.Close()
	})
	lookupFailed(t, newClient(t, s.URL).lookup(), "answer malformed")
}

func TestOpenBreakerDoesNotStopReads(t *testing.T) {
	t.Parallel()
	s := serving(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusServiceUnavailable)
		} else {
			serveNothing(w, r)
		}
	})
	c := newClient(t, s.URL, breaker(time.Hour))
	for range failures {
		c.charge()
	}
	notExecuted(t, c.charge(), "breaker open")
	if l := c.lookup(); l != (gateway.NotFound{}) {
		t.Fatalf("lookup %T %+v", l, l)
	}
	if _, err := c.list(); err != nil {
		t.Fatal(err)
	}
	if err := c.Statement(t.Context(), "canary-account", noon, discard); err != nil {
		t.Fatal(err)
	}
	if c.Ready("canary-account") {
		t.Fatal("reads have closed the breaker")
	}
}

// serveNothing is a ledger without an entry, and its settlement file.
func serveNothing(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, ".csv") {
		_, _ = io.WriteString(w, header+"total,0,,,,,,,\r\n")
	} else {
		_, _ = io.WriteString(w, nothingHeld)
	}
}

func TestFailedReadsDoNotOpenTheBreaker(t *testing.T) {
	t.Parallel()
	c := newClient(t, raw(t, "").URL, breaker(time.Hour))
	for range failures + 1 {
		lookupFailed(t, c.lookup(), "connection lost")
		listFailed(t, c, "connection lost")
		if err := c.Statement(t.Context(), "canary-account", noon, discard); err == nil {
			t.Fatal("a lost statement is whole")
		}
	}
	if !c.Ready("canary-account") {
		t.Fatal("reads have opened the breaker")
	}
}

func TestReadsTakeAPlaceAmongThoseInFlight(t *testing.T) {
	t.Parallel()
	g := newGated(t)
	c := newClient(t, g.url, func(l *gateway.Limits) { l.InFlight, l.Queue = 1, soon })
	done := make(chan gateway.Lookup, 1)
	go func() { done <- c.lookup() }()
	await(t, "the lookup", g.arrived)
	if n := c.InFlight(); n != 1 {
		t.Fatalf("%d in flight, want 1", n)
	}
	const full = "too many requests to the PSP in flight"
	if l := c.lookup(); l != (gateway.LookupFailed{Reason: full, NotAsked: true}) {
		t.Fatalf("lookup %T %+v: it says that the PSP was asked", l, l)
	}
	listFailed(t, c, full)
	if err := c.Statement(t.Context(), "canary-account", noon, discard); err == nil ||
		err.Error() != "read statement: "+full {
		t.Fatalf("statement: %v", err)
	}
	g.release <- http.StatusOK
	lookupFailed(t, await(t, "the lookup's end", done), "answer malformed") // it answers every request as a charge
	eventually(t, "the place's return", func() bool { return c.InFlight() == 0 })
}

func TestObserverHearsOfEachReadOnce(t *testing.T) {
	t.Parallel()
	bodies := make(chan string, 1)
	s := serving(t, func(w http.ResponseWriter, _ *http.Request) {
		body := <-bodies
		if body == "" {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = io.WriteString(w, body)
	})
	c := newClient(t, s.URL)
	for _, body := range []string{listing(chargeHeld), nothingHeld, ""} {
		bodies <- body
		c.lookup()
	}
	for _, body := range []string{nothingHeld, ""} {
		bodies <- body
		_, _ = c.list()
	}
	for _, body := range []string{header + "total,0,,,,,,,\r\n", header, ""} {
		bodies <- body
		_ = c.Statement(t.Context(), "canary-account", noon, discard)
	}
	want := []string{
		"lookup_found", "lookup_not_found", "lookup_failed", "list_ok", "list_failed", "statement_ok",
		"statement_failed", "statement_none",
	}
	if diff := cmp.Diff(want, c.observed()); diff != "" {
		t.Fatalf("observed (-want +got):\n%s", diff)
	}
}
