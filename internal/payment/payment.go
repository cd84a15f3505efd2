// Package payment has the nouns: payments and refunds, their ids, amounts and statuses, what a client may ask for, and
// the bytes of the answer. It reads and writes nothing.
package payment

import (
	"strings"
	"time"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
)

// Status is the state of a payment or refund.
type Status string

// The statuses of a payment or refund. Failed means that it is proven that the PSP has executed nothing. A retry with
// the same key executes again.
const (
	Processing Status = "processing"
	Succeeded  Status = "succeeded"
	Declined   Status = "declined"
	Failed     Status = "failed"
)

// Statuses lists them all.
func Statuses() []Status { return []Status{Processing, Succeeded, Declined, Failed} }

// Payment is a charge of a customer.
type Payment struct {
	ID            ID
	Tenant        string
	CustomerID    string
	Amount        AmountMinor
	Currency      Currency
	PaymentMethod string
	Description   string
	Metadata      map[string]string
	Status        Status
	PSPChargeID   string
	DeclineCode   string
	Refunded      AmountMinor
	Key           string // the Idempotency-Key of the request that has made it
	Created       time.Time

	MovedOutside AmountMinor // what others have moved at the PSP; it may be more than the payment
	PSPObjectID  string      // the PSP's object of the current attempt, if the PSP executes in two steps
}

// Refund gives back a part of a payment, or all of it.
type Refund struct {
	ID          RefundID
	PaymentID   ID
	Amount      AmountMinor
	Currency    Currency
	Reason      string
	Status      Status
	PSPRefundID string
	DeclineCode string
	Key         string // as of a Payment
	Created     time.Time
}

// Resource is a payment or a refund, as the API shows it.
type Resource interface {
	Location() string
	MarshalJSON() ([]byte, error)
	Response(v Verdict, publicURL string) (idempotency.Response, error)
}

// Undecided is the resource as it was before any verdict.
func Undecided(r Resource) Resource {
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

// OperatorPSPID is the prefix of an id of our own. A movement gets such an id if an operator says that it was executed
// and the PSP has not shown it. After the prefix is the id that the operator names, or else the dead letter's id.
const OperatorPSPID = gateway.OwnPrefix

// VouchedFor reports whether only an operator says that the payment has succeeded, or as what.
func (p Payment) VouchedFor() bool { return strings.HasPrefix(p.PSPChargeID, OperatorPSPID) }

// Verdict is the PSP's decision about a movement, or Failed if it is proven that the PSP has executed nothing.
type Verdict struct {
	Status Status
	PSPID  string
	Code   string // the decline code
}

// VerdictOf returns the verdict of an outcome. It is false for an outcome that is not a verdict.
func VerdictOf(o gateway.Outcome) (Verdict, bool) {
	switch o := o.(type) {
	case gateway.Succeeded:
		return Verdict{Status: Succeeded, PSPID: o.ID}, true
	case gateway.Declined:
		return Verdict{Status: Declined, PSPID: o.ID, Code: o.Code}, true
	case gateway.NotExecuted, gateway.Pending, gateway.Indeterminate:
	}
	return Verdict{}, false
}

// ConfirmedBy reports whether another verdict says the same as v. If an operator has vouched for v without knowing the
// PSP's id, any id confirms v.
func (v Verdict) ConfirmedBy(other Verdict) bool {
	return v.Status == other.Status && (v.PSPID == other.PSPID || strings.HasPrefix(v.PSPID, OperatorPSPID))
}

// The operations that a key can be for.
const (
	CreateOperation = "POST /payments"
	RefundOperation = "POST /payments/{id}/refunds"
)

// ObjectOf is the kind of object that a key for this operation moves.
func ObjectOf(o idempotency.Operation) gateway.Object {
	if o == RefundOperation {
		return gateway.RefundObject
	}
	return gateway.ChargeObject
}

// OperationOf is the operation that a key is for if it moves this kind of object.
func OperationOf(o gateway.Object) idempotency.Operation {
	switch o {
	case gateway.ChargeObject:
		return CreateOperation
	case gateway.RefundObject:
		return RefundOperation
	case gateway.DisputeObject, gateway.ReversalObject:
	}
	return "" // Nothing that we ask for makes one.
}
