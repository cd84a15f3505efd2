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
		grip: g, state: State{Armed, w, key, until},
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
	defer s.free(h)
	what := "window " + h.state.Window.ID
	ctx, cancel := context.WithTimeout(s.ctx, s.Within(h.state.Window.Process()))
	err := h.grip.reached(ctx)
	cancel()
	if err != nil {
		if s.ctx.Err() == nil {
			s.note(what, "its payment has not come to it; the window is not armed any more")
		}
		return
	}
	s.enter(h, Held, s.config.Limit)
	s.note(what, "held: "+h.state.Window.Place)
	limit := time.NewTimer(s.config.Limit)
	defer limit.Stop()
	select {
	case c := <-h.chosen:
		s.act(h, c)
	case <-limit.C:
		s.note(what, "let go by itself, after "+s.config.Limit.String())
	case <-h.lost:
		h.grip.cut()
		s.note(what, "the "+string(h.state.Window.Process())+" has ended, and what was held is lost with it")
	case <-h.grip.dropped():
		s.note(what, "the connection has ended, and what was held is lost with it")
	case <-s.ctx.Done():
	}
}

// act does what a person has chosen.
func (s *Stage) act(h *hold, c choice) {
	switch c.action {
	case GoOn:
		h.grip.goOn()
	case Cut, LoseAcknowledgement:
		h.grip.cut()
	case PSPFails:
		h.grip.fail()
	case Kill:
		c.done <- s.kill(h)
		return
	case Pause:
		s.pause(h, c)
		return
	}
	c.done <- nil
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
		h.grip.cut()
		return nil
	case <-timer.C:
		return fmt.Errorf("the %s has not ended", h.state.Window.Process())
	}
}

// handleOf is the process whose message is held.
func (s *Stage) handleOf(h *hold) Handle { return s.handles[h.state.Window.Process()] }

// pause stops the process, lets the message go on, and wakes the process up after a while. Nobody waits for the end of
// that.
func (s *Stage) pause(h *hold, c choice) {
	if err := s.handleOf(h).Pause(); err != nil {
		c.done <- err
		return
	}
	s.await(h, stopsWithin)
	h.grip.goOn()
	s.enter(h, Paused, pauseFor)
	c.done <- nil
	s.await(h, pauseFor)
	_ = s.handleOf(h).Resume() // a process that has ended needs none
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

// enter begins a phase that ends by itself after the limit.
func (s *Stage) enter(h *hold, p Phase, limit time.Duration) {
	s.mu.Lock()
	h.state.Phase, h.state.Until = p, s.config.Now().Add(limit)
	s.mu.Unlock()
}

// free lets go what is still held, and makes room for the next window.
func (s *Stage) free(h *hold) {
	h.grip.forget()
	s.mu.Lock()
	s.now = nil
	s.mu.Unlock()
	close(h.over)
}
