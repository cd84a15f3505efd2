package windows

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Config says between what the proxies stand.
type Config struct {
	DatabaseURLs map[Process]string // of each process's role
	PSPAddress   string             // host:port
	Dialect      Dialect            // that the PSP speaks there
	Dir          string             // where the proxies' sockets may be
	// Limit is how long a payment is held, and how long it may take to a window. The processes wait for longer than
	// that for each answer: see config.Shared.Hold.
	Limit time.Duration
	// PSPTimeout is how long a process waits for an answer of the PSP that is not held.
	PSPTimeout time.Duration
	// Lease reads the key's lease. EndLease has it end at another time, unless it is another lease by now, or none.
	Lease    func(ctx context.Context, key string) (Lease, error)
	EndLease func(ctx context.Context, key string, of Lease) error
	Now      func() time.Time
}

// Lease is the lease of a key. Without an ID, there is none.
type Lease struct {
	ID  string
	End time.Time
}

// Handle is what can be done to a process.
type Handle struct{ Kill, Pause, Resume func() error }

// Phase is how far a window is.
type Phase string

// The phases. A window begins as armed and ends as free.
const (
	Free   Phase = ""
	Armed  Phase = "armed"  // its payment has not come to it yet
	Held   Phase = "held"   // its payment is there
	Paused Phase = "paused" // nothing is held any more, but the process is still paused
)

// State is what people are shown.
type State struct {
	Phase  Phase
	Window Window
	Key    string
	Until  time.Time // when the phase ends by itself
	Ended  Ended     // the hold before
}

// Ended is a hold that is over.
type Ended struct {
	Window Window
	Key    string
	How    string // it has ended, as a sentence without its full stop; empty: there was none, or nobody wants to see it
	At     time.Time
}

// Stage is where a payment can be stopped. It is safe for concurrent use.
type Stage struct {
	config  Config
	proxies map[Process]proxies
	handles map[Process]Handle
	note    func(what, outcome string)

	ctx     context.Context
	end     context.CancelFunc
	running sync.WaitGroup

	mu    sync.Mutex
	now   *hold // nil while free
	ended Ended
}

// Open starts the proxies. They pass everything on until Close.
func Open(c Config) (*Stage, error) {
	parent, err := socketParent(c.Dir)
	if err != nil {
		return nil, err
	}
	s := &Stage{config: c, proxies: map[Process]proxies{}}
	s.ctx, s.end = context.WithCancel(context.Background())
	for _, who := range []Process{API, Reconciler} {
		p, err := openProxies(parent, who, c)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.proxies[who] = p
	}
	return s, nil
}

// Attach says what can be done to the processes, and who is told when a payment is held, and when it is let go by
// itself. It comes before the first Arm.
func (s *Stage) Attach(handles map[Process]Handle, note func(what, outcome string)) {
	s.handles, s.note = handles, note
}

// DatabaseURL is what a process is given in place of the database's.
func (s *Stage) DatabaseURL(who Process) string { return s.proxies[who].rows.URL() }

// PSPURL is what a process is given in place of the mock PSP's.
func (s *Stage) PSPURL(who Process) string { return s.proxies[who].calls.URL() }

// Dialect is what the PSP speaks.
func (s *Stage) Dialect() Dialect { return s.config.Dialect }

// Limit is how long a payment is held.
func (s *Stage) Limit() time.Duration { return s.config.Limit }

// State is what is armed or held at the moment.
func (s *Stage) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == nil {
		return State{Ended: s.ended}
	}
	return s.now.state
}

// Dismiss forgets the hold that has ended.
func (s *Stage) Dismiss() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = Ended{}
}

// Arm has the payment with this key stop at a window. The payment is to be sent afterwards, with the window's token.
func (s *Stage) Arm(w Window, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return errors.New("the demo is stopping")
	}
	if s.now != nil {
		return fmt.Errorf("window %s is %s, and there is one at a time", s.now.state.Window.ID, s.now.state.Phase)
	}
	s.now = newHold(w, key, s.config.Now().Add(s.config.Limit), s.seize(w.at, key))
	h := s.now
	s.running.Go(func() { s.follow(h) })
	return nil
}

// errNothingHeld refuses an action for which it is too early or too late.
var errNothingHeld = errors.New("no payment is held at the moment")

// Do does what a person has chosen, and returns when this has happened.
func (s *Stage) Do(a Action) error {
	s.mu.Lock()
	h := s.now
	held := h != nil && h.state.Phase == Held
	s.mu.Unlock()
	switch {
	case !held:
		return errNothingHeld
	case !h.state.Window.allows(a):
		return errors.New("this cannot happen at window " + h.state.Window.ID)
	}
	if a == WebhookFirst {
		h.grip.letOthers()
		return nil
	}
	return h.choose(a)
}

// Ended loses what is held of a process that is gone. A window that is only armed waits for the next process.
func (s *Stage) Ended(who Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now != nil && s.now.state.Phase != Armed && s.now.state.Window.Process() == who {
		s.now.lose()
	}
}

// Release lets everything go, and arms nothing any more. It is for the end of the demo: the payment in flight is
// finished first.
func (s *Stage) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end()
}

// Close ends the proxies.
func (s *Stage) Close() error {
	s.Release()
	s.running.Wait()
	var errs []error
	for _, p := range s.proxies {
		errs = append(errs, p.close())
	}
	return errors.Join(errs...)
}
