package payments

import (
	"errors"
	"time"

	"payonce/internal/idempotency"
)

// Resource is a payment or a refund, as the API shows it.
type Resource interface {
	Location() string
	MarshalJSON() ([]byte, error)
}

// Answer is what a keyed request comes to: one of Final, Pending, InFlight, Mismatch, NotExecuted, Forgotten.
//
//sumtype:decl
type Answer interface{ answer() }

// Final is a stored response: the PSP's verdict, now and on every replay.
type Final struct {
	Response idempotency.Response
	Replayed bool
	Expires  time.Time
}

// Pending: the outcome is not known yet. Asking again is safe, paying again is not.
type Pending struct {
	Resource Resource
	Expires  time.Time
}

// pendingFor answers for a movement of which the key has no verdict yet, as far as we know. Its row may have been read on the way, and have one:
// an answer that shows it would be two answers in one, and 202 is not what the key will answer from now on.
func pendingFor(m movement, expires time.Time) Pending {
	return Pending{Resource: undecided(m.resource()), Expires: expires}
}

// told is the answer to the request whose own step was written.
func told(g gathered, step Step, applied Applied) Answer {
	switch step.To {
	case idempotency.CompletedStatus:
		return Final{Response: applied.Response, Expires: applied.Expires}
	case idempotency.FailedRetryableStatus:
		return NotExecuted{Resource: g.movement.resource(), Expires: applied.Expires}
	case idempotency.InProgressStatus, idempotency.UnknownStatus, idempotency.ExpiredStatus:
	}
	return pendingFor(g.movement, applied.Expires)
}

// undecided is the resource as it was before any verdict.
func undecided(r Resource) Resource {
	switch r := r.(type) {
	case Payment:
		r.Status, r.PSPChargeID, r.DeclineCode, r.Refunded = Processing, "", "", 0
		return r
	case Refund:
		r.Status, r.PSPRefundID, r.DeclineCode = Processing, "", ""
		return r
	}
	return r
}

// InFlight: another request with the key is being executed now.
type InFlight struct {
	Resource Resource
	Expires  time.Time
}

// Mismatch: the key stands for another request.
type Mismatch struct{ Expires time.Time }

// NotExecuted: proven to have had no effect. The same key may be sent again. Expires is zero when the key was not even
// reserved, Resource nil.
type NotExecuted struct {
	Resource Resource
	Expires  time.Time
}

// Forgotten: the key was never executed, and is so old that the PSP would not know it again. It is not executed any more.
type Forgotten struct{ Expires time.Time }

func (Final) answer()       {}
func (Pending) answer()     {}
func (InFlight) answer()    {}
func (Mismatch) answer()    {}
func (NotExecuted) answer() {}
func (Forgotten) answer()   {}

// Refusals of a refund by the state of its payment. The key is not consumed.
var (
	ErrPaymentNotFound      = errors.New("payment not found")
	ErrRefundNotFound       = errors.New("refund not found")
	ErrPaymentNotRefundable = errors.New("payment not refundable")
	ErrRefundExceedsPayment = errors.New("refund exceeds payment")
)
