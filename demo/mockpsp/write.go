package mockpsp

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
)

const (
	queueLength = 1024
	maxBatch    = 256
	maxPromises = 10_000
)

// pendingWrite is a draft on its way to the ledger.
type pendingWrite struct {
	draft *record
	done  chan error // buffered: the writer never waits
}

// write puts a draft into the ledger and returns when it is durable and visible. The draft is then the record: its
// outcome is filled in, and nobody may change it. An error other than a [refusal] leaves open whether it was written.
func (l *ledger) write(draft *record) error {
	w := pendingWrite{draft, make(chan error, 1)}
	l.queue <- w
	return <-w.done
}

// close writes what is queued and closes the file. Nobody may write any more.
func (l *ledger) close() error {
	close(l.queue)
	<-l.stopped
	if l.file == nil {
		return nil
	}
	return l.file.close()
}

// runWriter is the only goroutine that decides and writes. The first entry is written at once. Entries that arrive
// meanwhile share the next fsync. There is no timer: an idle ledger adds no delay.
func (l *ledger) runWriter() {
	defer close(l.stopped)
	for first := range l.queue {
		l.commit(l.gather(first))
	}
}

func (l *ledger) gather(first pendingWrite) []pendingWrite {
	batch := []pendingWrite{first}
	for len(batch) < maxBatch {
		select {
		case next, open := <-l.queue:
			if !open {
				return batch
			}
			batch = append(batch, next)
		default:
			return batch
		}
	}
	return batch
}

func (l *ledger) commit(batch []pendingWrite) {
	var lines []byte
	accepted := batch[:0]
	for _, w := range batch {
		line, err := l.prepare(w.draft)
		if err != nil {
			w.done <- err
			continue
		}
		lines = append(lines, line...)
		accepted = append(accepted, w)
	}
	var err error
	if l.file != nil && len(accepted) > 0 {
		err = l.file.append(lines)
	}
	l.mu.Lock()
	if err != nil {
		l.broken = fmt.Errorf("ledger is unusable until a restart: %w", err)
		err = l.broken
	} else {
		for _, w := range accepted {
			l.publish(w.draft)
		}
	}
	l.mu.Unlock()
	for _, w := range accepted {
		w.done <- err
	}
}

// prepare decides a draft and renders its line. What it counts is never taken back: the only failure after it is one
// that ends the ledger's life.
func (l *ledger) prepare(draft *record) ([]byte, error) {
	if l.broken != nil {
		return nil, l.broken
	}
	switch {
	case draft.line != nil:
		if err := l.prepareDialect(draft); err != nil {
			return nil, err
		}
	case draft.isNote():
	case draft.isPromise():
		if l.promised >= maxPromises {
			return nil, apiError{http.StatusServiceUnavailable, "too_many_late_charges",
				fmt.Sprintf("%d late charges have not landed yet", maxPromises)}
		}
		l.promised++
	case draft.becomes != "":
		if err := l.change(draft); err != nil {
			return nil, err
		}
	case draft.Entry.Object == ObjectPayout, draft.Entry.Object == ObjectAdjustment:
		if err := l.pay(draft); err != nil {
			return nil, err
		}
	case draft.Path == "":
		if err := l.open(draft); err != nil {
			return nil, err
		}
	default:
		l.distort(draft)
		draft.decide(l.nextCreatedAt(), l.left(draft.askedAccount(), draft.Entry.ChargeID))
		l.count(draft)
		if l.pending[draft.ref()] != nil {
			l.promised--
		}
	}
	line, err := json.Marshal(draft)
	if err != nil {
		return nil, fmt.Errorf("render entry: %w", err)
	}
	return append(line, '\n'), nil
}

// nextCreatedAt is now, but always later than the entry before: a clock that stands still or steps back must not hide
// entries from a scan by createdAfter.
func (l *ledger) nextCreatedAt() time.Time {
	t := l.now().UTC().Truncate(time.Microsecond)
	if !t.After(l.lastCreated) {
		t = l.lastCreated.Add(time.Microsecond)
	}
	l.lastCreated = t
	return t
}

// evidenceTime is how long the merchant may answer a dispute.
const evidenceTime = 7 * 24 * time.Hour

// open completes the draft of what others do to a charge: a refund in the dashboard, or a dispute. Without an amount it
// is about all that the charge has left. The draft is refused where a refund would be declined.
func (l *ledger) open(draft *record) error {
	e := &draft.Entry
	left := l.left(e.Account, e.ChargeID)
	if e.AmountCents = cmp.Or(e.AmountCents, left); e.AmountCents < 1 || e.AmountCents > left {
		return l.exceeds(draft, left)
	}
	createdAt := l.nextCreatedAt()
	e.ID, e.CreatedAt = newID(e.Object), createdAt.Format(timeLayout)
	if e.Object == ObjectDispute {
		e.EvidenceDueBy = createdAt.Add(evidenceTime).Format(time.RFC3339)
	}
	l.count(draft)
	return nil
}

func (l *ledger) exceeds(draft *record, left int64) error {
	return apiError{http.StatusPaymentRequired, draft.Entry.Object + "_exceeds_charge",
		fmt.Sprintf("%d of the charge are left: neither given back nor disputed", left)}
}

// change completes the draft of a further version: the newest version with another status.
func (l *ledger) change(draft *record) error {
	before := l.prepared[draft.Entry.ID]
	if before == nil || before.dialect {
		return noSuchEntry()
	}
	if !slices.Contains(changes[before.kind()], draft.becomes) {
		return apiError{http.StatusConflict, "illegal_change", fmt.Sprintf("a %s that is %s does not become %s",
			before.Entry.Object, before.Entry.Status, draft.becomes)}
	}
	draft.Entry, draft.Fault, draft.Version = before.Entry, before.Fault, before.Version+1
	draft.Entry.Status = draft.becomes
	if draft.becomes == StatusFailed {
		draft.Entry.DeclineCode = "expired_or_canceled_card"
	}
	left := l.left(draft.Entry.Account, draft.Entry.ChargeID) + before.taken()
	if draft.taken() > left {
		return l.exceeds(draft, left)
	}
	draft.ChangedAt = l.nextCreatedAt().Format(timeLayout)
	l.count(draft)
	return nil
}

// left returns what can still be taken from a charge, 0 if the account has no such charge. The writer is the only one
// that changes the entries, so it may read them without the lock.
func (l *ledger) left(account, id string) int64 {
	charge := l.newest[id]
	if charge == nil || charge.dialect || charge.Entry.Account != account || charge.kind() != "charge.succeeded" {
		return 0
	}
	return charge.Entry.AmountCents - l.taken[id]
}

// count notes what the record is for the balance, and what a refund or a dispute takes from its charge, in place of
// what its version before has taken.
func (l *ledger) count(r *record) {
	l.balance[money{r.Entry.Account, r.Entry.Currency}] += r.net()
	if r.Entry.Object != ObjectRefund && r.Entry.Object != ObjectDispute {
		return
	}
	if before := l.prepared[r.Entry.ID]; before != nil {
		l.taken[r.Entry.ChargeID] -= before.taken()
	}
	l.taken[r.Entry.ChargeID] += r.taken()
	l.prepared[r.Entry.ID] = r
}
