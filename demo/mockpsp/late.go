package mockpsp

import (
	"sync"
	"time"
)

// promiseLate records that the draft will land LateDelay from now. The promise is durable when it returns.
func (s *Server) promiseLate(draft *record) error {
	draft.DueAt = s.config.Now().Add(s.config.LateDelay).UTC()
	if err := s.ledger.write(draft); err != nil {
		return err
	}
	s.late.schedule(draft, s.config.LateDelay)
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
	s.webhooks.release(s.expect(&landing)) // its call has ended long ago
}

// lateLandings are the timers of promised entries, also while they land. The ledger bounds their number.
type lateLandings struct {
	land func(*record)

	mu      sync.Mutex
	stopped bool
	timers  map[*record]*time.Timer
	running sync.WaitGroup
}

func newLateLandings(land func(*record)) *lateLandings {
	return &lateLandings{land: land, timers: map[*record]*time.Timer{}}
}

// schedule lands the promise after wait, at once when that is over. After stop it does nothing.
func (l *lateLandings) schedule(promise *record, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return
	}
	l.running.Add(1)
	l.timers[promise] = time.AfterFunc(wait, func() {
		defer l.running.Done()
		l.land(promise)
		l.mu.Lock()
		delete(l.timers, promise)
		l.mu.Unlock()
	})
}

// Due counts the late charges and refunds that have not landed yet. A test that waits until it is 0 has seen all of
// them.
func (s *Server) Due() int {
	s.late.mu.Lock()
	defer s.late.mu.Unlock()
	return len(s.late.timers)
}

// stop ends the timers and waits for the landings that had begun.
func (l *lateLandings) stop() {
	l.mu.Lock()
	l.stopped = true
	for _, timer := range l.timers {
		if timer.Stop() {
			l.running.Done()
		}
	}
	clear(l.timers)
	l.mu.Unlock()
	l.running.Wait()
}
