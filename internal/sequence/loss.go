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

// leftNothing reports whether the PSP's ledger was read, and has nothing under the key.
func (l Life) leftNothing() bool {
	return l.Ledger != nil && len(l.Ledger) == 0 && l.LedgerUnread == ""
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

// attempt is a reservation of the key, and what became of the request that made it.
type attempt struct {
	at, next time.Time // when it was made, and the next one was; zero if there is none
	number   int32
	life     int32             // the generation
	wrote    idempotency.Event // what the request has written; zero if nothing
	lapsed   time.Time         // when others found that its lease was over; zero if they did not
	answered bool              // its answer is remembered
	ended    Event             // the end of its process; zero if nobody has seen that
}

// has reports whether what happened at that time belongs to the attempt, and to no later one.
func (a attempt) has(at time.Time) bool {
	return !at.Before(a.at) && (a.next.IsZero() || at.Before(a.next))
}

// attempts are all reservations. The end of the process of one is the first end of an API process after it, unless its
// answer is remembered: a later one ends a process that has nothing to do with the request.
func (l Life) attempts(own map[int]Request) (all []attempt) {
	for i, e := range l.Timeline {
		if at := e.At.Time(); e.Actor == "request" && e.To == idempotency.InProgressStatus {
			if len(all) > 0 {
				all[len(all)-1].next = at
			}
			_, answered := own[i]
			all = append(all, attempt{at: at, number: e.Attempt, life: e.Generation, answered: answered})
			continue
		}
		for j := range all {
			switch a := &all[j]; {
			case e.Attempt != a.number || e.Generation != a.life:
			case e.Actor == "owner":
				a.wrote = e
			case e.From == idempotency.InProgressStatus && e.To == idempotency.UnknownStatus:
				a.lapsed = e.At.Time()
			}
		}
	}
	for j := range all {
		a := &all[j]
		i := slices.IndexFunc(l.Events, func(x Event) bool {
			return processes[x.Process] == API && x.What != Starts && a.has(x.At)
		})
		if i >= 0 && !a.answered {
			a.ended = l.Events[i]
		}
	}
	return all
}

// losses are the PSP's answers that have not arrived, and notes where only the end of a lease tells of one. An answer
// begins when the PSP had executed, by its ledger. An execution after the request has given up is answered to nobody,
// so it has no arrow.
func (l Life) losses(attempts []attempt) (notes, answers []Step) {
	for _, a := range attempts {
		label := "its answer is lost"
		switch {
		case a.wrote.Actor != "" && !nothingArrived(a.wrote):
			continue
		case a.wrote.Actor != "":
			a.next = a.wrote.At.Time()
		case a.ended.What != "":
		case a.lapsed.IsZero() || a.answered:
			continue
		default:
			label = "its answer was not written"
			notes = append(notes, Step{At: a.lapsed, From: API, To: API, Inferred: true,
				Label: "no answer was written"})
		}
		for _, r := range l.Ledger {
			if at := l.movement(r).At; a.has(at) {
				answers = append(answers, Step{At: at, From: PSP, To: API, Inferred: true, Lost: true, Label: label})
			}
		}
	}
	return notes, answers
}
