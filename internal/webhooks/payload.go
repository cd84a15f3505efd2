package webhooks

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payonce/internal/gateway"
)

// ErrPayload says that a body is not one that the PSP is known to send. No retry mends it.
var ErrPayload = errors.New("webhook payload is malformed")

// ErrUnknownType says that a body is about a kind of event that nobody here knows.
var ErrUnknownType = errors.New("webhook type is unknown")

// Payload is what a webhook says.
type Payload struct {
	Type   string // such as charge.succeeded
	Record gateway.Record
}

// The types of events: what it is about, and how that stands.
const (
	chargeSucceeded = "charge.succeeded"
	chargeDeclined  = "charge.declined"
	refundSucceeded = "refund.succeeded"
	refundDeclined  = "refund.declined"
)

// ParsePayload reads the body of a webhook, or fails with ErrPayload or ErrUnknownType. Members that we do not know are none of our
// business; names are case-sensitive, and one that is repeated is refused, for two readers could take it for two things.
func ParsePayload(body []byte) (Payload, error) {
	var p struct {
		Type string         `json:"type"`
		Data jsontext.Value `json:"data"`
	}
	if err := json.Unmarshal(body, &p); err != nil {
		return Payload{}, fmt.Errorf("%w: not the JSON of an event", ErrPayload) // the cause could repeat what it met
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
