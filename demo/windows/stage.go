package windows

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"payonce/test/httpproxy"
	"payonce/test/pgproxy"
)

// Config says between what the proxies stand.
type Config struct {
	DatabaseURL string        // of the API's role
	PSPAddress  string        // host:port
	Dir         string        // where the proxy's socket may be
	Limit       time.Duration // how long a window stays armed, and how long a payment is held there
	Now         func() time.Time
}

// API is the process whose payments are stopped.
type API struct{ Kill, Pause, Resume func() error }

// Watcher is told what happens by itself.
type Watcher struct {
	Changed func()                     // called after each change of the state
	Note    func(what, outcome string) // called when a payment is held, and when it is let go by itself
}

// Phase is how far a window is.
type Phase string

// The phases. A window begins as armed and ends as free.
const (
	Free   Phase = ""
	Armed  Phase = "armed"  // its payment has not come to it yet
	Held   Phase = "held"   // its payment is there
	Paused Phase = "paused" // nothing is held any more, but the API is still paused
)

// State is what people are shown.
type State struct {
	Phase  Phase
	Window Window
	Key    string
	Until  time.Time // when the phase ends by itself
}

// Stage is where a payment can be stopped. It is safe for concurrent use.
type Stage struct {
	config Config
	rows   *pgproxy.Proxy
	calls  *httpproxy.Proxy
	api    API
	watch  Watcher

	ctx     context.Context
	end     context.CancelFunc
	running sync.WaitGroup

	mu  sync.Mutex
	now *hold // nil while free
}

// Open starts the proxies. They pass everything on until Close.
func Open(c Config) (*Stage, error) {
	parent, err := socketParent(c.Dir)
	if err != nil {
		return nil, err
	}
	s := &Stage{config: c}
	if s.rows, err = pgproxy.OpenIn(parent, c.DatabaseURL); err != nil {
		return nil, fmt.Errorf("stand before the database: %w", err)
	}
	// With a choice, the proxy does not remember each round: the demo may run for days.
	s.rows.Choose(func([]string) pgproxy.Action { return pgproxy.Pass })
	s.calls, err = httpproxy.Open(httpproxy.Options{
		Upstream: func() string { return c.PSPAddress }, Name: nameOfCall,
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("stand before the PSP: %w", err), s.rows.Close())
	}
	s.ctx, s.end = context.WithCancel(context.Background())
	return s, nil
}

// maxSocketPath is what every system accepts as the path of a socket.
const maxSocketPath = 103

// socketParent is dir, without what a killed demo has left there; or the system's folder for temporary files, if a
// socket's path in dir would be too long.
func socketParent(dir string) (string, error) {
	left, err := filepath.Glob(filepath.Join(dir, "pgproxy-*"))
	for _, path := range left {
		err = errors.Join(err, os.RemoveAll(path))
	}
	if len(filepath.Join(dir, "pgproxy-0123456789", ".s.PGSQL.5432")) > maxSocketPath {
		dir = ""
	}
	return dir, err
}

// Attach says which process is stopped, and who is told. It comes before the first Arm.
func (s *Stage) Attach(api API, w Watcher) { s.api, s.watch = api, w }

// DatabaseURL and PSPURL are what the API is given in place of the real ones.
func (s *Stage) DatabaseURL() string { return s.rows.URL() }

// PSPURL is the mock PSP's address, through the proxy.
func (s *Stage) PSPURL() string { return s.calls.URL() }

// Limit is how long a window stays armed, and how long a payment is held there.
func (s *Stage) Limit() time.Duration { return s.config.Limit }

// State is what is armed or held at the moment.
func (s *Stage) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == nil {
		return State{}
	}
	return s.now.state
}

// ErrNoWindow refuses a number that no window has.
var ErrNoWindow = errors.New("there is no such window")

// Arm has the payment with this key stop at a window. The payment is to be sent afterwards.
func (s *Stage) Arm(id, key string) error {
	all := Windows()
	i := slices.IndexFunc(all, func(w Window) bool { return w.ID == id })
	if i < 0 {
		return ErrNoWindow
	}
	if err := s.arm(all[i], key); err != nil {
		return err
	}
	s.watch.Changed()
	return nil
}

func (s *Stage) arm(w Window, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return errors.New("the demo is stopping")
	}
	if s.now != nil {
		return fmt.Errorf("window %s is %s, and there is one at a time", s.now.state.Window.ID, s.now.state.Phase)
	}
	s.now = newHold(w, key, s.config.Now().Add(s.config.Limit), seize(w.at, key, s.rows, s.calls))
	h := s.now
	s.running.Go(func() { s.follow(h) })
	return nil
}

// errNothingHeld refuses an action for which it is too early or too late.
var errNothingHeld = errors.New("no payment is held at the moment")

// Do ends the hold by an action, and returns when this has happened.
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
	return h.choose(a)
}

// APIEnded loses what is held: it was a message of a process that is gone.
func (s *Stage) APIEnded() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now != nil && s.now.state.Phase != Armed {
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
	s.calls.Close()
	return s.rows.Close()
}
