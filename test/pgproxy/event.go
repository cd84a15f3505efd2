package pgproxy

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// patience bounds every wait. It is generous: reaching it is a failure, not a measurement.
const patience = 30 * time.Second

// Action is what happens to a round.
type Action int

// The places where a connection can fail.
const (
	// Pass does nothing. It is for Choose.
	Pass Action = iota
	// CutBefore closes the connection without passing the round on. It never happens.
	CutBefore
	// DropAcknowledgement passes the round on, waits for the whole answer, and closes the connection without passing
	// that on. What the round asked for has been committed, and the client cannot know.
	DropAcknowledgement
	// HoldBefore keeps the round from the server until Release.
	HoldBefore
	// HoldAfter passes the round on and keeps the answer from the client until Release.
	HoldAfter
)

// Event is an action that waits for its rounds.
type Event struct {
	query string
	fits  func(round []byte) bool
	do    Action
	left  int    // rounds still to be met; guarded by Proxy.mu
	of    *Event // only rounds of the sessions that this one holds, or has held; nil for any

	reached  chan struct{} // one for each round met
	landed   chan struct{} // one for each round held before that the server has answered all the same
	dropped  chan struct{} // one for each round that its session's end has taken along
	released chan struct{}
	once     sync.Once

	mu   sync.Mutex
	held []*session
}

// On has the next round in which the query is executed meet the action. Each round meets one event at most: the one
// that was asked for first.
func (p *Proxy) On(query string, do Action) *Event { return p.OnNext(1, query, do) }

// OnNext is On for the next n rounds.
func (p *Proxy) OnNext(n int, query string, do Action) *Event {
	return p.add(newEvent(n, query, do))
}

// OnWhere is On for the next round that fits, by its bytes. A parameter that is a text stands in them as it is, in the
// protocol's text format and in its binary one, also inside an array.
func (p *Proxy) OnWhere(query string, fits func(round []byte) bool, do Action) *Event {
	e := newEvent(1, query, do)
	e.fits = fits
	return p.add(e)
}

// mostHeld is how many rounds HoldWhere holds at most.
const mostHeld = 64

// HoldWhere holds each round that fits before the server, whatever its query.
func (p *Proxy) HoldWhere(fits func(round []byte) bool) *Event {
	e := newEvent(mostHeld, "", HoldBefore)
	e.fits = fits
	return p.add(e)
}

// OnSame is On for a later round of a session that another event holds, such as the commit of the transaction in which
// a statement was held.
func (p *Proxy) OnSame(held *Event, query string, do Action) *Event {
	e := newEvent(1, query, do)
	e.of = held
	return p.add(e)
}

func newEvent(n int, query string, do Action) *Event {
	return &Event{
		query: query, fits: func([]byte) bool { return true }, do: do, left: n,
		reached: make(chan struct{}, n), landed: make(chan struct{}, n), dropped: make(chan struct{}, n),
		released: make(chan struct{}),
	}
}

func (p *Proxy) add(e *Event) *Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, e)
	return e
}

// Forget lets go what the event holds, and takes it away: no round will meet it. A program that runs for long calls it
// for each of its events.
func (p *Proxy) Forget(e *Event) {
	p.mu.Lock()
	p.events = slices.DeleteFunc(p.events, func(other *Event) bool { return other == e })
	p.mu.Unlock()
	e.Release()
}

// Await waits until one more round is where the action is: cut off, or held.
func (e *Event) Await(t TB) {
	t.Helper()
	await(t, e.reached, e.query+" did not come to the proxy")
}

// Reached is Await for programs.
func (e *Event) Reached(ctx context.Context) error {
	select {
	case <-e.reached:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s did not come to the proxy: %w", e.query, context.Cause(ctx))
	}
}

// Backends are the process ids of the server's sessions that are held, by which PostgreSQL can be asked to end them.
func (e *Event) Backends() []uint32 {
	e.mu.Lock()
	defer e.mu.Unlock()
	var ids []uint32
	for _, s := range e.held {
		if id := s.backend(); id != 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

// AwaitLanding waits until one more round that was held before the server has been answered by it.
func (e *Event) AwaitLanding(t TB) {
	t.Helper()
	await(t, e.landed, e.query+" was not answered by the server")
}

// Landed waits until one more round that was held before the server has been answered by it, or has ended with its
// session: then it is false.
func (e *Event) Landed(ctx context.Context) (bool, error) {
	select {
	case <-e.landed:
		return true, nil
	case <-e.dropped:
		return false, nil
	case <-ctx.Done():
		return false, fmt.Errorf("%s was not answered by the server: %w", e.query, context.Cause(ctx))
	}
}

// holds reports whether the event holds the session, or has held it.
func (e *Event) holds(s *session) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Contains(e.held, s)
}

// Release lets go what is held, and what would be.
func (e *Event) Release() { e.once.Do(func() { close(e.released) }) }

// CutClients closes the clients' side of what is held. The server's side stays: a round held before it still lands when
// it is released, like a packet that was long under way.
func (e *Event) CutClients() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.held {
		s.left.Store(true)
		_ = s.client.Close()
	}
}

// Cut closes both sides of what is held. A round held before the server never happens.
func (e *Event) Cut() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.held {
		s.cut()
	}
}

// Dropped receives once for each round whose session has ended while the event held it.
func (e *Event) Dropped() <-chan struct{} { return e.dropped }

// hold tells the test, and waits until it lets go. It reports whether the session is still there then: what was held
// goes down with it, even when both happen at once.
func (e *Event) hold(s *session) bool {
	e.mu.Lock()
	e.held = append(e.held, s)
	e.mu.Unlock()
	e.reached <- struct{}{}
	select {
	case <-e.released:
	case <-s.done:
	}
	select {
	case <-s.done:
		e.dropped <- struct{}{}
		return false
	default:
		return true
	}
}

// TB is what the package needs of a test. It is no testing.TB: the demo links this package, and a program for people
// does not link the package testing.
type TB interface {
	Helper()
	Cleanup(do func())
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func await(t TB, c <-chan struct{}, otherwise string) {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-c:
	case <-timer.C:
		t.Fatal("pgproxy: " + otherwise)
	}
}
