package gateway

import (
	"cmp"
	"errors"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The objects of a line that moves no customer's money.
const (
	FeeObject    Object = "fee"
	PayoutObject Object = "payout"
	// UnknownObject is that of a line whose type we do not know. Only its sum is kept, by the name of the type.
	UnknownObject Object = ""
)

// Line is a line of a statement: a change of the account's balance at the PSP.
type Line struct {
	// Record is the movement that the line is about, dated when the line was booked. Without a Status there is no
	// movement to compare with our books: the line is a fee or a payout, of another program, of a movement that is not
	// final, or of an unknown type. A payout has its ID.
	Record

	LineID string
	Type   string // the provider's word
	// FeeMinor is what the provider has kept, and NetMinor what the balance has gained. Their sum is the gross amount.
	FeeMinor, NetMinor int64
	// BalanceCurrency is the currency of the balance. The customer may have paid in another one, that of the Record.
	BalanceCurrency string
}

// balanceForm is that of a balance's currency. Not all of them have a code of ISO 4217: a balance may be in USDC.
var balanceForm = regexp.MustCompile(`^[A-Z0-9]{3,8}$`)

// maxType bounds the provider's word, in bytes.
const maxType = 255

// Accept returns the line in the form in which it can be stored, as [Record.Accept] does. Any other object than those
// above becomes UnknownObject. A line without a Status is only summed up, so an odd word in it must not stop the
// comparison of the whole day.
func (l Line) Accept() (Line, error) {
	if !IsID(l.LineID) {
		return Line{}, errors.New("line with a malformed id")
	}
	switch l.Object {
	case ChargeObject, RefundObject, DisputeObject:
		if l.Status != "" {
			if !IsID(l.Type) {
				return Line{}, errors.New("line with a malformed type")
			}
			if !currencyForm.MatchString(l.BalanceCurrency) {
				return Line{}, errors.New("line with a malformed currency")
			}
			r, err := l.Record.Accept()
			l.Record = r
			return l, err
		}
	case FeeObject, PayoutObject:
	default:
		l.Object = UnknownObject
	}
	if !balanceForm.MatchString(l.BalanceCurrency) {
		return Line{}, errors.New("line with a malformed currency")
	}
	l.Type = typeText(l.Type)
	r := Record{Object: l.Object, Account: l.Account, Created: l.Created.UTC()}
	if IsID(l.ID) {
		r.ID = l.ID
	}
	if IsID(l.ChargeID) {
		r.ChargeID = l.ChargeID
	}
	l.Record = r
	return l, nil
}

// typeText is a provider's word as a text of one line.
func typeText(s string) string {
	s = strings.Map(func(c rune) rune {
		if unicode.IsGraphic(c) {
			return c
		}
		return utf8.RuneError
	}, s)
	if len(s) > maxType {
		s = s[:maxType]
		for !utf8.ValidString(s) { // the cut has split a character
			s = s[:len(s)-1]
		}
	}
	return cmp.Or(s, "none")
}
