package sequence

import (
	"slices"
	"time"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
)

// nothingArrived reports whether the line says that the owner has sent, and that nothing has come back.
func nothingArrived(e idempotency.Event) bool {
	return e.Actor == "owner" && e.To == idempotency.UnknownStatus &&
		(e.Reason == gateway.NoAnswer || e.Reason == gateway.ConnectionLost)
}

// leftNothing reports whether the PSP's ledger was read, and has nothing that a request sent at that time can have
// done.
func (l Life) leftNothing(sent time.Time) bool {
	return l.Ledger != nil && l.LedgerUnread == "" && !slices.ContainsFunc(l.Ledger, func(r gateway.Record) bool {
		return !l.movement(r).At.Before(sent)
	})
}

// movement is the note of a record in the PSP's ledger. A PSP may count whole seconds, and has its own clock: its
// record must not come before the object that it is about, nor before the first request.
func (l Life) movement(r gateway.Record) Step {
	status := r.Status
	if r.DeclineCode != "" {
		status += " (" + r.DeclineCode + ")"
	}
	short := status + ": " + payment.Currency(r.Currency).Money(payment.AmountMinor(r.AmountMinor))
	s := Step{At: r.Created, From: PSP, To: PSP, Label: short + ", " + r.ID, Short: short}
	if s.At.Before(l.begin) {
		s.At = l.begin
	}
	for _, e := range l.Timeline {
		if (line{life: l, e: e}).create() != nil && e.To == idempotency.InProgressStatus && s.At.Before(e.At.Time()) {
			s.At = e.At.Time()
		}
	}
	return s
}

// reservation is the line that has reserved the key for the request of line i.
func (l Life) reservation(i int) int {
	for j := i; j >= 0; j-- {
		if e := l.Timeline[j]; e.Actor == "request" && e.To == idempotency.InProgressStatus {
			return j
		}
	}
	return -1
}

// written is what the request that made reservation j has written of its call of the PSP.
func (l Life) written(j int) (by idempotency.Event, ok bool) {
	for _, e := range l.Timeline[j+1:] {
		if e.Actor == "owner" && e.Attempt == l.Timeline[j].Attempt && e.Generation == l.Timeline[j].Generation {
			return e, true
		}
	}
	return by, false
}

// nextReservation is when the key was reserved again after reservation j; zero if it was not.
func (l Life) nextReservation(j int) time.Time {
	for i := j + 1; i < len(l.Timeline); i++ {
		if l.reservation(i) == i {
			return l.Timeline[i].At.Time()
		}
	}
	return time.Time{}
}

// unanswered reports whether line i makes the key unknown because the lease was over, and nobody knows what has become
// of the request that had it: it has written nothing, nobody remembers its answer, and no end of its process was seen.
func (l Life) unanswered(i int, own map[int]Request, ends map[int]Event) bool {
	e, j := l.Timeline[i], l.reservation(i)
	if e.From != idempotency.InProgressStatus || e.To != idempotency.UnknownStatus || e.Actor == "owner" || j < 0 {
		return false
	}
	_, wrote := l.written(j)
	_, answered := own[j]
	_, ended := ends[j]
	return !wrote && !answered && !ended
}

// lostAnswers are the PSP's answers that have not arrived. Each begins when the PSP had executed, by its ledger. An
// execution that comes after the request has given up is answered to nobody, so it has no arrow.
//
// ends and lapsed are the reservations whose request was ended, and those of which nothing is known but that their
// lease was over.
func (l Life) lostAnswers(ends map[int]Event, lapsed map[int]bool) (lost []Step) {
	for j, e := range l.Timeline {
		if l.reservation(j) != j {
			continue
		}
		label, until := "its answer is lost", l.nextReservation(j)
		written, wrote := l.written(j)
		_, ended := ends[j]
		switch {
		case wrote && nothingArrived(written):
			until = written.At.Time()
		case wrote:
			continue
		case lapsed[j]:
			label = "its answer was not written"
		case !ended:
			continue
		}
		for _, r := range l.Ledger {
			at := l.movement(r).At
			if !at.Before(e.At.Time()) && (until.IsZero() || at.Before(until)) {
				lost = append(lost, Step{At: at, From: PSP, To: API, Inferred: true, Lost: true, Label: label})
			}
		}
	}
	return lost
}
