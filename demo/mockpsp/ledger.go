package mockpsp

import (
	"bufio"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ledger holds every entry since its file was created, in memory for reading and in the file for good.
type ledger struct {
	now     func() time.Time
	late    time.Duration // how long lists and settlement files lack an entry that is booked late
	log     *slog.Logger
	file    *journal // nil when the ledger lives in memory only
	queue   chan pendingWrite
	stopped chan struct{} // closed when the writer has returned

	// Only the writer reads and changes these (and the replay before it starts).
	lastCreated time.Time
	taken       map[string]int64   // by charge id, what refunds and disputes have taken
	balance     map[money]int64    // what was not paid out
	prepared    map[string]*record // the newest versions of refunds and disputes, by id, written or about to be
	promised    int                // late entries that have not landed
	notes       []jsontext.Value   // of another dialect, read from the file and not yet taken

	mu      sync.RWMutex // held by the writer only while it publishes, never while it waits for the disk
	keys    map[keyRef]*keyState
	books   map[bookRef]*book
	all     []*record          // append-only, so that a copy of the slice is a snapshot
	newest  map[string]*record // the newest version of each entry, by id
	pending map[keyRef]*record
	broken  error // the failed write after which nothing is known any more
}

type bookRef struct{ account, object string }

// money is an account's balance in one currency.
type money struct{ account, currency string }

// book is one account's list of charges, refunds or disputes, oldest first, with its index. It has the first version of
// each.
type book struct {
	records []*record
	byKey   map[string][]*record
}

func openLedger(config Config) (*ledger, error) {
	l := &ledger{
		now:      config.Now,
		late:     config.LateDelay,
		log:      config.Log,
		queue:    make(chan pendingWrite, queueLength),
		stopped:  make(chan struct{}),
		taken:    map[string]int64{},
		balance:  map[money]int64{},
		prepared: map[string]*record{},
		newest:   map[string]*record{},
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
	objects := []string{ObjectCharge, ObjectRefund, ObjectDispute, ObjectPayout, ObjectAdjustment}
	if _, ok := behaviours[r.Fault]; !ok || !slices.Contains(objects, r.Entry.Object) {
		return fmt.Errorf("unknown kind of entry: %q %q", r.Entry.Object, r.Fault)
	}
	known := l.keys[r.ref()]
	if known != nil && !r.Further && (known.record != nil || r.isPromise() || r.Outage) {
		return fmt.Errorf("a second entry for one idempotency key")
	}
	if r.Path == "" && (r.isPromise() || r.Outage) {
		return fmt.Errorf("a promise or an outage without a path")
	}
	if r.isPromise() || r.Outage {
		if r.isPromise() {
			l.promised++
		}
		l.publish(r)
		return nil
	}
	if err := l.restoreTime(r); err != nil {
		return err
	}
	if before := l.prepared[r.Entry.ID]; r.Version > 0 && (before == nil || before.Version != r.Version-1) {
		return fmt.Errorf("version %d of %s does not follow on the one before", r.Version, r.Entry.ID)
	}
	if known != nil && known.late && !r.Further {
		l.promised--
	}
	l.count(r)
	l.publish(r)
	return nil
}

// restoreTime checks that the line is later than the one before.
func (l *ledger) restoreTime(r *record) error {
	at, err := time.Parse(timeLayout, r.at())
	if err != nil {
		return fmt.Errorf("parse time of the line: %w", err)
	}
	if !at.After(l.lastCreated) {
		return fmt.Errorf("time %s is not later than the one before", r.at())
	}
	l.lastCreated = at
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
	if !r.Further && r.Path != "" {
		l.remember(r)
	}
	if r.isPromise() || r.isNote() {
		return
	}
	if r.Version == 0 {
		l.book(r.Entry.Account, r.Entry.Object).add(r)
	} else {
		r.position = l.newest[r.Entry.ID].position
	}
	l.all = append(l.all, r)
	l.newest[r.Entry.ID] = r
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
		l.books[ref] = &book{byKey: map[string][]*record{}}
	}
	return l.books[ref]
}

func (b *book) add(r *record) {
	r.position = len(b.records)
	b.records = append(b.records, r)
	b.byKey[r.Entry.IdempotencyKey] = append(b.byKey[r.Entry.IdempotencyKey], r)
}

// find returns an account's entry, or nil. It also finds what the API's lookups fail on.
func (l *ledger) find(object, account, id string) *record {
	r := l.findAnywhere(id)
	if r == nil || r.dialect || r.Entry.Account != account || r.Entry.Object != object {
		return nil
	}
	return r
}

// lines returns all entries so far in all their versions, in the order of the file.
func (l *ledger) lines() []*record {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.all[:len(l.all):len(l.all)]
}

// snapshot returns all entries so far as they are now, oldest first.
func (l *ledger) snapshot() []*record {
	l.mu.RLock()
	defer l.mu.RUnlock()
	entries := make([]*record, 0, len(l.all))
	for _, r := range l.all {
		if newest := l.newest[r.Entry.ID]; r.Version == 0 && newest.Version > 0 {
			entries = append(entries, newest)
		} else if r.Version == 0 {
			entries = append(entries, r)
		}
	}
	return entries
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

// getLedger streams what was really charged, refunded and disputed, as it is now, oldest first, stuck charges included.
// It needs no secret and sees all accounts: it is the examiner's door, not the provider's.
func (s *Server) getLedger(w http.ResponseWriter, r *http.Request) {
	only := filter{r.FormValue("account"), r.FormValue("idempotencyKey"), r.FormValue("reference"),
		r.FormValue("chargeId")}
	records := s.ledger.snapshot()
	w.Header().Set("Content-Type", "application/json")
	out := bufio.NewWriter(w)
	_, _ = out.WriteString(`{"charges":[`)
	writeViews(out, records, ObjectCharge, only)
	_, _ = out.WriteString(`],"refunds":[`)
	writeViews(out, records, ObjectRefund, only)
	_, _ = out.WriteString(`],"disputes":[`)
	writeViews(out, records, ObjectDispute, only)
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
type filter struct{ account, key, reference, charge string }

func (r *record) shownFor(object string, only filter) bool {
	return (object == "" || r.Entry.Object == object) &&
		(only.account == "" || r.Entry.Account == only.account) &&
		(only.key == "" || r.Entry.IdempotencyKey == only.key) &&
		(only.reference == "" || r.Entry.Reference == only.reference) &&
		(only.charge == "" || r.Entry.ChargeID == only.charge)
}
