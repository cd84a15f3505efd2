package sequence

import (
	"fmt"
	"slices"
	"time"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
)

// Life is what is known of a key.
type Life struct {
	Row idempotency.KeyRow
	// Timeline is the whole timeline, as KeyRow.Timeline returns it.
	Timeline []idempotency.Event
	// Ledger are the records of the PSP under the key.
	Ledger []gateway.Record
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

// SetLedger takes the PSP's answer about its ledger. If the lookup has failed, the records of the answer before stay.
func (l *Life) SetLedger(answer gateway.Lookup) {
	l.LedgerUnread = ""
	switch a := answer.(type) {
	case gateway.Found:
		l.Ledger = a.Records
	case gateway.NotFound:
		l.Ledger = nil
	case gateway.Waiting:
		l.Ledger, l.LedgerUnread = nil, "it waits: "+a.Reason
	case gateway.LookupFailed:
		l.LedgerUnread = a.Reason
	}
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
			lost = e.At.Time()
		}
		if e.Actor == "request" {
			d.Requests++
			_, answered = own[i]
			told = told && e.To != idempotency.InProgressStatus || answered && e.To == idempotency.InProgressStatus
		}
		if l.unanswered(i) && !told {
			d.Steps = append(d.Steps, Step{At: e.At.Time(), From: PSP, To: API, Inferred: true, Lost: true,
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
	for _, r := range l.Ledger {
		d.Steps = append(d.Steps, l.movement(r))
	}
	// What another process has answered is not remembered, so the picture may lack it.
	d.Forgotten = !l.Started.IsZero() && len(l.Timeline) > 0 && l.Started.After(l.Timeline[0].At.Time())
	if d.Forgotten {
		if l.startMatters(d.Steps) {
			d.Steps = append(d.Steps, Step{At: l.Started, From: API, To: API, Label: "this API process starts"})
		}
		d.Remarks = append(d.Remarks, "The key is older than this API process. Of the requests that another process has "+
			"answered, only those that wrote something are shown.")
	}
	// Steps of one moment keep their order. The PSP has its own clock, so its records may be some milliseconds off.
	slices.SortStableFunc(d.Steps, func(a, b Step) int { return a.At.Compare(b.At) })
	d.Requests += len(others)
	return d
}

// movement is the note of a record in the PSP's ledger. A PSP may count whole seconds: its record must not come before
// the object that it is about.
func (l Life) movement(r gateway.Record) Step {
	status := r.Status
	if r.DeclineCode != "" {
		status += " (" + r.DeclineCode + ")"
	}
	short := status + ": " + payment.Currency(r.Currency).Money(payment.AmountMinor(r.AmountMinor))
	s := Step{At: r.Created, From: PSP, To: PSP, Label: short + ", " + r.ID, Short: short}
	for _, e := range l.Timeline {
		if (line{life: l, e: e}).create() != nil && e.To == idempotency.InProgressStatus && s.At.Before(e.At.Time()) {
			s.At = e.At.Time()
		}
	}
	return s
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

// startMatters reports whether the process was started within the life that the steps show: the key was not final yet,
// or an API process has done something since. Many keys are older than the process, and for most of them that means
// nothing.
func (l Life) startMatters(steps []Step) bool {
	open := l.Row.Status == idempotency.InProgressStatus || l.Row.Status == idempotency.UnknownStatus
	return open || slices.ContainsFunc(steps, func(s Step) bool {
		return s.At.After(l.Started) && (s.From == API || s.To == API)
	})
}
