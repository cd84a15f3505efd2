package stripe

import (
	"cmp"
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

// ParseEvent reads the body of a genuine webhook. It fails with ErrPayload only. Stripe sends types that nobody asked
// for, and objects that other programs made. They are Ignored.
//
// A name that is there twice is refused, because two readers could use different values.
func (c *Client) ParseEvent(body []byte) (gateway.Event, error) {
	return parseEvent(body, modeOf(c.secret))
}

// The modes of Stripe. A secret of another form does not tell its mode.
const (
	liveMode = "live"
	testMode = "test"
)

// modeOf is the mode of a secret: sk_live_…, rk_test_…. It is "" if the secret does not tell.
func modeOf(secret string) string {
	parts := strings.SplitN(secret, "_", 3)
	if len(parts) == 3 && (parts[1] == liveMode || parts[1] == testMode) {
		return parts[1]
	}
	return ""
}

// parseEvent ignores an event of the other mode than ours. Stripe sends the events of both modes of a connected account
// to the endpoint of the live mode (https://docs.stripe.com/connect/webhooks). In test mode, no money moves, and the
// account can make an intent with any metadata, also with ours.
func parseEvent(body []byte, mode string) (gateway.Event, error) {
	var e event
	// The cause could repeat the body.
	if json.Unmarshal(body, &e) != nil || e.Object != "event" {
		return nil, malformed("not the JSON of an event")
	}
	if e.Type == "" {
		return nil, malformed("no type")
	}
	if mode != "" && e.Livemode != (mode == liveMode) {
		return gateway.Ignored{Type: e.Type, Reason: "event of the other mode"}, nil
	}
	record, ignored, err := e.read(cmp.Or(e.Account, DefaultAccount))
	switch {
	case err != nil:
		return nil, err
	case ignored != "":
		return gateway.Ignored{Type: e.Type, Reason: ignored}, nil
	}
	return gateway.Moved{Type: e.Type, Record: record}, nil
}

// read returns what the event's object says, or why the event is ignored.
func (e event) read(account string) (r gateway.Record, ignored string, err error) {
	switch e.Type {
	case "payment_intent.succeeded":
		return readIntentOf(account, e.Data.Object, executed)
	case "payment_intent.payment_failed":
		return readIntentOf(account, e.Data.Object, declined)
	case "refund.created", "refund.updated", "refund.failed", "charge.refund.updated":
		return recordOf(readRefund(account, e.Data.Object))
	case "charge.refunded":
		return gateway.Record{}, "event of a charge, whose refund has an event of its own", nil
	}
	if strings.HasPrefix(e.Type, "charge.dispute.") {
		return recordOf(readDispute(account, e.Data.Object))
	}
	return gateway.Record{}, "event of another type", nil
}

func malformed(reason string) error { return fmt.Errorf("%w: %s", gateway.ErrPayload, reason) }

// readIntentOf reads the intent of an event. The intent is as it was when the event happened, so its state must be
// that of the event's type.
func readIntentOf(account string, raw jsontext.Value, want state) (r gateway.Record, ignored string, err error) {
	var in intent
	if json.Unmarshal(raw, &in) != nil || in.Object != "payment_intent" {
		return r, "", malformed("not the JSON of a payment intent")
	}
	switch {
	case !ours(in.Metadata):
		return r, notOurs, nil
	case in.state() != want:
		return r, "", malformed("its type and its data contradict each other")
	}
	if r, err = in.record(account); err != nil {
		return r, "", malformed(err.Error())
	}
	return r, "", nil
}

// notOurs is why an event is ignored.
const notOurs = "event of an object that Payonce did not make"

// recordOf is what the refund or the dispute of an event says.
func recordOf(read read) (r gateway.Record, ignored string, err error) {
	switch read.kind {
	case foreign:
		return r, notOurs, nil
	case unfinished:
		return r, "event of a refund that is not final", nil
	case unreadable:
		return r, "", malformed(read.reason)
	default:
		return read.record, "", nil
	}
}
