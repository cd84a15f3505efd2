package mockpsp

import (
	"bufio"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ledger holds every entry since its file was created, in memory for reading and in the file for good.
type ledger struct {
	now     func() time.Time
	log     *slog.Logger
	file    *journal // nil when the ledger lives in memory only
	queue   chan pendingWrite
	stopped chan struct{} // closed when the writer has returned

	// Only the writer reads and changes these (and the replay before it starts).
	lastCreated time.Time
	refunded    map[string]int64 // by charge id, successful refunds only
	promised    int              // late entries that have not landed
	notes       []jsontext.Value // of another dialect, read from the file and not yet taken

	mu      sync.RWMutex // held by the writer only while it publishes, never while it waits for the disk
	keys    map[keyRef]*keyState
	books   map[bookRef]*book
	all     []*record // append-only, so that a copy of the slice is a snapshot
	pending map[keyRef]*record
	broken  error // the failed write after which nothing is known any more
}

type bookRef struct{ account, object string }

// book is one account's list of charges, or of refunds, oldest first, with its indexes.
type book struct {
	records []*record
	byID    map[string]*record
	byKey   map[string][]*record
}

func openLedger(config Config) (*ledger, error) {
	l := &ledger{
		now:      config.Now,
		log:      config.Log,
		queue:    make(chan pendingWrite, queueLength),
		stopped:  make(chan struct{}),
		refunded: map[string]int64{},
		keys:     map[keyRef]*keyState{},
		books:    map[bookRef]*book{},
		pending:  map[keyRef]*record{},
	}
	if config.LedgerPath != "" {
		file, err := openJournal(config.LedgerPath, config.Log, l.restore)
		if err != nil {
			return nil, err
		}
		l.file = file
		l.log.Info("ledger opened", "path", config.LedgerPath, "entries", len(l.all), "late", len(l.pending))
	}
	go l.runWriter()
	return l, nil
}

// restore takes back a record that was written before, in the order of the file.
func (l *ledger) restore(r *record) error {
	if r.Forgets != nil {
		l.publish(r)
		return nil
	}
	if r.Note != nil {
		return l.restoreDialect(r)
	}
	if _, ok := behaviours[r.Fault]; !ok || (r.Entry.Object != ObjectCharge && r.Entry.Object != ObjectRefund) {
		return fmt.Errorf("unknown kind of entry: %q %q", r.Entry.Object, r.Fault)
	}
	known := l.keys[r.ref()]
	if known != nil && !r.Further && (known.record != nil || r.isPromise() || r.Outage) {
		return fmt.Errorf("a second entry for one idempotency key")
	}
	if r.isPromise() || r.Outage {
		if r.isPromise() {
			l.promised++
		}
		l.publish(r)
		return nil
	}
	createdAt, err := time.Parse(timeLayout, r.Entry.CreatedAt)
	if err != nil {
		return fmt.Errorf("parse createdAt: %w", err)
	}
	if !createdAt.After(l.lastCreated) {
		return fmt.Errorf("createdAt %s is not later than the one before", r.Entry.CreatedAt)
	}
	l.lastCreated = createdAt
	if known != nil && known.late && !r.Further {
		l.promised--
	}
	l.countRefund(r)
	l.publish(r)
	return nil
}

// publish makes a durable record visible. The caller holds l.mu, or is the replay.
func (l *ledger) publish(r *record) {
	if r.Forgets != nil {
		l.forget(r)
		return
	}
	if r.dialect {
		l.publishDialect(r)
		return
	}
	if !r.Further {
		l.remember(r)
	}
	if !r.isPromise() && !r.isNote() {
		l.all = append(l.all, r)
		l.book(r.Entry.Account, r.Entry.Object).add(r)
	}
}

// remember keeps what a record means for its key.
func (l *ledger) remember(r *record) {
	ref := r.ref()
	state := l.keys[ref]
	if state == nil {
		state = &keyState{bodyHash: r.BodyHash}
		l.keys[ref] = state
	}
	switch {
	case r.Outage:
		state.hasFailed = true
		return
	case r.isPromise():
		state.late = true
		l.pending[ref] = r
		return
	}
	state.late, state.record = false, r
	delete(l.pending, ref)
	if does := behaviours[r.Fault]; does.forgetsKey {
		l.drop(ref, state)
	}
}

func (l *ledger) book(account, object string) *book {
	ref := bookRef{account, object}
	if l.books[ref] == nil {
		l.books[ref] = &book{
			byID: map[string]*record{}, byKey: map[string][]*record{},
		}
	}
	return l.books[ref]
}

func (b *book) add(r *record) {
	r.position = len(b.records)
	b.records = append(b.records, r)
	b.byID[r.Entry.ID] = r
	b.byKey[r.Entry.IdempotencyKey] = append(b.byKey[r.Entry.IdempotencyKey], r)
}

// find returns an account's entry, or nil. It also finds what the API's lookups fail on.
func (l *ledger) find(object, account, id string) *record {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if b := l.books[bookRef{account, object}]; b != nil {
		return b.byID[id]
	}
	return nil
}

// findAnywhere returns the entry of whatever account and kind, or nil.
func (l *ledger) findAnywhere(id string) *record {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, b := range l.books {
		if r := b.byID[id]; r != nil {
			return r
		}
	}
	return nil
}

// snapshot returns all entries so far, oldest first.
func (l *ledger) snapshot() []*record {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.all[:len(l.all):len(l.all)]
}

// promises returns the late entries that have not landed.
func (l *ledger) promises() []*record {
	l.mu.RLock()
	defer l.mu.RUnlock()
	promises := make([]*record, 0, len(l.pending))
	for _, r := range l.pending {
		promises = append(promises, r)
	}
	return promises
}

// health returns the failed write after which the ledger answers nothing, if there was one.
func (l *ledger) health() error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.broken
}

// ledgerView is an entry as GET /_ledger shows it: the truth, with the fault that was acted out.
type ledgerView struct {
	entry
	Fault fault `json:"fault"`
}

// getLedger streams what was really charged and refunded, oldest first, stuck charges included. It needs no secret
// and sees all accounts: it is the examiner's door, not the provider's.
func (s *Server) getLedger(w http.ResponseWriter, r *http.Request) {
	only := filter{r.FormValue("account"), r.FormValue("idempotencyKey"), r.FormValue("reference")}
	records := s.ledger.snapshot()
	w.Header().Set("Content-Type", "application/json")
	out := bufio.NewWriter(w)
	_, _ = out.WriteString(`{"charges":[`)
	writeViews(out, records, ObjectCharge, only)
	_, _ = out.WriteString(`],"refunds":[`)
	writeViews(out, records, ObjectRefund, only)
	_, _ = out.WriteString(`]}`)
	_ = out.Flush() // the reader may have gone
}

func writeViews(out *bufio.Writer, records []*record, object string, only filter) {
	separator := ""
	for _, r := range records {
		if !r.shownFor(object, only) {
			continue
		}
		_, _ = out.WriteString(separator)
		if err := json.MarshalWrite(out, ledgerView{r.Entry, r.Fault}); err != nil {
			return // the reader has gone; bufio keeps the error
		}
		separator = ","
	}
}

// filter says which entries are asked for. Empty means all.
type filter struct{ account, key, reference string }

func (r *record) shownFor(object string, only filter) bool {
	return (object == "" || r.Entry.Object == object) &&
		(only.account == "" || r.Entry.Account == only.account) &&
		(only.key == "" || r.Entry.IdempotencyKey == only.key) &&
		(only.reference == "" || r.Entry.Reference == only.reference)
}
