package httpproxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"payonce/test/heldport"
)

// Options say what a proxy stands before.
type Options struct {
	// Upstream gives the service's host:port. It is asked for each call, so that one proxy can stand before several
	// services that take turns. An empty one means that there is none at the moment: the connection is closed.
	Upstream func() string
	// Name says what a call is called. Calls without a name pass.
	Name func(*http.Request) string
	// Patience, if given, ends a call that meets no event, when no answer has begun after that time.
	Patience time.Duration
	// Arrived, if given, sees each call before anything else happens to it.
	Arrived func(Call)
}

// Call is a request as it has arrived.
type Call struct {
	Name   string
	Path   string
	Query  url.Values
	Header http.Header
	Body   []byte
}

// Proxy forwards calls. It is safe for concurrent use.
type Proxy struct {
	options Options
	port    *heldport.Port
	address string
	client  *http.Client
	over    context.Context // ends what is held
	end     context.CancelFunc

	mu       sync.Mutex
	server   *http.Server // nil while down
	events   []*Event     // in the order in which they were asked for
	choose   func(Call) Action
	seen     map[string]int
	inFlight sync.WaitGroup
}

// Bounds of what passes.
const (
	maxBody  = 1 << 20          // bytes of a call, and of an answer that meets an event
	landTime = 30 * time.Second // for a call whose sender is gone
)

// Open listens on a free port of loopback until Close. The port is held also while the proxy is down: else it could be
// given to anybody in between.
func Open(o Options) (*Proxy, error) {
	port, err := heldport.Hold()
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		options: o, port: port, address: port.Address, seen: map[string]int{},
		client: &http.Client{
			Transport:     &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	p.options.Patience = cmp.Or(p.options.Patience, math.MaxInt64)
	p.over, p.end = context.WithCancel(context.Background())
	return p, p.Restore()
}

// Address is the host:port of the proxy. It stays the same while it is down.
func (p *Proxy) Address() string { return p.address }

// URL is how to reach the service through the proxy.
func (p *Proxy) URL() string { return "http://" + p.address }

// Down refuses connections, and cuts off those that there are. The service works off what has reached it.
func (p *Proxy) Down() {
	p.mu.Lock()
	server := p.server
	p.server = nil
	p.mu.Unlock()
	if server != nil {
		_ = server.Close()
	}
}

// Restore accepts connections again.
func (p *Proxy) Restore() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server != nil {
		return nil
	}
	l, err := (&net.ListenConfig{}).Listen(p.over, "tcp", p.address)
	if err != nil {
		return fmt.Errorf("listen before the service: %w", err)
	}
	p.server = &http.Server{Handler: http.HandlerFunc(p.serve), ReadHeaderTimeout: landTime}
	go func(s *http.Server) { _ = s.Serve(l) }(p.server)
	return nil
}

// Close ends everything, also what is held.
func (p *Proxy) Close() {
	p.Down()
	p.end()
	p.inFlight.Wait()
	p.client.CloseIdleConnections()
	p.port.Close()
}

// On has the next call of that name meet the action. Each call meets one event at most: the one that was asked for
// first.
func (p *Proxy) On(name string, do Action) *Event {
	return p.OnWhere(name, func(Call) bool { return true }, do)
}

// OnWhere is On for the next call of that name that fits.
func (p *Proxy) OnWhere(name string, fits func(Call) bool, do Action) *Event {
	e := newEvent(name, do)
	e.fits = fits
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, e)
	return e
}

// Forget lets go what the event holds, and takes it away: no call will meet it. A program that runs for long calls it
// for each of its events.
func (p *Proxy) Forget(e *Event) {
	p.mu.Lock()
	p.events = slices.DeleteFunc(p.events, func(other *Event) bool { return other == e })
	p.mu.Unlock()
	e.Release()
}

// Choose has fn say what happens to each call that meets no event, for runs that fail at random. It may not hold:
// nobody would release.
func (p *Proxy) Choose(fn func(Call) Action) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.choose = fn
}

// Seen counts the calls of that name so far.
func (p *Proxy) Seen(name string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[name]
}

// meet counts a call, and gives the event that it meets, if any.
func (p *Proxy) meet(c Call) *Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen[c.Name]++
	if c.Name == "" {
		return nil
	}
	for _, e := range p.events {
		if !e.met && e.name == c.Name && e.fits(c) {
			e.met = true
			return e
		}
	}
	if p.choose == nil {
		return nil
	}
	switch do := p.choose(c); do {
	case CutBefore, FailBefore, CutAfter, HalfAfter, FailAfter, RefuseAfter:
		return newEvent(c.Name, do)
	case Pass, HoldBefore, CutDuring, HoldAfter:
	}
	return nil
}

// errNoService is for a call that comes while there is none.
var errNoService = errors.New("there is no service to pass the call on to")
