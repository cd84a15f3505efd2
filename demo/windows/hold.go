package windows

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// pauseFor is how long a process is paused. The page says so, too.
	pauseFor = 5 * time.Second
	// stopsWithin is what the system may need to stop every thread of a process.
	stopsWithin = 50 * time.Millisecond
	// diesWithin is what it may need to end it.
	diesWithin = 10 * time.Second
)

// hold is one payment that is stopped at a window.
type hold struct {
	grip   *grip
	state  State // guarded by Stage.mu; its Window and Key never change
	chosen chan choice
	lost   chan struct{} // closed when the process has ended
	once   sync.Once
	over   chan struct{} // closed at the end
}

// choice is an action, and who waits for it.
type choice struct {
	action Action
	done   chan error
}

func newHold(w Window, key string, until time.Time, g *grip) *hold {
	return &hold{
		grip: g, state: State{Phase: Armed, Window: w, Key: key, Until: until},
		chosen: make(chan choice, 1), lost: make(chan struct{}), over: make(chan struct{}),
	}
}

func (h *hold) lose() { h.once.Do(func() { close(h.lost) }) }

// choose asks for an action. The first one counts. When it returns, the next window can be armed, unless the process
// is paused.
func (h *hold) choose(a Action) error {
	c := choice{a, make(chan error, 1)}
	select {
	case h.chosen <- c:
	default:
		return errNothingHeld
	}
	select {
	case err := <-c.done:
		if a != Pause {
			<-h.over
		}
		return err
	case <-h.over:
	}
	select {
	case err := <-c.done:
		return err
	default:
		return errNothingHeld // something else has ended the hold at the same moment
	}
}

// follow waits for the payment at the window, and for what ends the hold.
func (s *Stage) follow(h *hold) {
	ctx, cancel := context.WithTimeout(s.ctx, s.config.Limit)
	err := h.grip.reached(ctx)
	cancel()
	ended := Ended{Window: h.state.Window, Key: h.state.Key, At: s.config.Now()}
	if err != nil {
		ended.How = "no payment has come here within " + s.limitInWords()
		s.tell(ended.Window, ended.How)
	} else {
		h.grip.keepOthersAway(s.proxies[Reconciler].rows, h.state.Key)
		ended.How, ended.At = s.holdUntil(h, s.config.Now().Add(s.config.Limit))
	}
	s.free(h, ended)
}

// tell notes what nobody has chosen, unless the demo is stopping.
func (s *Stage) tell(w Window, what string) {
	if s.ctx.Err() == nil {
		s.note("window "+w.ID, what)
	}
}

// holdUntil holds the payment, and says how and when the hold has ended.
func (s *Stage) holdUntil(h *hold, until time.Time) (how string, at time.Time) {
	w := h.state.Window
	// First of all: from here on, the end of the process ends the hold.
	s.enter(h, Held, until)
	s.tell(w, "held: "+w.Place)
	takeBack := s.lend(h, until)
	defer takeBack()
	limit := time.NewTimer(until.Sub(s.config.Now()))
	defer limit.Stop()
	select {
	case c := <-h.chosen:
		takeBack() // What is chosen, such as a pause, takes its own time.
		at = s.config.Now()
		return s.act(h, c), at
	case <-limit.C:
		how = "it went on by itself after " + s.limitInWords()
	case <-h.lost:
		h.grip.die()
		how = "the " + string(w.Process()) + " has ended, and what was held is lost with it"
	case <-h.grip.dropped():
		how = "the connection has ended, and what was held is lost with it"
	case <-s.ctx.Done():
	}
	s.tell(w, how)
	return how, s.config.Now()
}

func (s *Stage) limitInWords() string { return fmt.Sprintf("%g seconds", s.config.Limit.Seconds()) }

// The limits of what is done to a lease. The database may be on its way back from a crash.
const (
	leaseLimit = 2 * time.Second // one statement
	backLimit  = 10 * time.Second
	backPause  = 200 * time.Millisecond // between two tries
)

