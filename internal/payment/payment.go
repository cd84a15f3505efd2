// Package payment has the nouns: payments and refunds, their ids, amounts and statuses, what a client may ask for, and
// the bytes of the answer. It reads and writes nothing.
package payment

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"go.jetify.com/typeid/base32"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
)

// Status is the state of a payment or refund.
type Status string

// The statuses of a payment or refund. Failed means that it is proven that the PSP has executed nothing. A retry with
// the same key executes again. Reversed means that the money of a refund has come back after it succeeded. Clients read
// failed for it, which is the field's word: the customer does not have the money, and needs another refund.
const (
	Processing Status = "processing"
	Succeeded  Status = "succeeded"
	Declined   Status = "declined"
	Failed     Status = "failed"
	Reversed   Status = "reversed"
)

// Shown is the status as clients read it.
func (s Status) Shown() Status {
	if s == Reversed {
		return Failed
	}
	return s
}

// Statuses lists those of a payment.
func Statuses() []Status { return []Status{Processing, Succeeded, Declined, Failed} }

// Payment is a charge of a customer.
type Payment struct {
	ID            ID
	Tenant        string
	CustomerID    string
	Amount        AmountMinor
	Currency      Currency
	PaymentMethod string
	Reference     string // the merchant's own id; may be empty
	Description   string
	Metadata      map[string]string
	Status        Status
	PSPChargeID   string
	DeclineCode   string
	Refunded      AmountMinor // by whomever
	Key           string      // the Idempotency-Key of the request that has made it
	Created       time.Time

	// Disputes and Updated are known only of a payment that was read to be shown.
	Disputes    []Dispute
	Updated     time.Time
	PSPObjectID string // the PSP's object of the current attempt, if the PSP executes in two steps
}

// Refund gives back a part of a payment, or all of it.
type Refund struct {
	ID          RefundID
	PaymentID   ID
	Amount      AmountMinor
	Currency    Currency
	Reason      string
	Status      Status
	Origin      Origin
	PSPRefundID string
	DeclineCode string // also why its money came back
	Key         string // as of a Payment; "" if others have made it
	Created     time.Time
	Updated     time.Time // as of a Payment
}

// Origin is who has asked for a refund.
type Origin string

// The origins.
const (
	OriginAPI      Origin = "api"      // the tenant, here
	OriginProvider Origin = "provider" // somebody else, at the PSP: in its dashboard, or by another program
)

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
		r.Status, r.PSPChargeID, r.DeclineCode, r.Refunded, r.Updated = Processing, "", "", 0, time.Time{}
		return r
	case Refund:
		r.Status, r.PSPRefundID, r.DeclineCode, r.Updated = Processing, "", "", time.Time{}
		return r
	}
	return r
}

// OperatorPSPID is the prefix of an id of our own. A movement gets such an id if an operator says that it was executed
// and the PSP has not shown it. After the prefix is the id that the operator names, or else the dead letter's id.
const OperatorPSPID = gateway.OwnPrefix

// VouchedFor reports whether only an operator says that the payment has succeeded, or as what.
func (p Payment) VouchedFor() bool { return Verdict{PSPID: p.PSPChargeID}.VouchedFor() }

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

// VouchedFor reports whether only an operator says so, or as what.
func (v Verdict) VouchedFor() bool { return strings.HasPrefix(v.PSPID, OperatorPSPID) }

// ConfirmedBy reports whether another verdict says the same as v. If an operator has vouched for v without knowing the
// PSP's id, any id confirms v.
func (v Verdict) ConfirmedBy(other Verdict) bool {
	return v.Status == other.Status && (v.PSPID == other.PSPID || v.VouchedFor())
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
	case gateway.DisputeObject:
	}
	return "" // Nothing that we ask for makes one.
}

// AmountMinor counts the minor unit of a currency by ISO 4217: cents of USD, whole yen, thousandths of KWD.
type AmountMinor int64

// Bounds of one payment, in minor units.
const (
	MinAmount AmountMinor = 1
	MaxAmount AmountMinor = 999_999_999_999
)

// Currency is an ISO 4217 alphabetic code.
type Currency string

