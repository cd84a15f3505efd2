package sequence

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"payonce/internal/idempotency"
	"payonce/internal/payment"
)

// line is a line of the timeline, with what is needed to draw it.
type line struct {
	life     Life
	e, next  idempotency.Event // the line, and the one after it
	lost     time.Time         // when the outcome was lost the last time
	answered bool              // the answer to the line's request is remembered, so none is inferred
}

func (l line) step(from, to Column, label string) Step {
	return Step{At: l.e.At.Time(), From: from, To: to, Label: label}
}

// with adds what the client was sent, unless that is remembered. Nobody records whether it has arrived.
func (l line) with(answer string, steps ...Step) []Step {
	if l.answered {
		return steps
	}
	return append(steps, Step{At: l.e.At.Time(), From: API, To: Client, Inferred: true, Label: answer})
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
		told := l.step(PSP, API, "webhook: "+e.Reason)
		if l.life.away(e.At.Time()) { // It has come before, and the reconciler has read it now.
			told.From, told.To = Database, Reconciler
		}
		return []Step{told, byReconciler}
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
	if l.life.Object == "" || !l.life.present(l.e) {
		return nil
	}
	return []Step{
		{At: l.e.At.Time(), From: API, To: PSP, Label: "create " + l.life.Object, Short: "create"},
		{At: l.e.At.Time(), From: API, To: Database, Label: "store " + l.life.Object, Short: "store the id"},
	}
}

// cancelled reports whether the owner has released the key because the PSP's object is cancelled. Then it has asked the
// PSP to execute the object before.
func cancelled(released idempotency.Event) bool { return released.Reason == "the PSP has cancelled it" }

// send is the request to the PSP that moves the money. It is known to have been sent only if the owner has written what
// came of it.
func (l line) send() Step {
	send := Step{At: l.e.At.Time(), From: API, To: PSP, Inferred: l.next.Actor != "owner", Label: "charge"}
	switch {
	case l.life.Row.Ref.Operation == payment.RefundOperation:
		send.Label = "refund"
	case len(l.create()) > 0:
		send.Label = "confirm"
	}
	if nothingArrived(l.next) && l.life.leftNothing(l.e) {
		send.Label, send.Lost = send.Label+"; the PSP has nothing", true
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
		answer := l.step(PSP, API, l.e.Reason)
		answer.Unusable = !strings.HasPrefix(l.e.Reason, "the PSP waits")
		if nothingArrived(l.e) {
			answer = l.step(API, API, l.e.Reason)
		}
		return l.with("202, not known yet", answer, written)
	case idempotency.FailedRetryableStatus:
		why := l.step(API, API, l.e.Reason)
		if !cancelled(l.e) {
			return l.with("503, not executed", why, written)
		}
		why.From = PSP
		return l.with("503, not executed", Step{At: l.e.At.Time(), From: API, To: PSP, Inferred: true, Label: "cancel"},
			why, written)
	case idempotency.InProgressStatus, idempotency.ExpiredStatus:
	}
	return []Step{written}
}

// found is what a lookup has found, and until when finding nothing proves nothing.
func (l line) found() string {
	end := l.lost.Add(l.life.GracePeriod)
	if l.e.To != idempotency.UnknownStatus || l.lost.IsZero() || !l.e.At.Time().Before(end) {
		return l.e.Reason
	}
	return l.e.Reason + ", no proof before " + l.life.since(end)
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
		if row.LockedUntil != nil && l.life.present(e) {
			label += ", lease until " + l.life.since(*row.LockedUntil)
		}
		return label
	case e.From == e.To:
		return "stays " + string(e.To)
	}
	return string(e.To)
}
