package controls

import (
	"slices"
	"sync"
	"time"
)

// maxTold is how many lines the log keeps.
const maxTold = 50

// line is what a button did, and what came of it.
type line struct {
	At      time.Time
	What    string
	Payment payment // of a line about a payment; its key is empty for all others
	Answer  string
	Waits   bool
	Status  int  // of the answer; 0: there was none
	Lost    bool // the connection has ended before the answer
}

// story is what the client has sent with its newest key, and what it was told.
type story struct {
	Key     string
	First   time.Time // when it was sent for the first time
	Sent    int       // how often the same request was sent
	Waiting bool      // the newest of these has no answer yet
	Status  int       // of the newest answer
	Lost    bool      // an answer was lost with the process
}

// told is the log of what the client was told, bounded.
type told struct {
	now func() time.Time

	mu    sync.Mutex
	lines []*line // oldest first
}

// begin adds a line that has no answer yet.
func (t *told) begin(what string, p payment) *line {
	return t.add(&line{What: what, Payment: p, Answer: "waiting for the answer", Waits: true})
}

// note adds a line that needs no answer.
func (t *told) note(what, answer string) { t.add(&line{What: what, Answer: answer}) }

func (t *told) add(l *line) *line {
	t.mu.Lock()
	defer t.mu.Unlock()
	l.At = t.now()
	if len(t.lines) == maxTold {
		t.lines = slices.Delete(t.lines, 0, 1)
	}
	t.lines = append(t.lines, l)
	return l
}

// finish adds the answer to a line.
func (t *told) finish(l *line, a answer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l.Answer, l.Waits, l.Status, l.Lost = a.Text, false, a.Status, a.Lost
}

// newestFirst is the log as the page shows it.
func (t *told) newestFirst() (lines []line) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range slices.Backward(t.lines) {
		lines = append(lines, *l)
	}
	return lines
}

// first is the first payment that was sent with a key, if the log still has it.
func (t *told) first(key string) (payment, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.lines {
		if l.Payment.Key == key {
			return l.Payment, true
		}
	}
	return payment{}, false
}

// story tells what has happened to the newest key. Another request with it, such as another amount, does not count.
func (t *told) story() story {
	s := story{Key: t.latestKey()}
	first, known := t.first(s.Key)
	if s.Key == "" || !known {
		return s
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.lines {
		if l.Payment != first {
			continue
		}
		if s.Sent++; s.Sent == 1 {
			s.First = l.At
		}
		s.Waiting, s.Lost = l.Waits, s.Lost || l.Lost
		if !l.Waits {
			s.Status = l.Status
		}
	}
	return s
}

// latestKey is the key of the newest payment, or empty.
func (t *told) latestKey() string {
	for _, l := range t.newestFirst() {
		if l.Payment.Key != "" {
			return l.Payment.Key
		}
	}
	return ""
}
