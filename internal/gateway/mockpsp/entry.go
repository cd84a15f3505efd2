package mockpsp

import (
	"crypto/rand"
	"net/http"
	"strings"
	"time"
)

const (
	objectCharge = "charge"
	objectRefund = "refund"

	statusSucceeded = "succeeded"
	statusDeclined  = "declined"

	// timeLayout has a fixed width, so that text order is time order.
	timeLayout = "2006-01-02T15:04:05.000000Z"
)

// entry is a charge or a refund as the ledger holds it and as the API shows it: to a ledger they are the same thing,
// with the sign reversed. Amounts are counts of the currency's minor unit.
type entry struct {
	ID             string `json:"id"`
	Object         string `json:"object"`
	Account        string `json:"account"`
	IdempotencyKey string `json:"idempotencyKey"`
	Reference      string `json:"reference"`
	ChargeID       string `json:"chargeId,omitempty"` // of a refund
	AmountCents    int64  `json:"amountCents"`
	Currency       string `json:"currency"`
	PaymentMethod  string `json:"paymentMethod,omitempty"` // of a charge
	Reason         string `json:"reason,omitempty"`        // of a refund
	Status         string `json:"status"`
	DeclineCode    string `json:"declineCode,omitempty"`
	CreatedAt      string `json:"createdAt"`
}

// record is an entry and how it came about: one line of the ledger's file. Before it is written it is a draft, with
// what was asked for and no outcome. With a due time it is a promise that the draft will land then.
// Once written it never changes.
type record struct {
	Entry    entry     `json:"entry"`
	Path     string    `json:"path"`     // where the key was sent
	BodyHash string    `json:"bodyHash"` // of the request, to tell a repeat from a misuse
	Fault    fault     `json:"fault"`
	DueAt    time.Time `json:"dueAt,omitzero"`

	position int // among the account's entries of the same object
}

// keyRef identifies an intended operation: keys of other accounts or paths are other keys.
type keyRef struct{ account, path, key string }

func (r *record) ref() keyRef { return keyRef{r.Entry.Account, r.Path, r.Entry.IdempotencyKey} }

func (r *record) isPromise() bool { return !r.DueAt.IsZero() }

func (r *record) succeeded() bool { return r.Entry.Status == statusSucceeded }

func (r *record) lookupsFail() bool {
	does, _ := r.Fault.behaviour()
	return does.lookupsFail
}

// reply renders the record's answer. It is the same for the first send and for every later one.
func (r *record) reply(replayed bool) reply {
	status := http.StatusCreated
	if !r.succeeded() {
		status = http.StatusPaymentRequired
	}
	answer := jsonReply(status, &r.Entry)
	answer.replayed = replayed
	return answer
}

// decide completes a draft. refundable is what the charge of a refund has left.
func (r *record) decide(createdAt time.Time, refundable int64) {
	does, _ := r.Fault.behaviour()
	e := &r.Entry
	e.ID = newID(e.Object)
	e.CreatedAt = createdAt.Format(timeLayout)
	e.Status = statusSucceeded
	if does.wrongAmount {
		e.AmountCents = wrongAmount(e.Object, e.AmountCents)
	}
	if does.declined {
		e.Status, e.DeclineCode = statusDeclined, "insufficient_funds"
	} else if e.Object == objectRefund && e.AmountCents > refundable {
		e.Status, e.DeclineCode = statusDeclined, "refund_exceeds_charge"
	}
}

// wrongAmount is off by one: upwards for a charge, downwards for a refund, which could otherwise exceed its charge.
func wrongAmount(object string, asked int64) int64 {
	if object == objectRefund && asked > 1 {
		return asked - 1
	}
	return asked + 1
}

// newID takes 130 random bits. They come from the system, not from the seed: ids must not repeat after a restart.
func newID(object string) string {
	prefix := "ch_"
	if object == objectRefund {
		prefix = "rf_"
	}
	return prefix + strings.ToLower(rand.Text())
}
