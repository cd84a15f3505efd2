package mockpsp

import (
	"fmt"
	"net/http"
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
	default:
		l.distort(draft)
		draft.decide(l.nextCreatedAt(), l.refundable(draft))
		l.countRefund(draft)
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

// refundable returns what the charge of a refund has left. The writer is the only one that changes the books, so it
// may read them without the lock.
func (l *ledger) refundable(draft *record) int64 {
	b := l.books[bookRef{draft.askedAccount(), ObjectCharge}]
	if draft.Entry.Object != ObjectRefund || b == nil {
		return 0
	}
	charge := b.byID[draft.Entry.ChargeID]
	if charge == nil || !charge.succeeded() {
		return 0
	}
	return charge.Entry.AmountCents - l.refunded[charge.Entry.ID]
}

func (l *ledger) countRefund(r *record) {
	if r.Entry.Object == ObjectRefund && r.succeeded() {
		l.refunded[r.Entry.ChargeID] += r.Entry.AmountCents
	}
}
