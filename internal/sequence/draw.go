package sequence

import (
	"fmt"
	"slices"
	"strconv"
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

// line is a line of the timeline, with what is needed to draw it.
type line struct {
	life     Life
	e, next  idempotency.Event // the line, and the one after it
	lost     time.Time         // when the outcome was lost the last time
	answered bool              // the answer to the line's request is remembered, so none is inferred
}

// source is where the line comes from. The reservation and the owner's completion are not written to the timeline,
// because the row tells them.
func (l line) source() Source {
	if l.e.From == "" || l.e.Actor == "owner" && l.e.To == idempotency.CompletedStatus {
		return FromRow
	}
	return FromTimeline
}

func (l line) step(from, to Column, label string) Step {
	return Step{At: l.e.At, From: from, To: to, Source: l.source(), Label: label}
}

// with adds what the client was sent, unless that is remembered. Nobody records whether it has arrived.
func (l line) with(answer string, steps ...Step) []Step {
	if l.answered {
		return steps
	}
	return append(steps, Step{At: l.e.At, From: API, To: Client, Source: Inferred, Label: answer})
}

// steps are the arrows of the line.
func (l line) steps() []Step {
	e, byAPI, byReconciler := l.e, l.step(API, Database, l.change()), l.step(Reconciler, Database, l.change())
	if _, lease, found := strings.Cut(byAPI.Label, "lease "); found {
		byAPI.Short = "reserved " + lease
	}
	switch e.Actor {
	case "request":
		asks := l.step(Client, API, "the same key again")
		if e.From == "" {
			asks.Label = string(l.life.Row.Ref.Operation)
		}
		if e.To != idempotency.InProgressStatus { // It has met a lease that is over.
			return l.with("202, not known yet", asks, byAPI)
		}
		steps := append([]Step{asks, byAPI}, l.create()...)
		if l.next.Actor == "owner" && l.next.To == idempotency.FailedRetryableStatus && !cancelled(l.next) {
			return steps // The owner has executed nothing, and its own line says why.
		}
		return append(steps, l.send())
	case "owner":
		return l.ownerSteps(byAPI)
	case "webhook":
		return []Step{l.step(PSP, API, "webhook: "+e.Reason), byReconciler}
	case "lookup":
		found := l.step(PSP, Reconciler, l.found())
		found.Short, _, _ = strings.Cut(e.Reason, ":")
		return []Step{l.step(Reconciler, PSP, "look up the key"), found, byReconciler}
	case "scan":
		return []Step{l.step(PSP, Reconciler, "ledger scan: "+e.Reason), byReconciler}
	case "statement":
		return []Step{l.step(PSP, Reconciler, "settlement file: "+e.Reason), byReconciler}
	case "operator":
		return []Step{l.step(Operator, API, e.Reason), byAPI}
	}
	byReconciler.Label += " (" + e.Reason + ")" // The sweeper and the pruner.
	return []Step{byReconciler}
}

// create is the request that has made the PSP's object, if there is one, and the commit that has stored its id.
func (l line) create() []Step {
	row := l.life.Row
	if l.life.Object == "" || row.Attempt != l.e.Attempt || row.Generation != l.e.Generation {
		return nil
	}
	return []Step{
		{At: l.e.At, From: API, To: PSP, Source: FromRow, Label: "create " + l.life.Object, Short: "create"},
		{At: l.e.At, From: API, To: Database, Source: FromRow, Label: "store " + l.life.Object, Short: "store the id"},
	}
}

// cancelled reports whether the owner has released the key because the PSP's object is cancelled. Then it has asked the
// PSP to execute the object before.
func cancelled(released idempotency.Event) bool { return released.Reason == "the PSP has cancelled it" }

// send is the request to the PSP that moves the money. It is known to have been sent only if the owner has written what
// came of it.
func (l line) send() Step {
	send := Step{At: l.e.At, From: API, To: PSP, Source: Inferred, Label: "charge"}
	switch {
	case l.life.Row.Ref.Operation != "POST /payments":
		send.Label = "refund"
	case len(l.create()) > 0:
		send.Label = "confirm"
	}
	if l.next.Actor == "owner" {
		send.Source = line{life: l.life, e: l.next}.source()
	}
	return send
}

// ownerSteps are the arrows of a request that writes what came of its call of the PSP.
func (l line) ownerSteps(written Step) []Step {
	switch l.e.To {
	case idempotency.CompletedStatus:
		answer := "the stored response"
		if r := l.life.Row; r.Response != nil && r.Generation == l.e.Generation {
			answer = strconv.Itoa(r.Response.Status)
		}
		return l.with(answer, l.step(PSP, API, "answer"), written)
	case idempotency.UnknownStatus:
		lost := l.step(PSP, API, l.e.Reason)
		lost.Lost = !strings.HasPrefix(l.e.Reason, "the PSP waits") // which is an answer
		return l.with("202, not known yet", lost, written)
	case idempotency.FailedRetryableStatus:
		why := l.step(API, API, l.e.Reason)
		if !cancelled(l.e) {
			return l.with("503, not executed", why, written)
		}
		why.From = PSP
		return l.with("503, not executed", Step{At: l.e.At, From: API, To: PSP, Source: Inferred, Label: "cancel"}, why,
			written)
	case idempotency.InProgressStatus, idempotency.ExpiredStatus:
	}
	return []Step{written}
}

// found is what a lookup has found, and until when finding nothing proves nothing.
func (l line) found() string {
	end := l.lost.Add(l.life.GracePeriod)
	if l.e.To != idempotency.UnknownStatus || l.lost.IsZero() || !l.e.At.Before(end) {
		return l.e.Reason
	}
	return l.e.Reason + ", no proof before " + end.UTC().Format(time.TimeOnly)
}

// change is what the line did to the key.
func (l line) change() string {
	e, row := l.e, l.life.Row
	switch {
	case e.To == idempotency.InProgressStatus:
		label := fmt.Sprintf("reserved, attempt %d", e.Attempt)
		if e.Generation > 1 {
			label += fmt.Sprintf(", generation %d", e.Generation)
		}
		if row.LockedUntil != nil && row.Attempt == e.Attempt && row.Generation == e.Generation {
			label += ", lease until " + row.LockedUntil.UTC().Format(time.TimeOnly)
		}
		return label
	case e.From == e.To:
		return "stays " + string(e.To)
	}
	return string(e.To)
}
