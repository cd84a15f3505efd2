package gateway

import "errors"

// The objects of a line that moves no customer's money.
const (
	FeeObject    Object = "fee"
	PayoutObject Object = "payout"
	// UnknownObject is that of a line whose type we do not know. Only its sum is kept, by the name of the type.
	UnknownObject Object = ""
)

// ErrNoPayoutLines says that the PSP does not tell which lines a payout has paid.
var ErrNoPayoutLines = errors.New("the PSP does not tell which lines the payout has paid")

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

// Accept returns the line in the form in which it can be stored, as [Record.Accept] does. Any other object than those
// above becomes UnknownObject.
func (l Line) Accept() (Line, error) {
	switch {
	case !IsID(l.LineID):
		return Line{}, errors.New("line with a malformed id")
	case !IsID(l.Type):
		return Line{}, errors.New("line with a malformed type")
	case !currencyForm.MatchString(l.BalanceCurrency):
		return Line{}, errors.New("line with a malformed currency")
	}
	switch l.Object {
	case ChargeObject, RefundObject, DisputeObject:
		if l.Status != "" {
			r, err := l.Record.Accept()
			l.Record = r
			return l, err
		}
	case FeeObject, PayoutObject:
	default:
		l.Object = UnknownObject
	}
	if l.ID != "" && !IsID(l.ID) || l.ChargeID != "" && !IsID(l.ChargeID) {
		return Line{}, errors.New("line about something malformed")
	}
	l.Record = Record{ID: l.ID, Object: l.Object, Account: l.Account, ChargeID: l.ChargeID, Created: l.Created.UTC()}
	return l, nil
}
