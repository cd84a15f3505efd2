package stripe

import (
	"cmp"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payonce/internal/gateway"
)

// object is what we read of an object of Stripe that moves money. Unknown members are ignored, because Stripe adds
// members within a version
// (https://docs.stripe.com/upgrades#what-changes-does-stripe-consider-to-be-backwards-compatible).
type object struct {
	ID       string `json:"id"`
	Object   string `json:"object"`
	Amount   *int64 `json:"amount"` // a pointer, because 0 differs from no amount
	Currency string `json:"currency"`
	Status   string `json:"status"`
	Created  int64  `json:"created"`
}

// intent is the part of a PaymentIntent that we read.
type intent struct {
	object

	AmountReceived   *int64            `json:"amount_received"`
	Metadata         map[string]string `json:"metadata"`
	LastPaymentError *failure          `json:"last_payment_error"`
}

// failure is why a payment was declined.
type failure struct {
	Code        string `json:"code"`
	DeclineCode string `json:"decline_code"`
}

// codeOf is the first code that is not empty, if it has the form of a code. Otherwise it is "declined".
func codeOf(codes ...string) string {
	if code := cmp.Or(codes...); gateway.IsDeclineCode(code) {
		return code
	}
	return "declined"
}

// state is how far a charge is, by its intent.
type state string

const (
	executed   state = "executed"
	declined   state = "declined"
	ended      state = "ended"      // cancelled: it will never be executed
	unsent     state = "unsent"     // not executed, and its confirmation may be on its way
	processing state = "processing" // waits for a bank
	action     state = "action"     // waits for the customer
	mismatch   state = "mismatch"   // the intent contradicts the charge
	unclear    state = "unclear"    // nothing is known
)

// finding is what an answer says about a charge.
type finding struct {
	state    state
	id       string
	status   string // as Stripe calls it
	record   gateway.Record
	reason   string // of a mismatch, or of no verdict; a verdict needs none
	evidence []byte // of a mismatch
	origin   string // whose intent it is
	notAsked bool   // of no verdict: we have not sent the question
}

func unknown(reason string) finding { return finding{state: unclear, reason: reason} }

// inspect reads an intent as an answer about a charge. httpStatus is the status of the answer that raw is part of.
func inspect(ch gateway.Charge, httpStatus int, raw []byte) finding {
	in, r, ok := parseIntent(ch.Account, raw)
	if !ok {
		return unknown("answer malformed")
	}
	f := finding{state: in.state(), id: in.ID, status: in.Status, record: r, reason: "answer without a verdict",
		origin: in.Metadata[originMark]}
	member := ch.Wanted().Differs(r)
	if ch.ObjectID != "" && in.ID != ch.ObjectID {
		member = "id"
	}
	if member == "" {
		return f
	}
	f.reason, f.evidence = "answer has another "+member, f.kept(httpStatus, raw)
	f.state = mismatch
	return f
}

// kept is an answer for an operator. A verdict is kept as a record: the database may not be able to store the answer.
func (f finding) kept(httpStatus int, raw []byte) []byte {
	if f.state == executed || f.state == declined {
		return gateway.AnswerEvidence(httpStatus, f.record.Evidence())
	}
	return evidence(httpStatus, raw)
}

// parseIntent reads an intent and the record of its charge. The record has a verdict only if the intent's state is
// executed or declined.
func parseIntent(account string, raw []byte) (in intent, r gateway.Record, ok bool) {
	if json.Unmarshal(raw, &in) != nil || in.Object != "payment_intent" || !strings.HasPrefix(in.ID, "pi_") {
		return intent{}, gateway.Record{}, false
	}
	r, err := in.record(account)
	return in, r, err == nil
}

// state reads the intent's status (https://docs.stripe.com/payments/paymentintents/lifecycle). After a decline, an
// intent requires another payment method and has the error. We confirm once, so it is final for us, also if the intent
// was cancelled afterwards: the decline has come before our cancel. An intent that has received money, and does not say
// that it has succeeded or that a bank is at work, contradicts itself.
func (in intent) state() state {
	switch in.Status {
	case "succeeded":
		return executed
	case "processing":
		return processing
	}
	if in.AmountReceived != nil && *in.AmountReceived != 0 {
		return unclear
	}
	switch in.Status {
	case "canceled":
		if in.LastPaymentError != nil {
			return declined
		}
		return ended
	case "requires_action":
		return action
	case "requires_confirmation":
		return unsent
	case "requires_payment_method":
		if in.LastPaymentError != nil {
			return declined
		}
		return unsent
	}
	return unclear
}

// record is the charge of the intent. The amount of an executed charge is the amount received.
func (in intent) record(account string) (gateway.Record, error) {
	e := entry{object: in.object, kind: gateway.ChargeObject, account: account, marks: in.Metadata}
	e.Status = gateway.StatusDeclined
	switch in.state() {
	case executed:
		e.Status, e.Amount = gateway.StatusSucceeded, in.AmountReceived
	case declined:
		e.code = codeOf(in.LastPaymentError.DeclineCode, in.LastPaymentError.Code) // the bank's reason, or Stripe's
	}
	return e.record()
}

// entry is what a record is made of: an object with the status of a record, and what the record has besides.
type entry struct {
	object

	kind    gateway.Object
	account string
	charge  string // of all but a charge
	code    string
	marks   map[string]string
	dispute gateway.Dispute // of a dispute
}

// marked reports whether an installation of Payonce has made the object with this metadata.
func marked(metadata map[string]string) bool {
	return strings.HasPrefix(metadata[originMark], productOrigin)
}

// record converts amount and currency. An object of another program has no key and no reference, so it matches no
// request of ours.
func (e entry) record() (gateway.Record, error) {
	r := gateway.Record{
		Object: e.kind, ID: e.ID, Account: e.account, ChargeID: e.charge, AmountMinor: -1,
		Currency: upper(e.Currency), Status: e.Status, DeclineCode: e.code, Created: time.Unix(e.Created, 0),
		Dispute: e.dispute,
	}
	if e.Amount != nil {
		if minor, ok := fromStripe(*e.Amount, r.Currency); ok {
			r.AmountMinor = minor
		}
	}
	if marked(e.marks) {
		r.Key, r.Reference = e.marks[keyMark], e.marks[referenceMark]
	}
	return r.Accept()
}

// upper is a currency as we write it. Stripe writes currencies in lower case, and nothing else is one.
func upper(currency string) string {
	if strings.ToLower(currency) != currency {
		return ""
	}
	return strings.ToUpper(currency)
}

// problem is the error of an answer (https://docs.stripe.com/api/errors).
type problem struct {
	Type          string         `json:"type"`
	Code          string         `json:"code"`
	DeclineCode   string         `json:"decline_code"`
	Param         string         `json:"param"`
	PaymentIntent jsontext.Value `json:"payment_intent"`
}

// The types of errors.
const (
	cardError      = "card_error"
	invalidRequest = "invalid_request_error"
	keyReused      = "idempotency_error"
)

// problemIn reads the error of an answer. If the answer does not have the form of one, the error has no type, and
// nothing else.
func problemIn(body []byte) problem {
	var said struct {
		Error problem `json:"error"`
	}
	if json.Unmarshal(body, &said) != nil || said.Error.Type == "" {
		return problem{}
	}
	return said.Error
}
