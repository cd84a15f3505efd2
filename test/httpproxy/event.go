package httpproxy

import (
	"context"
	"fmt"
	"sync"
)

// Action is what happens to a call.
type Action int

// The places where a call can fail.
const (
	// Pass does nothing. It is for Choose.
	Pass Action = iota
	// CutBefore closes the connection without passing the call on. It never happens.
	CutBefore
	// FailBefore answers 500 without passing the call on. It never happens.
	FailBefore
	// HoldBefore keeps the call from the service until Release.
	HoldBefore
	// CutDuring passes the call on and closes the connection at Release, however far the service is by then. The
	// service goes on.
	CutDuring
	// CutAfter passes the call on, waits for the whole answer, and closes the connection without passing that on.
	CutAfter
	// HalfAfter passes the call on and cuts the connection in the middle of the answer.
	HalfAfter
	// FailAfter passes the call on and answers 500 instead of what the service has said.
	FailAfter
	// RefuseAfter passes the call on and answers 400 instead of what the service has said.
	RefuseAfter
	// HoldAfter passes the call on and keeps the answer from the program until Release.
	HoldAfter
)

// after tells whether the service has heard of a call that meets the action.
func (a Action) after() bool { return a >= CutDuring }

// Event is an action that waits for one call.
type Event struct {
	name string
	fits func(Call) bool
	do   Action
	met  bool   // guarded by Proxy.mu
	then Action // what becomes of a call that was held; it may be read when released is closed

	reached  chan struct{}
	landed   chan struct{}
	released chan struct{}
	once     sync.Once
}

func newEvent(name string, do Action) *Event {
	return &Event{name: name, do: do, then: do, reached: make(chan struct{}), landed: make(chan struct{}),
		released: make(chan struct{})}
}

// Reached waits until the call is where the action is: cut off, failed, or held.
func (e *Event) Reached(ctx context.Context) error {
	return e.wait(ctx, e.reached, "did not come to the proxy")
}

// Landed waits until the service has answered a call that was held before it, or whose sender was cut off during it.
func (e *Event) Landed(ctx context.Context) error {
	return e.wait(ctx, e.landed, "was not answered by the service")
}

func (e *Event) wait(ctx context.Context, c <-chan struct{}, otherwise string) error {
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s %s: %w", e.name, otherwise, context.Cause(ctx))
	}
}

// Release lets go what is held, or would be.
func (e *Event) Release() { e.ReleaseAs(e.do) }

// ReleaseAs ends a hold with another action of the same side of the service: a call held before it is cut off or failed
// before it, and one held after it is cut off or failed after it.
func (e *Event) ReleaseAs(do Action) {
	if do.after() != e.do.after() {
		panic("httpproxy: what is held on one side of the service cannot fail on the other")
	}
	e.once.Do(func() {
		e.then = do
		close(e.released)
	})
}
