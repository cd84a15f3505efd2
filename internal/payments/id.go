package payments

import (
	"encoding/binary"
	"errors"
	"strings"

	"github.com/google/uuid"

	"payonce/internal/gateway"
)

// PaymentID and RefundID identify a payment and a refund. Both are UUIDv7, so their order is the order of creation.
// Their text is a TypeID: a prefix and 26 characters of Crockford's base 32 (github.com/jetify-com/typeid).
type (
	PaymentID uuid.UUID
	RefundID  uuid.UUID
)

const (
	paymentPrefix = "pay_"
	refundPrefix  = "re_"
)

// ErrIDMalformed says that a string is not an id of this kind.
var ErrIDMalformed = errors.New("id malformed")

// String gives "pay_" and 26 characters.
func (id PaymentID) String() string { return encode(paymentPrefix, uuid.UUID(id)) }

// String gives "re_" and 26 characters.
func (id RefundID) String() string { return encode(refundPrefix, uuid.UUID(id)) }

// ParsePaymentID reads what PaymentID.String writes, and nothing else.
func ParsePaymentID(s string) (PaymentID, error) {
	id, err := decode(paymentPrefix, s)
	return PaymentID(id), err
}

// ParseRefundID reads what RefundID.String writes, and nothing else.
func ParseRefundID(s string) (RefundID, error) {
	id, err := decode(refundPrefix, s)
	return RefundID(id), err
}

// crockford is Crockford's alphabet in lower case: no i, l, o, u.
const crockford = "0123456789abcdefghjkmnpqrstvwxyz"

// digits is how many digits of 5 bits an id of 128 bits needs. The first digit begins with two zero bits.
const digits = 26

// encode and decode treat the id as a number of two words. Package base32 does not fit: it pads at the end, and TypeID
// pads at the beginning.
func encode(prefix string, id uuid.UUID) string {
	high, low := binary.BigEndian.Uint64(id[:8]), binary.BigEndian.Uint64(id[8:])
	var text [digits]byte
	for i := digits - 1; i >= 0; i-- {
		text[i] = crockford[low&31]
		high, low = high>>5, high<<59|low>>5
	}
	return prefix + string(text[:])
}

func decode(prefix, s string) (uuid.UUID, error) {
	text, ok := strings.CutPrefix(s, prefix)
	if !ok || len(text) != digits || text[0] > '7' { // A first digit above 7 needs more than 128 bits.
		return uuid.UUID{}, ErrIDMalformed
	}
	var high, low uint64
	for i := range digits {
		digit := strings.IndexByte(crockford, text[i])
		if digit < 0 {
			return uuid.UUID{}, ErrIDMalformed
		}
		high, low = high<<5|low>>59, low<<5|uint64(digit)
	}
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:8], high)
	binary.BigEndian.PutUint64(id[8:], low)
	return id, nil
}

// ReferenceOf is our id of a movement, in the form in which we send it to the PSP.
func ReferenceOf(o gateway.Object, id uuid.UUID) string {
	if o == gateway.RefundObject {
		return RefundID(id).String()
	}
	return PaymentID(id).String()
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
