package mockpsp

import (
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	maxNotes       = 1000
	maxCallCounts  = 200_000
	outcomePending = "pending"
)

// callNote is what is remembered of one request under /v1, refused ones included. Of a list, the key is the one that
// was asked for. A scan takes the place of an earlier one in the notes: see [callLog.begin].
type callNote struct {
	Method  string `json:"method"`
	Path    string `json:"path"`
	Account string `json:"account"`
	Key     string `json:"key"`
	At      string `json:"at"`
	Fault   fault  `json:"fault,omitempty"`
	Outcome string `json:"outcome"`

	scan bool // asks for a page of the ledger, whatever is on it
}

// callLog counts the calls and keeps the latest, so that a test can say how often the PSP was really called.
type callLog struct {
	mu     sync.Mutex
	latest []*callNote // oldest first
	counts map[caller]callCount
}

// caller is whose calls are counted together. An empty member stands for all its values.
type caller struct{ account, key string }

type callCount struct{ all, posts int }

func (c *callCount) add(note *callNote) {
	c.all++
	if note.Method == http.MethodPost {
		c.posts++
	}
}

// begin notes a call on arrival: it counts although it may hang for long. A client reads its whole ledger every few
// seconds: with a note for each page, the scans would soon have pushed all other calls out. So only the latest scan of
// a list is noted.
func (l *callLog) begin(r *http.Request, account string, now time.Time) *callNote {
	key := r.Header.Get("Idempotency-Key")
	if key == "" {
		key = r.URL.Query().Get("idempotencyKey")
	}
	note := &callNote{
		Method:  r.Method,
		Path:    clip(r.URL.Path),
		Account: clip(account),
		Key:     clip(key),
		At:      now.UTC().Format(timeLayout),
		Outcome: outcomePending,
		scan:    isScan(r, key),
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if note.scan {
		l.latest = slices.DeleteFunc(l.latest, func(n *callNote) bool {
			return n.scan && n.Path == note.Path && n.Account == note.Account
		})
	}
	if len(l.latest) == maxNotes {
		l.latest = slices.Delete(l.latest, 0, 1)
	}
	l.latest = append(l.latest, note)
	for _, who := range note.callers() {
		count, known := l.counts[who]
		if known || len(l.counts) < maxCallCounts {
			count.add(note)
			l.counts[who] = count
		}
	}
	return note
}

func isScan(r *http.Request, key string) bool {
	lists := []string{"/v1/charges", "/v1/refunds", "/v1/disputes", "/v1/payment_intents",
		"/v1/balance_transactions"}
	return r.Method == http.MethodGet && slices.Contains(lists, r.URL.Path) && key == ""
}

// callers returns everyone that the call counts for, each once.
func (n *callNote) callers() []caller {
	callers := []caller{{}}
	if n.Account != "" {
		callers = append(callers, caller{account: n.Account})
	}
	if n.Key != "" {
		callers = append(callers, caller{key: n.Key})
	}
	if n.Account != "" && n.Key != "" {
		callers = append(callers, caller{n.Account, n.Key})
	}
	return callers
}

func clip(text string) string { return text[:min(len(text), maxKeyLength)] }

// Call is a call in GET /_requests.
type Call struct {
	log  *callLog
	note *callNote
}

// BeginCall notes a call on arrival.
func (s *Server) BeginCall(r *http.Request, account string) Call {
	return Call{s.calls, s.calls.begin(r, account, s.config.Now())}
}

// Fault notes which fault the call has met.
func (c Call) Fault(token string) {
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	c.note.Fault = fault(token)
}

// Finish notes how the call has ended.
func (c Call) Finish(outcome string) {
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	c.note.Outcome = outcome
}

// callView is the answer of GET /_requests. Count and Posts cover all calls since the start; where the memory for
// counts ran out they are not exact and cover the notes only.
type callView struct {
	Count    int        `json:"count"`
	Posts    int        `json:"posts"` // those of Count that could move money; the rest are lookups
	Exact    bool       `json:"exact"`
	Requests []callNote `json:"requests"`
}

// view returns the calls of an account and key, where empty means all, oldest first.
func (l *callLog) view(account, key string) callView {
	l.mu.Lock()
	defer l.mu.Unlock()
	notes, noted := []callNote{}, callCount{}
	for _, note := range l.latest {
		if (account == "" || note.Account == account) && (key == "" || note.Key == key) {
			notes = append(notes, *note)
			noted.add(note)
		}
	}
	count, known := l.counts[caller{account, key}]
	exact := known || len(l.counts) < maxCallCounts
	if !exact {
		count = noted
	}
	return callView{Count: count.all, Posts: count.posts, Exact: exact, Requests: notes}
}

func (s *Server) getRequests(w http.ResponseWriter, r *http.Request) {
	view := s.calls.view(r.FormValue("account"), r.FormValue("idempotencyKey"))
	jsonReply(http.StatusOK, &view).Deliver(w)
}
