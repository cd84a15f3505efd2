package webhooks

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payonce/internal/gateway"
)

// ErrPayload says that a body does not have the form of the PSP's webhooks. A retry does not help.
var ErrPayload = errors.New("webhook payload is malformed")

// ErrUnknownType says that a body has a type of event that this program does not know.
var ErrUnknownType = errors.New("webhook type is unknown")

// Payload is the content of a webhook.
type Payload struct {
	Type   string // for example charge.succeeded
	Record gateway.Record
}

// The types of events: the object and its status.
const (
	chargeSucceeded = "charge.succeeded"
	chargeDeclined  = "charge.declined"
	refundSucceeded = "refund.succeeded"
	refundDeclined  = "refund.declined"
)

// ParsePayload reads the body of a webhook. It fails with ErrPayload or ErrUnknownType. Unknown members are ignored.
// Names are case-sensitive. A repeated name is refused, because two readers could use different values.
func ParsePayload(body []byte) (Payload, error) {
	var p struct {
		Type string         `json:"type"`
		Data jsontext.Value `json:"data"`
	}
	if err := json.Unmarshal(body, &p); err != nil {
		return Payload{}, fmt.Errorf("%w: not the JSON of an event", ErrPayload) // The cause could repeat the body.
	}
	switch p.Type {
	case chargeSucceeded, chargeDeclined, refundSucceeded, refundDeclined:
	case "":
		return Payload{}, fmt.Errorf("%w: no type", ErrPayload)
	default:
		return Payload{}, ErrUnknownType
	}
	record, err := gateway.ParseRecord(p.Data)
	if err != nil {
		return Payload{}, fmt.Errorf("%w: %w", ErrPayload, err)
	}
	if p.Type != string(record.Object)+"."+record.Status {
		return Payload{}, fmt.Errorf("%w: its type and its data contradict each other", ErrPayload)
	}
	return Payload{Type: p.Type, Record: record}, nil
}
