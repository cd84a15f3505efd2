package history

import (
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/anishathalye/porcupine"
)

// phase of a key, see doc.go.
type phase int

const (
	unusedPhase phase = iota
	runningPhase
	idlePhase
	finalPhase
)

func (p phase) String() string { return [...]string{"unused", "running", "idle", "final"}[p] }

// Who may have reached the PSP for the key so far: nobody, one request by its index from 1, or several.
const (
	nobody  = 0
	several = -1
)

// state is all that the model remembers of a key. It is compared by ==.
type state struct {
	phase   phase
	intent  string
	subject string // "" until an answer has named it
	final   string
	sender  int
	// firstTook: the request that is told to be the first has taken the key. firstTold: it has been told so.
	firstTook, firstTold bool
	// pool is who has arrived and may still take the key: a character for each, in order.
	pool string
}

// event is what happens at one instant.
type event struct {
	arrives bool // or is answered
	request *reading
}

// modelOf is the model for one key's history. Readings are found by their index.
func modelOf(requests []*reading) porcupine.Model {
	m := model{requests}
	n := porcupine.NondeterministicModel{
		Init: func() []any { return []any{state{}} },
		Step: func(s, input, _ any) []any {
			var next []any
			for _, t := range m.step(s.(state), input.(event)) {
				next = append(next, t)
			}
			return next
		},
		Hash:              func(s any) uint64 { return s.(state).hash() },
		DescribeOperation: func(input, _ any) string { return input.(event).String() },
		DescribeState:     func(s any) string { return s.(state).String() },
	}
	return n.ToModel()
}

type model struct{ requests []*reading }

// step lists the states that a key may be in after an event.
func (m model) step(s state, e event) []state {
	if e.arrives {
		s.pool = with(s.pool, e.request.index)
		return []state{s}
	}
	var next []state
	for _, before := range append(m.takes(s, e.request), s) {
		if after, ok := before.admits(e.request); ok {
			after.pool = without(after.pool, e.request.index) // who has been answered takes nothing any more
			next = append(next, after)
		}
	}
	return next
}

// takes lists the states after one of those who have arrived has taken the key, as far as that can make a difference.
// One at a time is enough: what two did unseen before an answer, the second of them alone explains as well. And where
// an answer that leaves the key open needs nobody to have taken it, only its own request has to be tried, which has no
// other chance: all others may as well do it later.
func (m model) takes(s state, answered *reading) []state {
	if s.phase == finalPhase {
		return nil
	}
	if _, ok := s.admits(answered); ok && answered.kind != final {
		if isIn(s.pool, answered.index) && s.intent == answered.operation.Intent {
			return []state{s.takenBy(answered)}
		}
		return nil
	}
	type likeness struct {
		kind   kind
		intent string
	}
	tried := map[likeness]bool{}
	var next []state
	for _, c := range s.pool {
		r := m.requests[int(c)-1]
		if s.phase != unusedPhase && s.intent != r.operation.Intent {
			continue
		}
		if !r.tells() { // of those who will never be answered, each is as good as the other
			l := likeness{r.kind, r.operation.Intent}
			if tried[l] {
				continue
			}
			tried[l] = true
		}
		next = append(next, s.takenBy(r))
	}
	return next
}

func (s state) takenBy(r *reading) state {
	s.phase, s.intent = runningPhase, r.operation.Intent
	s.pool = without(s.pool, r.index)
	s.firstTook = s.firstTook || r.first
	if r.mayReachPSP() {
		switch s.sender {
		case nobody:
			s.sender = r.index + 1
		case r.index + 1:
		default:
			s.sender = several
		}
	}
	return s
}

// admits reports whether an answer is true of a key in this state, and what the key is then.
func (s state) admits(r *reading) (state, bool) {
	bound, same := s.phase != unusedPhase, s.intent == r.operation.Intent
	open := s.phase == runningPhase || s.phase == idlePhase
	if r.subject != "" {
		if s.subject != "" && s.subject != r.subject {
			return s, false
		}
		s.subject = r.subject
	}
	switch r.kind {
	case final:
		return s.admitsFinal(r)
	case accepted:
		return s, open && same
	case busy:
		return s, s.phase == runningPhase && same
	case misuse:
		return s, bound && !same
	case released, tooOld:
		s.phase = idlePhase
		return s, open && same
	case unreserved:
		return s, !bound
	case refused:
		if !bound {
			return s, true
		}
		s.phase = idlePhase
		return s, open && same
	case lost, storeAway, silent:
	}
	return s, true
}

func (s state) admitsFinal(r *reading) (state, bool) {
	if s.phase == unusedPhase || s.intent != r.operation.Intent || s.sender == nobody {
		return s, false
	}
	if s.phase == finalPhase && s.final != r.final {
		return s, false
	}
	s.phase, s.final = finalPhase, r.final
	if !r.first {
		return s, s.sender != r.index+1
	}
	ok := s.firstTook && !s.firstTold
	s.firstTold = true
	return s, ok
}

func (s state) hash() uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s %s %s %d %t %t %s", s.phase, s.intent, s.subject, s.final, s.sender, s.firstTook, s.firstTold,
		s.pool)
	return h.Sum64()
}

func (s state) String() string {
	text := s.phase.String()
	if s.intent != "" {
		text += ", intent " + s.intent
	}
	if s.subject != "" {
		text += ", " + s.subject
	}
	if s.final != "" {
		text += ", answer " + s.final[:8]
	}
	if s.sender == nobody {
		text += ", PSP not asked"
	}
	return text
}

func (e event) String() string {
	if e.arrives {
		return "arrives, intent " + e.request.operation.Intent
	}
	return e.request.String()
}

// runeFor is the rune that stands for a request in a pool. There are enough for 50 000 operations with one key, far
// beyond what can be searched.
func runeFor(index int) rune { return rune(index + 1) } //nolint:gosec // see above

func isIn(pool string, index int) bool { return strings.ContainsRune(pool, runeFor(index)) }

// with and without treat a string as a set of indices, in order.
func with(pool string, index int) string {
	c := runeFor(index)
	at := strings.IndexFunc(pool, func(other rune) bool { return other >= c })
	if at < 0 {
		return pool + string(c)
	}
	return pool[:at] + string(c) + pool[at:]
}

func without(pool string, index int) string {
	return strings.Replace(pool, string(runeFor(index)), "", 1)
}
