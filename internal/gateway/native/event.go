package native

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payonce/internal/gateway"
	"payonce/internal/gateway/wire"
)

// VerifyEvent checks a webhook as Standard Webhooks asks.
func (c *Client) VerifyEvent(h http.Header, body []byte) (gateway.Delivery, error) {
	id := joined(h, "Webhook-Id")
	sent, err := c.verify(id, joined(h, "Webhook-Timestamp"), joined(h, "Webhook-Signature"), body)
	if err != nil {
		return gateway.Delivery{}, &gateway.VerifyError{Err: err, Detail: refusalOf(err),
			Challenge: "StandardWebhooks"}
	}
	return gateway.Delivery{ID: id, SentAt: sent}, nil
}

// joined is the value of a header. If the header is repeated, the values are joined by spaces. That is a list of
// signatures, and not valid for any other header.
func joined(h http.Header, name string) string { return strings.Join(h.Values(name), " ") }

// refusalOf tells the sender why a webhook was refused. It does not say which secret was tried.
func refusalOf(err error) string {
	switch {
	case errors.Is(err, gateway.ErrHeaderMissing):
		return "Send the headers webhook-id, webhook-timestamp and webhook-signature."
	case errors.Is(err, gateway.ErrMalformed):
		return "webhook-id must be 1 to 255 printable ASCII characters without spaces and full stops, " +
			"webhook-timestamp whole seconds since 1970; each once."
	case errors.Is(err, gateway.ErrStale):
		return "webhook-timestamp is too far from now. Sign each attempt again, with the time of the attempt."
	}
	return "No signature in webhook-signature is one of this webhook."
}

// eventTypes are the types of events: the object and its status.
var eventTypes = []string{
	"charge.succeeded", "charge.declined", "refund.pending", "refund.succeeded", "refund.declined", "refund.failed",
	"dispute.inquiry", "dispute.needs_response", "dispute.under_review", "dispute.closed", "dispute.won",
	"dispute.lost",
}

// ParseEvent reads the body of a webhook. It fails with ErrPayload or ErrUnknownType: this PSP sends only the types
// that it was asked for. Unknown members are ignored. Names are case-sensitive. A repeated name is refused, because two
// readers could use different values.
func (c *Client) ParseEvent(body []byte) (gateway.Event, error) {
	var p struct {
		Type string         `json:"type"`
		Data jsontext.Value `json:"data"`
	}
	if err := json.Unmarshal(body, &p); err != nil {
		// The cause could repeat the body.
		return nil, fmt.Errorf("%w: not the JSON of an event", gateway.ErrPayload)
	}
	switch {
	case p.Type == "":
		return nil, fmt.Errorf("%w: no type", gateway.ErrPayload)
	case !slices.Contains(eventTypes, p.Type):
		return nil, gateway.ErrUnknownType
	}
	record, err := parseRecord(p.Data)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", gateway.ErrPayload, err)
	}
	if p.Type != wire.TextIn(p.Data, "object")+"."+wire.TextIn(p.Data, "status") {
		return nil, fmt.Errorf("%w: its type and its data contradict each other", gateway.ErrPayload)
	}
	return gateway.Moved{Type: p.Type, Record: record}, nil
}
