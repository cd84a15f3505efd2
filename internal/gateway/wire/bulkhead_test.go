package wire_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"payonce/internal/gateway"
	"payonce/internal/gateway/wire"
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
	await(t, "the first request", g.arrived)
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
	answered(t, await(t, "the first answer", first), 201)
	second := c.inBackground()
	await(t, "a request in the free place", g.arrived)
	g.release <- http.StatusCreated
	answered(t, await(t, "the second answer", second), 201)
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
	answered(t, await(t, "the first answer", first), 201)
	await(t, "the second request", g.arrived)
	g.release <- http.StatusCreated
	answered(t, await(t, "the second answer", second), 201)
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
	await(t, "the first request", g.arrived)
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	notSent(t, c.postOf(ctx, account), "ended before it was sent")
	if n := g.requests.Load(); n != 1 {
		t.Fatalf("the PSP saw %d requests, want 1", n)
	}
	g.release <- http.StatusCreated
	answered(t, await(t, "the first answer", first), 201)
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
		if got := await(t, "a refusal", replies); got != "too many requests to the PSP in flight" {
			t.Fatalf("reply %q", got)
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
	answered(t, await(t, "its answer", good), 201)
	for range share {
		await(t, "the end of the others", replies)
	}
}
