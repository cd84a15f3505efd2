package payment

import (
	"errors"
	"strings"

	"github.com/google/uuid"
	"go.jetify.com/typeid/base32"

	"payonce/internal/gateway"
)

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
