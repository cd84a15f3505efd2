package gateway_test

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"payonce/internal/gateway"
)

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
			_, _ = io.WriteString(w, charged)
		case <-over:
		}
	}).URL
	t.Cleanup(func() { close(over) })
	return g
}

// inBackground sends a charge that others meet on its way.
func (c *client) inBackground() <-chan gateway.Outcome {
	done := make(chan gateway.Outcome, 1)
	go func() { done <- c.charge() }()
	return done
}

func succeeded(t *testing.T, o gateway.Outcome) {
	t.Helper()
	if o != (gateway.Succeeded{ID: "ch_1"}) {
		t.Fatalf("outcome %T %+v", o, o)
	}
}

func TestFullBulkheadProvesNonExecution(t *testing.T) {
	t.Parallel()
	g := newGated(t)
	const queue = 50 * time.Millisecond
	c := newClient(t, g.url, func(l *gateway.Limits) { l.InFlight, l.Queue, l.BreakerFailures = 1, queue, 1 })
	first := c.inBackground()
	await(t, "the first request", g.arrived)
	if n := c.InFlight(); n != 1 {
		t.Fatalf("%d requests in flight, want 1", n)
	}

	began := time.Now()
	notExecuted(t, c.charge(), "too many requests to the PSP in flight")
	if took := time.Since(began); took < queue {
		t.Fatalf("gave up after %s, should have queued for %s", took, queue)
	}
	if n := g.requests.Load(); n != 1 {
		t.Fatalf("the PSP saw %d requests, want 1", n)
	}
	if !c.Ready("canary-account") {
		t.Fatal("our own queue counts against the PSP's health")
	}

	g.release <- http.StatusCreated
	succeeded(t, await(t, "the first answer", first))
	second := c.inBackground()
	await(t, "a request in the free place", g.arrived)
	g.release <- http.StatusCreated
	succeeded(t, await(t, "the second answer", second))
	eventually(t, "the last place's return", func() bool { return c.InFlight() == 0 })
}

func TestPlaceInTheQueueIsTakenWhenItFalls(t *testing.T) {
	t.Parallel()
	g := newGated(t)
	c := newClient(t, g.url, func(l *gateway.Limits) { l.InFlight, l.Queue = 1, patience })
	first := c.inBackground()
	await(t, "the first request", g.arrived)
	second := c.inBackground()
	g.release <- http.StatusCreated
	succeeded(t, await(t, "the first answer", first))
	await(t, "the second request", g.arrived)
	g.release <- http.StatusCreated
	succeeded(t, await(t, "the second answer", second))
}

// Nor does it speak against the PSP's health: one failure would open the breaker.
func TestRequestThatHasEndedBeforeIsNotSent(t *testing.T) {
	t.Parallel()
	g := newGated(t)
	c := newClient(t, g.url, func(l *gateway.Limits) { l.BreakerFailures = 1 })
	ctx, end := context.WithCancel(t.Context())
	end()
	notExecuted(t, c.checked(c.Charge(ctx, aCharge())), "ended before it was sent")
	if !c.Ready("canary-account") || g.requests.Load() != 0 {
		t.Fatalf("ready %t, the PSP saw %d requests", c.Ready("canary-account"), g.requests.Load())
	}
}

func TestRequestThatEndsInTheQueueWasNotExecuted(t *testing.T) {
	t.Parallel()
	g := newGated(t)
	c := newClient(t, g.url, func(l *gateway.Limits) { l.InFlight, l.Queue = 1, patience })
	first := c.inBackground()
	await(t, "the first request", g.arrived)
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	notExecuted(t, c.checked(c.Charge(ctx, aCharge())), "ended before it was sent")
	if n := g.requests.Load(); n != 1 {
		t.Fatalf("the PSP saw %d requests, want 1", n)
	}
	g.release <- http.StatusCreated
	succeeded(t, await(t, "the first answer", first))
}

// An account whose requests hang, charges and reads alike, leaves room for the others.
func TestAccountThatHangsLeavesRoomForOthers(t *testing.T) {
	t.Parallel()
	g := newGated(t)
	const share = 21 // of 64
	c := newClient(t, g.url, func(l *gateway.Limits) { l.Queue = 50 * time.Millisecond })
	bad := aCharge()
	bad.Account = "globex"
	outcomes := make(chan string, 64)
	for i := range 64 {
		go func() {
			if i%2 == 0 {
				outcomes <- c.Charge(t.Context(), bad).Label()
			} else {
				outcomes <- c.Lookup(t.Context(), gateway.ChargeObject, bad.Account, bad.Key).Label()
			}
		}()
	}
	for range 64 - share {
		if got := await(t, "a refusal", outcomes); got != "not_executed" && got != "lookup_failed" {
			t.Fatalf("outcome %s", got)
		}
	}
	if n := c.InFlight(); n != share {
		t.Fatalf("the account holds %d places, want %d", n, share)
	}
	for range share {
		await(t, "a request that hangs", g.arrived)
	}
	good := c.inBackground()
	await(t, "another account's request", g.arrived)
	for range share + 1 {
		g.release <- http.StatusCreated
	}
	succeeded(t, await(t, "its answer", good))
	for range share {
		await(t, "the end of the others", outcomes)
	}
}
