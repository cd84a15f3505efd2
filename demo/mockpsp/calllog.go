package mockpsp

import (
	"cmp"
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
// was asked for. A note of a scan may stand for several calls: see [callLog.fold].
type callNote struct {
	Method  string `json:"method"`
	Path    string `json:"path"`
	Account string `json:"account"`
	Key     string `json:"key"`
	At      string `json:"at"` // of the latest, where Times is more than 1
	Fault   fault  `json:"fault,omitempty"`
	Outcome string `json:"outcome"`
	Since   string `json:"since,omitempty"` // the first, where Times is more than 1
	Times   int    `json:"times"`

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
	c.all += note.Times
	if note.Method == http.MethodPost {
		c.posts += note.Times
	}
}

func newCallLog() *callLog { return &callLog{counts: map[caller]callCount{}} }

// begin notes a call on arrival: it counts although it may hang for long.
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
		Times:   1,
		scan:    isScan(r, key),
	}
	l.mu.Lock()
	defer l.mu.Unlock()
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
	lists := []string{
		"/v1/charges", "/v1/refunds", "/v1/payment_intents", "/v1/events", "/v1/balance_transactions",
	}
	return r.Method == http.MethodGet && slices.Contains(lists, r.URL.Path) && key == "" &&
		r.URL.Query().Get("reference") == ""
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

func (l *callLog) fault(note *callNote, f fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	note.Fault = f
}

func (l *callLog) finish(note *callNote, outcome string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	note.Outcome = outcome
	if note.scan {
		l.fold(note)
	}
}

// fold makes one note of two that scans have left, if there is nothing between them but scans. A client reads its whole
// ledger every few seconds: with a note for each page, the scans would soon have pushed all other calls out.
func (l *callLog) fold(note *callNote) {
	start := len(l.latest)
	for start > 0 && l.latest[start-1].scan {
		start--
	}
	same := func(n *callNote) bool {
		return n != note && n.Path == note.Path && n.Account == note.Account && n.Outcome == note.Outcome
	}
	scans := l.latest[start:]
	at := slices.IndexFunc(scans, same)
	if at < 0 || !slices.Contains(scans, note) {
		return // another call has come since this scan has begun
	}
	note.add(scans[at])
	l.latest = slices.Delete(l.latest, start+at, start+at+1)
}

// add has a note stand for the calls of another one as well.
func (n *callNote) add(other *callNote) {
	n.Since = min(cmp.Or(n.Since, n.At), cmp.Or(other.Since, other.At))
	n.At = max(n.At, other.At)
	n.Times += other.Times
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
