package sequence

import (
	"fmt"
	"slices"
	"time"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
)

// Life is what is known of a key.
type Life struct {
	Row idempotency.KeyRow
	// Timeline is the whole timeline, as KeyRow.Timeline returns it.
	Timeline []idempotency.Event
	// Ledger are the records of the PSP under the key; nil if its ledger was never read.
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
	// Events are what has happened to the processes, oldest first, if somebody has seen that.
	Events []Event

	begin time.Time // of the first request
}

// SetLedger takes the PSP's answer about its ledger. If the lookup has failed, the records of the answer before stay.
func (l *Life) SetLedger(answer gateway.Lookup) {
	l.LedgerUnread = ""
	switch a := answer.(type) {
	case gateway.Found:
		l.Ledger = a.Records
	case gateway.NotFound:
		l.Ledger = []gateway.Record{}
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
	l.begin = l.beginning(others)
	attempts := l.attempts(own)
	var lostAnswers []Step
	d.Steps, lostAnswers = l.losses(attempts)
	var lost time.Time
	answered := false // the request of the line is remembered, and so is its answer
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
		}
		d.Steps = append(d.Steps, line{l, e, next, lost, answered}.steps()...)
	}
	// After the lines, so that of two steps at one moment the answer comes last.
	for i := range l.Timeline {
		if r, ok := own[i]; ok {
			d.Steps = append(append(d.Steps, r.hangUp()...), l.ownAnswer(i, r))
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
	if l.Object != "" && len(l.Ledger) > 0 {
		d.Remarks = append(d.Remarks, "The PSP tells when it made an object, and not when it executed the object.")
	}
	for _, r := range l.Ledger {
		d.Steps = append(d.Steps, l.movement(r))
	}
	d.Steps = append(append(d.Steps, lostAnswers...), l.happened(attempts)...)
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

// beginning is when the first request came that is drawn.
func (l Life) beginning(others []Request) (first time.Time) {
	if len(l.Timeline) > 0 {
		first = l.Timeline[0].At.Time()
	}
	for _, r := range others {
		if first.IsZero() || r.Began.Before(first) {
			first = r.Began
		}
	}
	return first
}

// since is a time in a label.
func (l Life) since(at time.Time) string { return "+" + elapsed(at.Sub(l.begin), time.Second) }

// present reports whether the line is of the key's present attempt.
func (l Life) present(e idempotency.Event) bool {
	return e.Attempt == l.Row.Attempt && e.Generation == l.Row.Generation
}

// open reports whether the key waits for an outcome.
func (l Life) open() bool {
	return l.Row.Status == idempotency.InProgressStatus || l.Row.Status == idempotency.UnknownStatus
}

// startMatters reports whether the process was started within the life that the steps show: the key was not final yet,
// or an API process has done something since. Many keys are older than the process, and for most of them that means
// nothing.
func (l Life) startMatters(steps []Step) bool {
	return l.open() || slices.ContainsFunc(steps, func(s Step) bool {
		return s.At.After(l.Started) && (s.From == API || s.To == API)
	})
}
