package mockpsp

import (
	"errors"
	"slices"
	"sync"
	"time"
)

// promiseLate records that the draft will land LateDelay from now. The promise is durable when it returns.
func (s *Server) promiseLate(draft *record) error {
	draft.DueAt = s.config.Now().Add(s.config.LateDelay).UTC()
	if err := s.ledger.write(draft); err != nil {
		return err
	}
	s.late.Start(s.config.LateDelay, func() { s.landLate(draft) })
	return nil
}

// landLate keeps a promise. When the ledger cannot be written, the promise stays in it for the next start.
func (s *Server) landLate(promise *record) {
	landing := *promise
	landing.DueAt = time.Time{}
	if err := s.ledger.write(&landing); err != nil {
		s.config.Log.Error("late entry could not be written", "error", err)
		return
	}
	s.expect(&landing)() // its call has ended long ago
}

// next returns the draft of what happens to the entry by itself: its next version, or a dispute about it; or nil.
func (r *record) next() *record {
	does := behaviours[r.Fault]
	switch {
	case r.kind() == "charge.succeeded" && does.disputed:
		return disputeOf(r, StatusNeedsResponse, r.Fault)
	case r.kind() == "refund.pending":
		return r.changed(StatusSucceeded)
	case r.kind() == "refund.succeeded" && does.returned:
		return r.changed(StatusFailed)
	case r.kind() == "dispute.needs_response" && does.decided == StatusWon:
		return r.changed(StatusUnderReview)
	case r.Entry.Object == ObjectDispute && slices.Contains(changes[r.kind()], does.decided):
		return r.changed(does.decided)
	}
	return nil
}

// changed returns the draft of the next version.
func (r *record) changed(becomes string) *record {
	return &record{Entry: entry{ID: r.Entry.ID}, becomes: becomes}
}

// follow starts the clock of what happens to the entry by itself, LateDelay after the entry was written.
func (s *Server) follow(r *record) {
	next := r.next()
	if next == nil {
		return
	}
	written, _ := time.Parse(timeLayout, r.at()) // as we have written it
	s.late.Start(written.Add(s.config.LateDelay).Sub(s.config.Now()), func() {
		err := s.ledger.write(next)
		if _, refused := errors.AsType[apiError](err); refused {
			return // somebody has done something else by hand
		}
		if err != nil {
			s.config.Log.Error("what follows on an entry could not be written", "error", err)
			return
		}
		s.expect(next)()
	})
}

// unfinished returns the entries to which something happens by itself.
func (l *ledger) unfinished() (unfinished []*record) {
	disputed := map[string]bool{}
	for _, r := range slices.Backward(l.snapshot()) {
		if r.Entry.Object == ObjectDispute {
			disputed[r.Entry.ChargeID] = true
		}
		if !r.dialect && !disputed[r.Entry.ID] && r.next() != nil {
			unfinished = append(unfinished, r)
		}
	}
	return unfinished
}

// lacks reports whether the account's books, its lists and settlement files, do not have the entry yet. It is booked
// some time after it was made, as in an eventually consistent list of a real provider, and comes up behind the place
// that a reader of the list has reached. The answer follows from the entry and the clock, so a restart changes nothing.
//
// A lookup by id or by key finds the entry at once. If it did not, "not found" after the grace period would prove
// nothing, and nobody could ever know that a movement was not executed.
func (l *ledger) lacks(r *record) bool {
	if does := behaviours[r.Fault]; !does.bookedLate {
		return false
	}
	return r.Entry.CreatedAt > l.now().UTC().Add(-l.late).Format(timeLayout)
}

// Due counts the late charges and refunds that have not landed yet, and what is still to happen to entries by itself. A
// test that waits until it is 0 has seen all of them, but for what is booked late: nothing happens to that.
func (s *Server) Due() int { return s.late.Len() }

// Timers run what is due later: late charges, webhooks, and what happens by itself in another dialect. The zero value
// is ready.
type Timers struct {
	mu      sync.Mutex
	stopped bool
	waiting map[*time.Timer]bool // also while it runs
	running sync.WaitGroup
}

// Start runs do after the wait, at once when that is over. After Stop it does nothing.
func (t *Timers) Start(wait time.Duration, do func()) *time.Timer {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return nil
	}
	if t.waiting == nil {
		t.waiting = map[*time.Timer]bool{}
	}
	t.running.Add(1)
	var timer *time.Timer
	timer = time.AfterFunc(wait, func() {
		defer t.running.Done()
		do()
		t.mu.Lock()
		delete(t.waiting, timer)
		t.mu.Unlock()
	})
	t.waiting[timer] = true
	return timer
}

// Len counts what has not been done to its end.
func (t *Timers) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.waiting)
}

// Stop ends the timers and waits for what they have begun.
func (t *Timers) Stop() {
	t.mu.Lock()
	t.stopped = true
	for timer := range t.waiting {
		if timer.Stop() {
			t.running.Done()
		}
	}
	clear(t.waiting)
	t.mu.Unlock()
	t.running.Wait()
}
