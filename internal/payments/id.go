package payments

import (
	"encoding/base32"
	"errors"
	"strings"

	"github.com/google/uuid"
)

// PaymentID and RefundID identify what they say. Both are UUIDv7, so their order is the order of creation, and are shown
// in the TypeID form: a prefix and 26 characters of Crockford's base 32 (github.com/jetify-com/typeid).
type (
	PaymentID uuid.UUID
	RefundID  uuid.UUID
)

const (
	paymentPrefix = "pay_"
	refundPrefix  = "re_"
)

// ErrIDMalformed says that a string is no id of the kind.
var ErrIDMalformed = errors.New("id malformed")

// String gives "pay_" and 26 characters.
func (id PaymentID) String() string { return paymentPrefix + encode(uuid.UUID(id)) }

// String gives "re_" and 26 characters.
func (id RefundID) String() string { return refundPrefix + encode(uuid.UUID(id)) }

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
func crockford() *base32.Encoding {
	return base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)
}

// encode writes 128 bits as 26 digits of 5, with two zero bits in front. base32 pads at the end, so the 16 bytes go in
// behind four zero bytes, and the six digits that those 32-2 bits make are cut off.
func encode(id uuid.UUID) string {
	var wide [20]byte
	copy(wide[4:], id[:])
	return crockford().EncodeToString(wide[:])[6:]
}

func decode(prefix, s string) (uuid.UUID, error) {
	digits, ok := strings.CutPrefix(s, prefix)
	if !ok || len(digits) != 26 {
		return uuid.UUID{}, ErrIDMalformed
	}
	wide, err := crockford().DecodeString("000000" + digits)
	// Newlines count for nothing in package base32: with one among the digits, there are fewer bytes.
	if err != nil || len(wide) != 20 || wide[3] != 0 {
		return uuid.UUID{}, ErrIDMalformed
	}
	return uuid.UUID(wide[4:]), nil
}
