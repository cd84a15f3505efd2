package sequence

import (
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

// leftNothing reports whether the PSP's ledger was read, and has nothing of what the line's request has sent. It is the
// ledger of the present generation. At a PSP that makes objects, it is that of the present attempt.
func (l Life) leftNothing(e idempotency.Event) bool {
	return l.Ledger != nil && len(l.Ledger) == 0 && l.LedgerUnread == "" && e.Generation == l.Row.Generation &&
		(l.Object == "" || l.present(e))
}

// movement is the note of a record in the PSP's ledger. A PSP may count whole seconds, and has its own clock: its
// record must not come before the object that it is about, nor before the first request. A record of an object has the
// time when the object was made, and the PSP has executed it at some later time.
func (l Life) movement(r gateway.Record) Step {
	status := r.Status
	if r.DeclineCode != "" {
		status += " (" + r.DeclineCode + ")"
	}
	if l.Object != "" {
		status = "later " + status
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
	left     time.Time         // when the key was not in progress any more; zero if it is
	lapsed   bool              // because others found that its lease was over
	answered bool              // its answer is remembered
	ended    Event             // the end of its process; zero if nobody has seen that
}

// longestRequest is longer than any request takes: the server's limit, and the minute for which a demo may hold it.
const longestRequest = 2 * time.Minute

// attempts are all reservations.
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
			a := &all[j]
			if e.Attempt != a.number || e.Generation != a.life {
				continue
			}
			if e.Actor == "owner" {
				a.wrote = e
			}
			if e.From == idempotency.InProgressStatus {
				a.left, a.lapsed = e.At.Time(), e.Actor != "owner" && e.To == idempotency.UnknownStatus
			}
		}
	}
	for j := range all {
		all[j].ended = l.endOf(all[j])
	}
	return all
}

// endOf is the end of the API process that has made the attempt: the first one after it. A later one has nothing to do
// with the request. So there is none if the answer is remembered, if the process must have ended before (another one
// has started, or the lease was over), or if the request must have.
func (l Life) endOf(a attempt) Event {
	for _, x := range l.Events {
		switch {
		case processes[x.Process] != API || x.At.Before(a.at):
		case x.What == Starts && x.At.Before(a.at.Add(maxSkew)): // A start is seen some moments late.
		case x.What == Starts, a.answered, x.At.Sub(a.at) > longestRequest, a.lapsed && x.At.After(a.left),
			!a.next.IsZero() && !x.At.Before(a.next):
			return Event{}
		default:
			return x
		}
	}
	return Event{}
}

// losses are the PSP's answers that have not arrived, and notes where only the end of a lease tells of one. An answer
// begins when the PSP had executed, by its ledger. An execution after the request has given up is answered to nobody,
// so it has no arrow. Of an object, nobody knows when it was executed, so it has none either.
func (l Life) losses(attempts []attempt) (notes, answers []Step) {
	for _, a := range attempts {
		label, until := "its answer is lost", a.at.Add(longestRequest)
		if !a.left.IsZero() && a.left.Before(until) {
			until = a.left
		}
		switch {
		case a.wrote.Actor != "" && !nothingArrived(a.wrote):
			continue
		case a.wrote.Actor != "":
			until = a.wrote.At.Time()
		case a.ended.What != "" && (a.left.IsZero() || a.ended.At.Before(a.left)):
		case !a.lapsed || a.answered:
			continue
		default:
			label = "its answer was not written"
			notes = append(notes, Step{At: a.left, From: API, To: API, Inferred: true,
				Label: "no answer was written"})
		}
		for _, r := range l.Ledger {
			if at := l.movement(r).At; l.Object == "" && !at.Before(a.at) && at.Before(until) {
				answers = append(answers, Step{At: at, From: PSP, To: API, Inferred: true, Lost: true, Label: label})
			}
		}
	}
	return notes, answers
}
