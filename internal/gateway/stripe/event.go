package stripe

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payonce/internal/gateway"
)

// event is the part of an Event that we read (https://docs.stripe.com/api/events/object).
type event struct {
	ID       string `json:"id"`
	Object   string `json:"object"`
	Type     string `json:"type"`
	Account  string `json:"account"` // of a connected account; otherwise ""
	Livemode bool   `json:"livemode"`
	Data     struct {
		Object jsontext.Value `json:"object"`
	} `json:"data"`
}

// ParseEvent reads the body of a genuine webhook. It fails with ErrPayload, or because our origin is not known yet.
// Stripe sends types that nobody asked for, and objects that other programs made. They are Ignored.
//
// A name that is there twice is refused, because two readers could use different values.
func (c *Client) ParseEvent(body []byte) (gateway.Event, error) {
	in, err := c.reader("") // The event names its account.
	if err != nil {
		return nil, err
	}
	return in.parseEvent(body, modeOf(c.secret))
}

// The modes of Stripe.
const (
	liveMode = "live"
	testMode = "test"
)

// modeOf is the mode of a secret: sk_live_…, rk_test_…. It is "" if the secret does not tell, and New refuses
// such a secret.
func modeOf(secret string) string {
	parts := strings.SplitN(secret, "_", 3)
	if len(parts) == 3 && (parts[1] == liveMode || parts[1] == testMode) {
		return parts[1]
	}
	return ""
}

// thinEvent is an event of Stripe's API v2, which names an object and does not have it in it. The same change of a
// payment or refund has an event of v1, which we read.
const thinEvent = "v2.core.event"

// parseEvent ignores an event of the other mode than ours. Stripe sends the events of both modes of a connected account
// to the endpoint of the live mode (https://docs.stripe.com/connect/webhooks). In test mode, no money moves, and the
// account can make an intent with any metadata, also with ours.
func (in reader) parseEvent(body []byte, mode string) (gateway.Event, error) {
	var e event
	// The cause could repeat the body.
	if json.Unmarshal(body, &e) != nil || e.Object != "event" && e.Object != thinEvent {
		return nil, malformed("not the JSON of an event")
	}
	if e.Type == "" {
		return nil, malformed("no type")
	}
	if e.Object == thinEvent {
		return gateway.Ignored{Type: e.Type, Reason: "thin event"}, nil
	}
	if e.Livemode != (mode == liveMode) {
		return gateway.Ignored{Type: e.Type, Reason: "event of the other mode"}, nil
	}
	in.account = cmp.Or(e.Account, DefaultAccount)
	record, err := in.objectOf(e)
	if why, is := errors.AsType[ignored](err); is {
		return gateway.Ignored{Type: e.Type, Reason: string(why)}, nil
	}
	if err != nil {
		return nil, malformed(err.Error())
	}
	return gateway.Moved{Type: e.Type, Record: record}, nil
}

// objectOf returns what the event's object says.
func (in reader) objectOf(e event) (gateway.Record, error) {
	switch e.Type {
	case "payment_intent.succeeded":
		return in.readIntentOf(e.Data.Object, executed)
	case "payment_intent.payment_failed":
		return in.readIntentOf(e.Data.Object, declined)
	case "refund.created", "refund.updated", "refund.failed", "charge.refund.updated":
		return in.readRefund(e.Data.Object)
	case "charge.refunded":
		return gateway.Record{}, ignored("event of a charge, whose refund has an event of its own")
	}
	if strings.HasPrefix(e.Type, "charge.dispute.") {
		return in.readDispute(e.Data.Object)
	}
	return gateway.Record{}, ignored("event of another type")
}

func malformed(reason string) error { return fmt.Errorf("%w: %s", gateway.ErrPayload, reason) }

// readIntentOf reads the intent of an event. The intent is as it was when the event happened, so its state must be
// that of the event's type.
func (in reader) readIntentOf(raw jsontext.Value, want state) (r gateway.Record, err error) {
	var pi intent
	if json.Unmarshal(raw, &pi) != nil || pi.Object != "payment_intent" {
		return r, errors.New("not the JSON of a payment intent")
	}
	switch {
	case pi.Metadata[originMark] != in.origin:
		return r, foreign
	case pi.state() != want:
		return r, errors.New("its type and its data contradict each other")
	}
	return pi.record(in.account)
}
