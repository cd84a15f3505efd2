package sequence

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"payonce/internal/idempotency"
)

// Life is what is known of a key.
type Life struct {
	Row idempotency.KeyRow
	// Timeline is the whole timeline, as KeyRow.Timeline returns it.
	Timeline []idempotency.Event
	// Ledger are the records of the PSP under the key.
	Ledger []Movement
	// Object is the id of the PSP's object of the present attempt, if the PSP executes in two steps. It was made before
	// the execution. The objects of earlier attempts are not recorded.
	Object string
	// LedgerUnread is why the PSP's ledger could not be read; empty if it was.
	LedgerUnread string
	// Requests are the requests with the key that an API process remembers, in the order of their answers.
	Requests []Request
	// Started is when that process was started; zero if it is not known.
	Started time.Time
	// GracePeriod is how long after a loss a lookup that finds nothing proves nothing; zero if that is not known.
	GracePeriod time.Duration
}

// Movement is a record in the PSP's ledger.
type Movement struct {
	At    time.Time
	Label string // such as "succeeded: 120.00 USD, ch_1"
}

// Draw makes the diagram of a key's life.
func Draw(l Life) Diagram {
	d := Diagram{Title: string(l.Row.Ref.Operation) + ", key " + l.Row.Ref.Key.String()}
	own, others := l.matchRequests()
	var lost time.Time
	answered := false // the request of the line is remembered, and so is its answer
	told := false     // the same, of the request that has reserved the key the last time
	for i, e := range l.Timeline {
		var next idempotency.Event
		if cut := i == 0 && len(l.Timeline) > idempotency.MaxEvents; i+1 < len(l.Timeline) && !cut {
			next = l.Timeline[i+1]
		}
		if e.From == idempotency.InProgressStatus && e.To == idempotency.UnknownStatus {
			lost = e.At
		}
		if e.Actor == "request" {
			_, answered = own[i]
			told = told && e.To != idempotency.InProgressStatus || answered && e.To == idempotency.InProgressStatus
		}
		if l.unanswered(i) && !told {
			d.Steps = append(d.Steps, Step{At: e.At, From: PSP, To: API, Source: Inferred, Lost: true,
				Label: "no answer was written"})
		}
		d.Steps = append(d.Steps, line{l, e, next, lost, answered}.steps()...)
	}
	// After the lines, so that of two steps at one moment the answer comes last.
	for i := range l.Timeline {
		if r, ok := own[i]; ok {
			d.Steps = append(d.Steps, l.ownAnswer(i, r))
		}
	}
	d.Steps = append(d.Steps, l.others(others)...)
	if len(l.Timeline) > idempotency.MaxEvents {
		d.Remarks = append(d.Remarks, fmt.Sprintf("Between the first reservation and the latest %d lines, others are left out.",
			idempotency.MaxEvents))
	}
	if l.LedgerUnread != "" {
		d.Remarks = append(d.Remarks, "The PSP's ledger is not shown: "+l.LedgerUnread+".")
	}
	for _, c := range l.Ledger {
		short, _, _ := strings.Cut(c.Label, ", ") // without the PSP's id
		d.Steps = append(d.Steps, Step{At: l.notBeforeObject(c.At), From: PSP, To: PSP, Label: c.Label, Short: short,
			Source: FromLedger})
	}
	if l.startedWithin(d.Steps) {
		d.Steps = append(d.Steps, Step{At: l.Started, From: API, To: API, Source: FromMemory,
			Label: "this API process starts"})
	}
	if d.Forgotten = l.olderThanProcess(); d.Forgotten {
		d.Remarks = append(d.Remarks, "The key is older than this API process. Of the requests that another process has "+
			"answered, only those that wrote something are shown.")
	}
	d.sort()
	d.Last = lastOf(d.Steps)
	d.Requests = len(others)
	for _, e := range l.Timeline {
		if e.Actor == "request" {
			d.Requests++
		}
	}
	return d
}

// notBeforeObject is the time of a record in the PSP's ledger. A PSP may count whole seconds: its record must not come
// before the object that it is about.
func (l Life) notBeforeObject(at time.Time) time.Time {
	for _, e := range l.Timeline {
		if (line{life: l, e: e}).create() != nil && e.To == idempotency.InProgressStatus && at.Before(e.At) {
			return e.At
		}
	}
	return at
}

// unanswered reports whether line i makes the key unknown because the lease was over, and the owner has not written
// anything since.
func (l Life) unanswered(i int) bool {
	e := l.Timeline[i]
	if e.From != idempotency.InProgressStatus || e.To != idempotency.UnknownStatus || e.Actor == "owner" {
		return false
	}
	return !slices.ContainsFunc(l.Timeline[i+1:], func(late idempotency.Event) bool {
		return late.Actor == "owner" && late.Attempt == e.Attempt && late.Generation == e.Generation
	})
}

// lastOf is the last participant of the steps. The PSP is always drawn: it is what a key protects.
func lastOf(steps []Step) Column {
	last := PSP
	for _, s := range steps {
		last = max(last, s.From, s.To)
	}
	return last
}

// olderThanProcess reports whether the key was reserved before the process was started that remembers requests. What
// another process has answered is not remembered, so the picture may lack it.
func (l Life) olderThanProcess() bool {
	return !l.Started.IsZero() && len(l.Timeline) > 0 && l.Started.After(l.Timeline[0].At)
}

// startedWithin reports whether the process was started within the life that the steps show: the key was not final yet,
// or an API process has done something since. Many keys are older than the process, and for most of them that means
// nothing.
func (l Life) startedWithin(steps []Step) bool {
	if !l.olderThanProcess() {
		return false
	}
	open := l.Row.Status == idempotency.InProgressStatus || l.Row.Status == idempotency.UnknownStatus
	return open || slices.ContainsFunc(steps, func(s Step) bool {
		return s.At.After(l.Started) && (s.From == API || s.To == API)
	})
}
