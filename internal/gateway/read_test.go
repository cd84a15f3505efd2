package gateway_test

import (
	"compress/gzip"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payonce/internal/gateway"
)

// What came before the end was complete JSON, and said that there is nothing.
func TestLostReadProvesNothing(t *testing.T) {
	t.Parallel()
	const head = "HTTP/1.1 200 OK\r\n"
	for name, serve := range map[string]func(c *net.TCPConn){
		"closed at once":           func(*net.TCPConn) {},
		"closed after the request": func(c *net.TCPConn) { readRequest(c) },
		"reset after the request":  func(c *net.TCPConn) { readRequest(c); reset(c) },
		"closed in the headers":    func(c *net.TCPConn) { readRequest(c); write(c, head+"Content-Ty") },
		"closed in the body": func(c *net.TCPConn) {
			readRequest(c)
			write(c, head+"Content-Length: 100\r\n\r\n"+
				nothingHeld)
		},
		"reset in the body": func(c *net.TCPConn) {
			readRequest(c)
			write(c, head+"Content-Length: 100\r\n\r\n"+nothingHeld)
			reset(c)
		},
		"closed before the last chunk": func(c *net.TCPConn) {
			readRequest(c)
			write(c, head+"Transfer-Encoding: chunked\r\n\r\n1b\r\n"+nothingHeld+"\r\n")
		},
		"not HTTP": func(c *net.TCPConn) { readRequest(c); write(c, "SSH-2.0-OpenSSH\r\n\r\n"); hold(c) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, listen(t, serve).url)
			lookupFailed(t, c.lookup(), "connection lost")
			listFailed(t, c, "connection lost")
		})
	}
}

func TestReadWithoutAListenerProvesNothing(t *testing.T) {
	t.Parallel()
	c := newClient(t, nobodyListens(t))
	lookupFailed(t, c.lookup(), "no connection to the PSP")
	listFailed(t, c, "no connection to the PSP")
}

func TestReadThatIsLateProvesNothing(t *testing.T) {
	t.Parallel()
	for name, serve := range map[string]func(c *net.TCPConn){
		"nothing is answered": func(c *net.TCPConn) { readRequest(c); hold(c) },
		"the body stops": func(c *net.TCPConn) {
			readRequest(c)
			write(c, strings.TrimSuffix(response(200, nothingHeld), "}"))
			hold(c)
		},
		"the body drips": func(c *net.TCPConn) {
			readRequest(c)
			drip(c,
				response(200, nothingHeld+strings.Repeat(" ", 10000)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lookupFailed(t, newClient(t, listen(t, serve).url, total(soon)).lookup(), "no answer in time")
		})
	}
}

func TestReadThatItsCallerEndsProvesNothing(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	l := listen(t, func(c *net.TCPConn) { readRequest(c); close(asked); hold(c) })
	c := newClient(t, l.url)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan gateway.Lookup, 1)
	go func() { done <- c.Lookup(ctx, gateway.ChargeObject, aCharge().Account, aCharge().Key) }()
	await(t, "the request", asked)
	cancel()
	lookupFailed(t, await(t, "the end", done), "ended by the caller")
}

// A page that is too long is asked for again with a limit of 1, at which it may have more.
func TestReadMayHave16MiBAndNoMore(t *testing.T) {
	t.Parallel()
	fits := nothingHeld + strings.Repeat(" ", 16<<20-len(nothingHeld))
	if l := newClient(t, answering(t, 200, fits).URL).lookup(); l != (gateway.NotFound{}) {
		t.Fatalf("lookup %T %+v", l, l)
	}
	lookupFailed(t, newClient(t, answering(t, 200, fits+" ").URL).lookup(), "answer longer than 16777216 bytes")
	l := listen(t, func(c *net.TCPConn) {
		readRequest(c)
		write(c, "HTTP/1.1 200 OK\r\n\r\n"+nothingHeld)
		endless(c,
			" ")
	})
	lookupFailed(t, newClient(t, l.url).lookup(), "answer longer than 16777216 bytes")
	if n := l.arrivals.Load(); n != 2 {
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
	c := newClient(t, listen(t, func(c *net.TCPConn) { readRequest(c) }).url, breaker(time.Hour))
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
