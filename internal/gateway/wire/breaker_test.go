package wire_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"payonce/internal/gateway"
	"payonce/internal/gateway/wire"
	"payonce/test/wait"
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
			wait.For(t, "a request", g.arrived)
			g.release <- http.StatusBadGateway
			answered(t, wait.For(t, "an outcome", failing), 502)
		}
		// It is open now, or has been and is half-open already.
		wait.Until(t, "the breaker's second look", func() bool { return c.Ready(account) })
	}
	open()
	probe := c.inBackground()
	wait.For(t, "the probe", g.arrived)
	notSent(t, c.post(), "breaker open") // only one
	g.release <- http.StatusBadGateway
	answered(t, wait.For(t, "the probe's outcome", probe), 502)
	// One failure is enough to open it again.
	wait.Until(t, "the breaker's third look", func() bool { return c.Ready(account) })

	probe = c.inBackground()
	wait.For(t, "the second probe", g.arrived)
	notSent(t, c.post(), "breaker open")
	g.release <- http.StatusCreated
	answered(t, wait.For(t, "the second probe's outcome", probe), 201)

	// Closed: as many as like to come in.
	one, two := c.inBackground(), c.inBackground()
	wait.For(t, "one request", g.arrived)
	wait.For(t, "two requests", g.arrived)
	g.release <- http.StatusCreated
	g.release <- http.StatusCreated
	answered(t, wait.For(t, "one outcome", one), 201)
	answered(t, wait.For(t, "two outcomes", two), 201)
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

// gated is a PSP that holds each request until it is let go.
type gated struct {
	url      string
	requests atomic.Int32
	arrived  chan struct{}
	release  chan int // the status to answer with
}

func newGated(t *testing.T) *gated {
	t.Helper()
	g := &gated{arrived: make(chan struct{}, 100), release: make(chan int)}
	over := make(chan struct{})
	g.url = serving(t, func(w http.ResponseWriter, _ *http.Request) {
		g.requests.Add(1)
		g.arrived <- struct{}{}
		select {
		case status := <-g.release:
			w.WriteHeader(status)
			_, _ = io.WriteString(w, said)
		case <-over:
		}
	}).URL
	t.Cleanup(func() { close(over) })
	return g
}

// inBackground sends a request that others meet on its way.
func (c *client) inBackground() <-chan wire.Reply {
	done := make(chan wire.Reply, 1)
	go func() { done <- c.post() }()
	return done
}

func TestFullBulkheadProvesThatNothingWasSent(t *testing.T) {
	t.Parallel()
	g := newGated(t)
	const queue = 50 * time.Millisecond
	c := newClient(t, g.url, func(l *gateway.Limits) { l.InFlight, l.Queue, l.BreakerFailures = 1, queue, 1 })
	first := c.inBackground()
	wait.For(t, "the first request", g.arrived)
	if n := c.InFlight(); n != 1 {
		t.Fatalf("%d requests in flight, want 1", n)
	}

	began := time.Now()
	notSent(t, c.post(), "too many requests to the PSP in flight")
	if took := time.Since(began); took < queue {
		t.Fatalf("gave up after %s, should have queued for %s", took, queue)
	}
	if n := g.requests.Load(); n != 1 {
		t.Fatalf("the PSP saw %d requests, want 1", n)
	}
	if !c.Ready(account) {
		t.Fatal("our own queue counts against the PSP's health")
	}

	g.release <- http.StatusCreated
	answered(t, wait.For(t, "the first answer", first), 201)
	second := c.inBackground()
	wait.For(t, "a request in the free place", g.arrived)
	g.release <- http.StatusCreated
	answered(t, wait.For(t, "the second answer", second), 201)
	wait.Until(t, "the last place's return", func() bool { return c.InFlight() == 0 })
}

func TestPlaceInTheQueueIsTakenWhenItFalls(t *testing.T) {
	t.Parallel()
	g := newGated(t)
	c := newClient(t, g.url, func(l *gateway.Limits) { l.InFlight, l.Queue = 1, patience })
	first := c.inBackground()
	wait.For(t, "the first request", g.arrived)
	second := c.inBackground()
	g.release <- http.StatusCreated
	answered(t, wait.For(t, "the first answer", first), 201)
	wait.For(t, "the second request", g.arrived)
	g.release <- http.StatusCreated
	answered(t, wait.For(t, "the second answer", second), 201)
}

// Nor does it speak against the PSP's health: one failure would open the breaker.
func TestRequestThatHasEndedBeforeIsNotSent(t *testing.T) {
	t.Parallel()
	g := newGated(t)
	c := newClient(t, g.url, func(l *gateway.Limits) { l.BreakerFailures = 1 })
	ctx, end := context.WithCancel(t.Context())
	end()
	notSent(t, c.postOf(ctx, account), "ended before it was sent")
	if !c.Ready(account) || g.requests.Load() != 0 {
		t.Fatalf("ready %t, the PSP saw %d requests", c.Ready(account), g.requests.Load())
	}
}

func TestRequestThatEndsInTheQueueIsNotSent(t *testing.T) {
	t.Parallel()
	g := newGated(t)
	c := newClient(t, g.url, func(l *gateway.Limits) { l.InFlight, l.Queue = 1, patience })
	first := c.inBackground()
	wait.For(t, "the first request", g.arrived)
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	notSent(t, c.postOf(ctx, account), "ended before it was sent")
	if n := g.requests.Load(); n != 1 {
		t.Fatalf("the PSP saw %d requests, want 1", n)
	}
	g.release <- http.StatusCreated
	answered(t, wait.For(t, "the first answer", first), 201)
}

// An account whose requests hang, charges and reads alike, leaves room for the others.
func TestAccountThatHangsLeavesRoomForOthers(t *testing.T) {
	t.Parallel()
	g := newGated(t)
	const share = 21 // of 64
	c := newClient(t, g.url, func(l *gateway.Limits) { l.Queue = 50 * time.Millisecond })
	replies := make(chan string, 64)
	for i := range 64 {
		go func() {
			if i%2 == 0 {
				replies <- c.postOf(t.Context(), "globex").NotSent
				return
			}
			_, err := c.readOf(t.Context(), "globex", 1<<10)
			if _, refused := errors.AsType[wire.NoPlaceError](err); refused {
				replies <- err.Error()
			} else {
				replies <- ""
			}
		}()
	}
	for range 64 - share {
		if got := wait.For(t, "a refusal", replies); got != "too many requests to the PSP in flight" {
			t.Fatalf("reply %q", got)
		}
	}
	if n := c.InFlight(); n != share {
		t.Fatalf("the account holds %d places, want %d", n, share)
	}
	for range share {
		wait.For(t, "a request that hangs", g.arrived)
	}
	good := c.inBackground()
	wait.For(t, "another account's request", g.arrived)
	for range share + 1 {
		g.release <- http.StatusCreated
	}
	answered(t, wait.For(t, "its answer", good), 201)
	for range share {
		wait.For(t, "the end of the others", replies)
	}
}
