package wire_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"payonce/internal/gateway"
)

const failures = 3

func breaker(open time.Duration) func(*gateway.Limits) {
	return func(l *gateway.Limits) { l.BreakerFailures, l.BreakerOpen = failures, open }
}

// moody is a PSP that answers with the status of the moment.
type moody struct {
	url      string
	status   atomic.Int32
	requests atomic.Int32
}

func newMoody(t *testing.T, status int32) *moody {
	t.Helper()
	m := &moody{}
	m.status.Store(status)
	m.url = serving(t, func(w http.ResponseWriter, _ *http.Request) {
		m.requests.Add(1)
		w.WriteHeader(int(m.status.Load()))
		_, _ = io.WriteString(w, said)
	}).URL
	return m
}

// A refund may meet the same kept error again and again, while the PSP is well.
func TestErrorThatThePSPHasKeptOpensNoBreaker(t *testing.T) {
	t.Parallel()
	url := serving(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Idempotent-Replayed", "true")
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, said)
	}).URL
	c := newClient(t, url, breaker(time.Hour))
	for range 2 * failures {
		answered(t, c.post(), 500)
	}
	if !c.Ready(account) {
		t.Error("the breaker is open")
	}
}

func TestBreakerOpensAfterFailuresInARow(t *testing.T) {
	t.Parallel()
	m := newMoody(t, http.StatusInternalServerError)
	c := newClient(t, m.url, breaker(time.Hour))
	for range failures - 1 {
		answered(t, c.post(), 500)
	}
	m.status.Store(http.StatusCreated) // one success, and the row of failures begins again
	answered(t, c.post(), 201)
	m.status.Store(http.StatusInternalServerError)
	for range failures {
		if !c.Ready(account) {
			t.Fatal("the breaker opened too early")
		}
		answered(t, c.post(), 500)
	}
	if c.Ready(account) {
		t.Fatal("the breaker is not open")
	}
	before := m.requests.Load()
	for range 10 {
		notSent(t, c.post(), "breaker open")
	}
	if n := m.requests.Load(); n != before {
		t.Fatalf("an open breaker let %d requests through", n-before)
	}
	if n := c.InFlight(); n != 0 {
		t.Fatalf("refused requests hold %d places", n)
	}
}

func TestOpenBreakerDoesNotDial(t *testing.T) {
	t.Parallel()
	l := listen(t, func(*net.TCPConn) {})
	c := newClient(t, l.url, breaker(time.Hour))
	for range failures {
		lost(t, c.post(), "connection lost")
	}
	notSent(t, c.post(), "breaker open")
	if n := l.arrivals.Load(); n != failures {
		t.Fatalf("%d connections, want %d", n, failures)
	}
}

// What the network does counts like what the PSP answers.
func TestEveryKindOfFailureOpensTheBreaker(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{
		"no connection":   nobodyListens(t),
		"lost connection": listen(t, func(c *net.TCPConn) { readRequest(c) }).url,
		"no answer":       listen(t, func(c *net.TCPConn) { hold(c) }).url,
		"half an answer": listen(t, func(c *net.TCPConn) {
			readRequest(c)
			write(c, strings.TrimSuffix(response(201, said), "}"))
		}).url,
		"an endless one": listen(t, func(c *net.TCPConn) {
			readRequest(c)
			write(c, "HTTP/1.1 201 Created\r\n\r\n")
			endless(c, " ")
		}).url,
		"unavailable (503)": answering(t, 503, said).URL,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, url, breaker(time.Hour), total(soon))
			for range failures {
				c.post()
			}
			notSent(t, c.post(), "breaker open")
		})
	}
}

// A PSP that says no, or says nonsense, is there.
func TestAnswersDoNotCountAgainstHealth(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		status int
		body   string
	}{
		"created": {201, said}, "malformed": {201, "{"}, "empty": {201, ""}, "payment required": {402, said},
		"bad request": {400, "{}"}, "too many": {429, "{}"}, "in use": {409, "{}"}, "mismatch": {422, "{}"},
		"redirect": {307, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := answering(t, row.status, row.body)
			c := newClient(t, s.URL, breaker(time.Hour))
			for range failures + 1 {
				if r := c.post(); r.Status != row.status || string(r.Body) != row.body {
					t.Fatalf("reply %+v", r)
				}
			}
			if !c.Ready(account) {
				t.Fatal("the breaker is open")
			}
		})
	}
}

func TestHalfOpenBreakerLetsOneThroughAndCloses(t *testing.T) {
	t.Parallel()
	g := newGated(t)
	c := newClient(t, g.url, breaker(20*time.Millisecond))
	open := func() {
		for range failures {
			failing := c.inBackground()
			await(t, "a request", g.arrived)
			g.release <- http.StatusBadGateway
			answered(t, await(t, "an outcome", failing), 502)
		}
		// It is open now, or has been and is half-open already.
		eventually(t, "the breaker's second look", func() bool { return c.Ready(account) })
	}
	open()
	probe := c.inBackground()
	await(t, "the probe", g.arrived)
	notSent(t, c.post(), "breaker open") // only one
	g.release <- http.StatusBadGateway
	answered(t, await(t, "the probe's outcome", probe), 502)
	// One failure is enough to open it again.
	eventually(t, "the breaker's third look", func() bool { return c.Ready(account) })

	probe = c.inBackground()
	await(t, "the second probe", g.arrived)
	notSent(t, c.post(), "breaker open")
	g.release <- http.StatusCreated
	answered(t, await(t, "the second probe's outcome", probe), 201)

	// Closed: as many as like to come in.
	one, two := c.inBackground(), c.inBackground()
	await(t, "one request", g.arrived)
	await(t, "two requests", g.arrived)
	g.release <- http.StatusCreated
	g.release <- http.StatusCreated
	answered(t, await(t, "one outcome", one), 201)
	answered(t, await(t, "two outcomes", two), 201)
	if n := g.requests.Load(); n != failures+4 {
		t.Fatalf("the PSP saw %d requests, want %d", n, failures+4)
	}
}

// One account's failures are its own.
func TestBreakerOfOneAccountStopsNoOther(t *testing.T) {
	t.Parallel()
	s := serving(t, func(w http.ResponseWriter, r *http.Request) {
		status := http.StatusCreated
		if r.Header.Get("Test-Account") == "globex" {
			status = http.StatusInternalServerError
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, said)
	})
	c := newClient(t, s.URL, breaker(time.Hour))
	for range failures {
		answered(t, c.post(), 201)
		answered(t, c.postOf(t.Context(), "globex"), 500)
	}
	if c.Ready("globex") || !c.Ready(account) {
		t.Fatalf("globex is ready: %t, the other: %t", c.Ready("globex"), c.Ready(account))
	}
	notSent(t, c.postOf(t.Context(), "globex"), "breaker open")
	answered(t, c.post(), 201)
}
