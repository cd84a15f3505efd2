package stripe

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payonce/internal/gateway"
)

// charge is the part of a Charge that we read (https://docs.stripe.com/api/charges/object).
type charge struct {
	ID             string `json:"id"`
	Object         string `json:"object"`
	Amount         *int64 `json:"amount"`
	AmountCaptured *int64 `json:"amount_captured"`
	Captured       bool   `json:"captured"`
	Currency       string `json:"currency"`
	Status         string `json:"status"`
	PaymentIntent  string `json:"payment_intent"`
	FailureCode    string `json:"failure_code"`
	Outcome        struct {
		Reason string `json:"reason"`
	} `json:"outcome"`
	Created  int64             `json:"created"`
	Metadata map[string]string `json:"metadata"`
}

// record is the charge as a record, under the id of its intent.
func (ch charge) record(account string) (gateway.Record, error) {
	e := entry{
		object: gateway.ChargeObject, id: ch.PaymentIntent, account: account, amount: ch.Amount, currency: ch.Currency,
		status: gateway.StatusDeclined, created: ch.Created, marks: ch.Metadata,
	}
	if ch.Status == "succeeded" {
		e.status, e.amount = gateway.StatusSucceeded, ch.AmountCaptured
	} else {
		e.code = codeOf(ch.Outcome.Reason, ch.FailureCode)
	}
	return e.record()
}

// kind is what an object of a list is for us.
type kind int

const (
	recorded   kind = iota // a record
	foreign                // not ours
	unfinished             // ours, and no money has moved yet
	unreadable
)

// read is an object of a list as we understand it.
type read struct {
	kind   kind
	record gateway.Record
	reason string // why it is unreadable
}

func unread(err error) read { return read{kind: unreadable, reason: err.Error()} }

var (
	errNoRecord    = errors.New("record is not the JSON of one")
	errOtherObject = errors.New("record of another object")
)

// readCharge reads a Charge. One without an intent was made in another way, by another program.
func readCharge(account string, raw []byte) read {
	var ch charge
	if json.Unmarshal(raw, &ch) != nil {
		return unread(errNoRecord)
	}
	switch {
	case ch.Object != "charge":
		return unread(errOtherObject)
	case ch.PaymentIntent == "" || !ours(ch.Metadata):
		return read{kind: foreign}
	case ch.Status == "pending", ch.Status == "succeeded" && !ch.Captured:
		return read{kind: unfinished}
	case ch.Status != "succeeded" && ch.Status != "failed":
		return unread(errors.New("record with a malformed status"))
	}
	return readRecord(ch.record(account))
}

// readRefund reads a Refund. One that another program has made may be of an intent of ours. So only one without an
// intent is foreign here.
func readRefund(account string, raw []byte) read {
	var re refund
	if json.Unmarshal(raw, &re) != nil {
		return unread(errNoRecord)
	}
	switch {
	case re.Object != "refund":
		return unread(errOtherObject)
	case re.PaymentIntent == "":
		return read{kind: foreign}
	case !ours(re.Metadata):
		return readRecord(re.record(account))
	case re.Status == "pending", re.Status == "requires_action":
		return read{kind: unfinished}
	case !re.final():
		return unread(errors.New("record with a malformed status"))
	}
	return readRecord(re.record(account))
}

func readRecord(r gateway.Record, err error) read {
	if err != nil {
		return unread(err)
	}
	return read{kind: recorded, record: r}
}

// maxRaw bounds the part of an unreadable object that is kept, in bytes.
const maxRaw = 64 << 10

// putAside keeps an unreadable object. Our id of a charge is that of its intent.
func putAside(o gateway.Object, raw jsontext.Value, reason string) gateway.Unreadable {
	sum := sha256.Sum256(raw)
	u := gateway.Unreadable{Name: "sha256:" + hex.EncodeToString(sum[:]), Reason: reason}
	text := redacted(raw)
	u.Raw = text[:min(len(text), maxRaw)]
	self := objectIn(raw)
	if o == gateway.ChargeObject && self.PaymentIntent != "" {
		self.ID = self.PaymentIntent
	}
	if gateway.IsID(self.ID) {
		u.ID = self.ID
	}
	return u
}