// MinorDigits is the number of decimal digits of the currency's minor unit. ok is false for a code that is not in use.
// Source: ISO 4217, list one (active currencies and funds). Codes without a minor unit, such as metals, are left out,
// because a PSP does not charge in them.
func (c Currency) MinorDigits() (digits int, ok bool) {
	switch c {
	case "AED", "AFN", "ALL", "AMD", "AOA", "ARS", "AUD", "AWG", "AZN", "BAM", "BBD", "BDT", "BMD", "BND", "BOB",
		"BRL", "BSD", "BTN", "BWP", "BYN", "BZD", "CAD", "CDF", "CHF", "CNY", "COP", "CRC", "CUP", "CVE", "CZK",
		"DKK", "DOP", "DZD", "EGP", "ERN", "ETB", "EUR", "FJD", "FKP", "GBP", "GEL", "GHS", "GIP", "GMD", "GTQ",
		"GYD", "HKD", "HNL", "HTG", "HUF", "IDR", "ILS", "INR", "IRR", "JMD", "KES", "KGS", "KHR", "KPW", "KYD",
		"KZT", "LAK", "LBP", "LKR", "LRD", "LSL", "MAD", "MDL", "MGA", "MKD", "MMK", "MNT", "MOP", "MRU", "MUR",
		"MVR", "MWK", "MXN", "MYR", "MZN", "NAD", "NGN", "NIO", "NOK", "NPR", "NZD", "PAB", "PEN", "PGK", "PHP",
		"PKR", "PLN", "QAR", "RON", "RSD", "RUB", "SAR", "SBD", "SCR", "SDG", "SEK", "SGD", "SHP", "SLE", "SOS",
		"SRD", "SSP", "STN", "SVC", "SYP", "SZL", "THB", "TJS", "TMT", "TOP", "TRY", "TTD", "TWD", "TZS", "UAH",
		"USD", "UYU", "UZS", "VED", "VES", "WST", "XCD", "XCG", "YER", "ZAR", "ZMW", "ZWG":
		return 2, true
	case "BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "VND", "VUV", "XAF", "XOF",
		"XPF":
		return 0, true
	case "BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND":
		return 3, true
	}
	return 0, false
}

// Money writes an amount for people, such as "120.00 USD".
func (c Currency) Money(a AmountMinor) string { return c.Decimal(a) + " " + string(c) }

// Decimal writes an amount in the major unit: 12000 KRW is "12000", 12000 USD is "120.00".
func (c Currency) Decimal(a AmountMinor) string {
	digits, _ := c.MinorDigits()
	s := fmt.Sprintf("%0*d", digits+1, a)
	if digits == 0 {
		return s
	}
	return s[:len(s)-digits] + "." + s[len(s)-digits:]
}

// PaymentID and RefundID identify a payment and a refund. Both are UUIDv7, so their order is the order of creation.
// Their text is a TypeID: a prefix and 26 characters of Crockford's base 32 (github.com/jetify-com/typeid).
type (
	ID       uuid.UUID
	RefundID uuid.UUID
)

const (
	paymentPrefix = "pay_"
	refundPrefix  = "re_"
)

// ErrIDMalformed says that a string is not an id of this kind.
var ErrIDMalformed = errors.New("id malformed")

// String gives "pay_" and 26 characters.
func (id ID) String() string { return encode(paymentPrefix, uuid.UUID(id)) }

// String gives "re_" and 26 characters.
func (id RefundID) String() string { return encode(refundPrefix, uuid.UUID(id)) }

// ParseID reads what ID.String writes, and nothing else.
func ParseID(s string) (ID, error) {
	id, err := decode(paymentPrefix, s)
	return ID(id), err
}

// ParseRefundID reads what RefundID.String writes, and nothing else.
func ParseRefundID(s string) (RefundID, error) {
	id, err := decode(refundPrefix, s)
	return RefundID(id), err
}

func encode(prefix string, id uuid.UUID) string { return prefix + base32.Encode(id) }

func decode(prefix, s string) (uuid.UUID, error) {
	text, ok := strings.CutPrefix(s, prefix)
	id, err := base32.Decode(text)
	if !ok || err != nil || text[0] > '7' { // A first digit above 7 needs more than 128 bits.
		return uuid.UUID{}, ErrIDMalformed
	}
	return uuid.UUID(id), nil
}

// ReferenceOf is our id of a movement, in the form in which we send it to the PSP.
func ReferenceOf(o gateway.Object, id uuid.UUID) string {
	if o == gateway.RefundObject {
		return RefundID(id).String()
	}
	return ID(id).String()
}

// SubjectOf reads what ReferenceOf writes, and nothing else.
func SubjectOf(o gateway.Object, reference string) (id uuid.UUID, ours bool) {
	prefix := paymentPrefix
	if o == gateway.RefundObject {
		prefix = refundPrefix
	}
	id, err := decode(prefix, reference)
	return id, err == nil
}
