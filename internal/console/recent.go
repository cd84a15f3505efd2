package console

import (
	"maps"
	"net/http"
	"sync"
	"time"

	"payonce/internal/httpapi"
	"payonce/internal/idempotency"
	"payonce/internal/problem"
	"payonce/internal/sequence"
)

// bystander reports whether the request has not reserved the key, and so has written nothing.
func bystander(r httpapi.Request) bool {
	refused := r.Status/100 == 4 && r.Status != http.StatusPaymentRequired && r.Status != problem.ClientGone
	return r.Replayed || r.Async || refused
}

// outcomeOf is the name under which the overview counts the request.
func outcomeOf(r httpapi.Request) string {
	switch {
	case r.Replayed:
		return "replayed"
	case r.Status == problem.ClientGone:
		return "client gone"
	case r.Code != "":
		return r.Code
	case r.Status == 201:
		return "succeeded"
	case r.Status == 202:
		return "not known yet"
	}
	return "declined"
}

// remembered is how many requests a process remembers. They take about a megabyte.
const remembered = 4096

// Recent remembers the latest requests of this process, for the console. Adding one takes no allocation and no round
// trip, so a replay costs no more for it. It is safe for concurrent use. The zero Recent remembers nothing.
type Recent struct {
	started time.Time // when the process was started

	mu     sync.Mutex
	ring   []httpapi.Request
	next   int              // where the next request is written
	counts map[string]int64 // by outcome, since the start of the process
	wake   func(idempotency.Ref)
}

// NewRecent returns an empty Recent of a process that was started at that time.
func NewRecent(started time.Time) *Recent {
	return &Recent{started: started, ring: make([]httpapi.Request, remembered), counts: map[string]int64{}}
}

// Add remembers a request.
func (m *Recent) Add(r httpapi.Request) {
	if len(m.ring) == 0 {
		return
	}
	m.mu.Lock()
	m.ring[m.next] = r
	m.next = (m.next + 1) % remembered
	m.counts[outcomeOf(r)]++
	wake := m.wake
	m.mu.Unlock()
	if wake != nil {
		wake(r.Ref)
	}
}

// Of are the remembered requests with a key, in the order of their answers.
func (m *Recent) Of(ref idempotency.Ref) []sequence.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []sequence.Request
	for i := range m.ring {
		r := &m.ring[(m.next+i)%remembered]
		if r.Ref != ref || r.At.IsZero() {
			continue
		}
		label := r.Code
		if r.Replayed {
			label = sequence.Replayed
		}
		found = append(found, sequence.Request{
			Began: r.Began, At: r.At, Gone: r.Gone, Status: r.Status, Label: label, Bystander: bystander(*r),
		})
	}
	return found
}

// Since is when the process began to remember; zero if it remembers nothing.
func (m *Recent) Since() time.Time { return m.started }

// ByOutcome counts the requests since the start of the process.
func (m *Recent) ByOutcome() map[string]int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.counts)
}

// OnAdd sets what is called after each request.
func (m *Recent) OnAdd(wake func(idempotency.Ref)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wake = wake
}
