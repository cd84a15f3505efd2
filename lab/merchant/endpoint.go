package merchant

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"payonce/client"
	"payonce/lab/chaos/plan"
	"payonce/lab/program"
)

// endpoint is a server of a merchant's.
type endpoint struct {
	of           *Merchants
	tenant, name string
	id           string
	server       *httptest.Server
	secret       atomic.Pointer[string] // nil: the answer that has it is on its way

	mu    sync.Mutex
	heard []Notice
	// The ids of the events that came, and of those that were read, with or without an answer.
	came, known map[string]bool
	forged      []string // what was no event for this endpoint
}

// listen starts an endpoint.
func (m *Merchants) listen(tenant, name string) *endpoint {
	e := &endpoint{of: m, tenant: tenant, name: name, came: map[string]bool{}, known: map[string]bool{}}
	e.server = httptest.NewServer(e)
	m.all = append(m.all, e)
	return e
}

// slow is how long an endpoint takes that is slow: not as long as EVENTS_TIMEOUT.
const slow = 400 * time.Millisecond

// ServeHTTP takes an event, or slips.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	slip := e.slip(r.Header.Get("webhook-id"))
	if e.name == Slipping && slip != plan.NoSlip {
		e.of.Tally.One("endpoint", string(slip))
	}
	if slip == plan.CutBefore {
		panic(http.ErrAbortHandler)
	}
	n, ok := e.verified(w, r)
	if !ok {
		return
	}
	switch slip {
	case plan.Answer500:
		http.Error(w, "out of order", http.StatusInternalServerError)
	case plan.Hang:
		<-r.Context().Done()
	case plan.Redirect:
		// The other endpoint has another secret: a request that follows is found there as forged.
		http.Redirect(w, r, e.of.all[0].server.URL, http.StatusTemporaryRedirect)
	case plan.CutAfter:
		e.keep(n)
		panic(http.ErrAbortHandler)
	case plan.HalfAnswer:
		e.keep(n)
		e.breakOff(w)
	case plan.AnswerLate:
		if program.Wait(r.Context(), slow) {
			e.take(w, n)
		}
	default:
		e.take(w, n)
	}
}

// slip is what becomes of this request. No event slips twice: it would come again after half a minute.
func (e *endpoint) slip(id string) plan.Slip {
	if e.name == Failing {
		return plan.Answer500
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.name == Good || e.came[id] {
		return plan.NoSlip
	}
	e.came[id] = true
	return e.of.Plan.Slip(len(e.came), e.of.calm.Load())
}

// verified reads a request as a merchant does.
func (e *endpoint) verified(w http.ResponseWriter, r *http.Request) (n Notice, ok bool) {
	body, err := io.ReadAll(r.Body)
	secret := e.secret.Load()
	if err != nil || secret == nil {
		http.Error(w, "come again", http.StatusServiceUnavailable) // its process was killed while it wrote
		return n, false
	}
	told, err := client.VerifyEvent(body, r.Header, time.Now(), *secret)
	if err == nil {
		n, err = ReadNotice(body)
	}
	if err == nil && told.ID != n.ID {
		err = fmt.Errorf("the client reads it as %s", told.ID)
	}
	if err != nil {
		e.mu.Lock()
		e.forged = append(e.forged, fmt.Sprintf("%s was sent %s: %v", e.name, body, err))
		e.mu.Unlock()
		http.Error(w, "not an event", http.StatusBadRequest)
	}
	return n, err == nil
}

// keep notes what was received and not acknowledged. To be told again is no news then.
func (e *endpoint) keep(n Notice) {
	n.Taken = false
	e.mu.Lock()
	defer e.mu.Unlock()
	e.known[n.ID] = true
	e.heard = append(e.heard, n)
}

// take notes an event, and says so.
func (e *endpoint) take(w http.ResponseWriter, n Notice) {
	e.mu.Lock()
	if e.known[n.ID] {
		e.of.Tally.One("event", "told again")
	}
	e.known[n.ID] = true
	e.heard = append(e.heard, n)
	e.mu.Unlock()
	e.of.Tally.One("event", "taken by "+e.name)
	w.WriteHeader(http.StatusNoContent)
}

// breakOff begins an answer, and is gone.
func (e *endpoint) breakOff(w http.ResponseWriter) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err) // HTTP/1.1 lets it
	}
	_, _ = io.WriteString(c, "HTTP/1.1 204 No Con")
	_ = c.Close()
}

func (e *endpoint) read() []Notice {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.heard)
}

func (e *endpoint) refused() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.forged)
}

func (e *endpoint) close() {
	e.server.CloseClientConnections()
	e.server.Close()
}