// lend makes the lease of a payment that is held longer, so that it does not end meanwhile. The function that it
// returns takes back what was not needed. It must know how long the lease was: an UPDATE without an answer may have
// been done.
func (s *Stage) lend(h *hold, until time.Time) (takeBack func()) {
	if h.state.Window.Process() != API {
		return func() {} // The key is unknown, or completed: there is no lease.
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), leaseLimit)
	defer cancel()
	own, err := s.config.Lease(ctx, h.state.Key)
	if err == nil && own.ID != "" {
		err = s.extend(h, own, s.config.Limit)
	}
	if err != nil {
		s.tell(h.state.Window, "the lease may end meanwhile: the database has not answered")
	}
	return sync.OnceFunc(func() {
		if own.ID != "" && until.After(s.config.Now()) {
			s.takeBack(h, own, until)
		}
	})
}

// extend has a lease end later than it would without the hold.
func (s *Stage) extend(h *hold, own Lease, by time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), leaseLimit)
	defer cancel()
	return s.config.EndLease(ctx, h.state.Key, Lease{own.ID, own.End.Add(by)})
}

// takeBack tries until the lease is longer by no more than the time of the hold.
func (s *Stage) takeBack(h *hold, own Lease, until time.Time) {
	giveUp := time.NewTimer(backLimit)
	defer giveUp.Stop()
	again := time.NewTicker(backPause)
	defer again.Stop()
	for {
		if s.extend(h, own, s.config.Limit-max(0, until.Sub(s.config.Now()))) == nil {
			return
		}
		select {
		case <-again.C:
			continue
		case <-giveUp.C:
		case <-s.ctx.Done():
		}
		s.tell(h.state.Window, "the lease may be longer than the hold was, until "+
			own.End.Add(s.config.Limit).UTC().Format(time.TimeOnly)+" (UTC): the database has not answered")
		return
	}
}

// act does what a person has chosen, and says what that is.
func (s *Stage) act(h *hold, c choice) (how string) {
	who := "the " + string(h.state.Window.Process())
	switch c.action {
	case GoOn:
		h.grip.goOn()
		how = "you let it go on"
	case Cut:
		h.grip.cut()
		how = "you cut the connection"
	case LoseAcknowledgement:
		h.grip.cut()
		how = "the acknowledgement was lost"
	case PSPFails:
		h.grip.fail()
		how = who + " was told 500"
	case Kill:
		err := s.kill(h)
		c.done <- err
		if err != nil {
			return who + " could not be killed, and the payment went on"
		}
		return who + " was killed"
	case Pause:
		return who + s.pause(h, c)
	}
	c.done <- nil
	return how
}

// kill ends the process, and then the connection. The other order would be a connection that breaks while its process
// lives.
func (s *Stage) kill(h *hold) error {
	if err := s.handleOf(h).Kill(); err != nil {
		return err
	}
	timer := time.NewTimer(diesWithin)
	defer timer.Stop()
	select {
	case <-h.lost:
		h.grip.die()
		return nil
	case <-timer.C:
		return fmt.Errorf("the %s has not ended", h.state.Window.Process())
	}
}

// handleOf is the process whose message is held.
func (s *Stage) handleOf(h *hold) Handle { return s.handles[h.state.Window.Process()] }

// pause stops the process, lets the message go on, and wakes the process up after a while. Nobody waits for the end of
// that. It says what became of the process.
func (s *Stage) pause(h *hold, c choice) (how string) {
	if err := s.handleOf(h).Pause(); err != nil {
		c.done <- err
		return " could not be paused, and the payment went on"
	}
	s.await(h, stopsWithin)
	h.grip.goOn()
	s.enter(h, Paused, s.config.Now().Add(pauseFor))
	c.done <- nil
	s.await(h, pauseFor)
	_ = s.handleOf(h).Resume() // a process that has ended needs none
	select {
	case <-h.lost:
		return " was paused, and has ended in the pause"
	default:
		return " was paused for 5 seconds"
	}
}

// await lets time pass, unless the process or the demo ends.
func (s *Stage) await(h *hold, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-h.lost:
	case <-s.ctx.Done():
	}
}

// enter begins a phase that ends by itself.
func (s *Stage) enter(h *hold, p Phase, until time.Time) {
	s.mu.Lock()
	h.state.Phase, h.state.Until = p, until
	s.mu.Unlock()
}

// free lets go what is still held, and makes room for the next window.
func (s *Stage) free(h *hold, e Ended) {
	h.grip.forget()
	s.mu.Lock()
	s.now, s.ended = nil, e
	s.mu.Unlock()
	close(h.over)
}
