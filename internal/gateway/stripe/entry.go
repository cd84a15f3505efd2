package stripe

import (
	"cmp"
	"errors"

	"github.com/go-json-experiment/json"

	"payonce/internal/gateway"
	"payonce/internal/gateway/wire"
)

// charge is the part of a Charge that we read (https://docs.stripe.com/api/charges/object).
type charge struct {
	object

	AmountCaptured *int64 `json:"amount_captured"`
	Captured       bool   `json:"captured"`
	PaymentIntent  string `json:"payment_intent"`
	FailureCode    string `json:"failure_code"`
	Outcome        struct {
		Reason string `json:"reason"`
	} `json:"outcome"`
	Metadata map[string]string `json:"metadata"`
}

// record is the charge as a record, under the id of its intent.
func (ch charge) record(account string) (gateway.Record, error) {
	e := entry{object: ch.object, kind: gateway.ChargeObject, account: account, marks: ch.Metadata}
	e.ID = ch.PaymentIntent
	if ch.Status == "succeeded" {
		e.Status, e.Amount = gateway.StatusSucceeded, ch.AmountCaptured
	} else {
		e.Status = gateway.StatusDeclined
		e.code = codeOf(ch.Outcome.Reason, ch.FailureCode)
	}
	return e.record()
}

// ignored is why an object says nothing about a movement of ours.
type ignored string

// Error returns the reason, as an event is ignored for it.
func (i ignored) Error() string { return string(i) }

const (
	foreign    ignored = "event of an object that this installation did not make"
	unfinished ignored = "event of a refund that is not final" // Or it is of a charge. No money has moved yet.
)

var (
	errNoRecord    = errors.New("record is not the JSON of one")
	errOtherObject = errors.New("record of another object")
	errStatus      = errors.New("record with a malformed status")
)

// reader reads the objects of an account. What has another origin is foreign, also if another installation of Payonce
// has made it: only the books of that one can explain it.
type reader struct{ account, origin string }

func (c *Client) reader(account string) (reader, error) {
	origin, err := c.origin()
	return reader{account, origin}, err
}

// readCharge reads a Charge. One without an intent was made in another way, by another program.
func (in reader) readCharge(raw []byte) (r gateway.Record, err error) {
	var ch charge
	if json.Unmarshal(raw, &ch) != nil {
		return r, errNoRecord
	}
	switch {
	case ch.Object != "charge":
		return r, errOtherObject
	case ch.PaymentIntent == "" || ch.Metadata[originMark] != in.origin:
		return r, foreign
	case ch.Status == "pending", ch.Status == "succeeded" && !ch.Captured:
		return r, unfinished
	case ch.Status != "succeeded" && ch.Status != "failed":
		return r, errStatus
	}
	return ch.record(in.account)
}

// readRefund reads a Refund. One of another origin may be of an intent of ours. So only one without an intent is
// foreign here, and the marks of another origin do not count.
func (in reader) readRefund(raw []byte) (r gateway.Record, err error) {
	var re refund
	if json.Unmarshal(raw, &re) != nil {
		return r, errNoRecord
	}
	switch {
	case re.Object != "refund":
		return r, errOtherObject
	case re.PaymentIntent == "":
		return r, foreign
	case re.Metadata[originMark] != in.origin:
		re.Metadata = nil
	case re.Status == "pending", re.Status == "requires_action":
		return r, unfinished
	case !re.final():
		return r, errStatus
	}
	return re.record(in.account)
}

// putAside keeps an unreadable object. Our id of a charge is that of its intent.
func putAside(o gateway.Object, raw []byte, reason error) gateway.Unreadable {
	u := wire.Unreadable(raw, redacted(raw), reason)
	if o == gateway.ChargeObject {
		u.ID = cmp.Or(wire.TextIn(raw, "payment_intent"), u.ID)
	}
	return u
}
