package events

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"payonce/internal/idempotency"
	"payonce/internal/payment"
	"payonce/internal/payments"
)

// idPrefix begins the id of an event. The payment and the version follow. So two events never have the same id, also
// if a backup is restored and the payment's life goes on from there.
const idPrefix = "evt_"

// IDOf is the id of an event, which its receivers see.
func IDOf(n payments.EventName) string {
	_, of, _ := strings.Cut(n.PaymentID.String(), "_")
	return idPrefix + of + "_" + strconv.FormatInt(n.Version, 10)
}

// ErrNoID says that a text is not the id of an event.
var ErrNoID = errors.New("no id of an event")

// ParseID reads what IDOf writes, and nothing else.
func ParseID(id string) (payments.EventName, error) {
	of, version, _ := strings.Cut(strings.TrimPrefix(id, idPrefix), "_")
	paymentID, err := payment.ParseID("pay_" + of)
	n, numErr := strconv.ParseInt(version, 10, 64)
	name := payments.EventName{PaymentID: paymentID, Version: n}
	if err != nil || numErr != nil || IDOf(name) != id {
		return payments.EventName{}, ErrNoID
	}
	return name, nil
}

// Body is an event as receivers see it, in the form of Standard Webhooks. Version grows with each event of the payment,
// and the payment is whole, so a receiver keeps what has the greatest version of each payment, refund and dispute.
type Body struct {
	ID        string           `json:"id"`
	Type      string           `json:"type"`
	Timestamp idempotency.Time `json:"timestamp"`
	Version   int64            `json:"version"`
	Data      Data             `json:"data"`
}

// Data is what an event tells: the payment as it was, and the refund or the dispute that the event is about. A payment
// shows its disputes once it has succeeded. The bank may be faster than its outcome.
type Data struct {
	Payment payment.Payment  `json:"payment"`
	Refund  *payment.Refund  `json:"refund,omitempty"`
	Dispute *payment.Dispute `json:"dispute,omitempty"`
}

// BodyOf is the body of an event.
func BodyOf(e payments.Event) Body {
	return Body{
		ID:   IDOf(payments.EventName{PaymentID: e.Payment.ID, Version: e.Version}),
		Type: e.Type, Timestamp: idempotency.Time(time.UnixMicro(e.Version)), Version: e.Version,
		Data: Data{Payment: e.Payment, Refund: e.Refund, Dispute: e.Dispute},
	}
}

// JSON is the text that is signed and sent: the same bytes each time.
func (b Body) JSON() ([]byte, error) { return json.Marshal(&b, json.Deterministic(true)) }
