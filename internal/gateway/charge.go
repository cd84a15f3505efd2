package gateway

// Request is our request to the PSP under a key: a Charge or a Refund.
//
//sumtype:decl
type Request interface {
	request()
	// Wanted is the record that the request must lead to, without what only the PSP knows.
	Wanted() Record
	// Judge reads a record as the verdict on the request: Succeeded, Declined, or Indeterminate. A record that does not
	// match the request is a contradiction. Its reason names the first member that differs.
	Judge(r Record) Outcome
}

// Charge is a request to take money. AmountMinor counts the currency's minor unit.
type Charge struct {
	Account string // the tenant's own account at the PSP
	Key     string // the same on each attempt
	Attempt int32  // counts the tries under this key, from 1
	// TwoSteps: the PSP executes this attempt only through the object that was made for it and stored. ObjectID is its
	// id, or "" if there is none yet. A lookup with an ObjectID reads that object, whosever it is, in one step as well.
	TwoSteps      bool
	ObjectID      string
	Reference     string // our payment id
	AmountMinor   int64
	Currency      string
	PaymentMethod string
}

// Refund is a request to give money back.
type Refund struct {
	Account     string
	Key         string
	Attempt     int32
	Reference   string // our refund id
	ChargeID    string // the PSP's id of the charge
	AmountMinor int64
	Currency    string
	Reason      string
}

func (Charge) request() {}
func (Refund) request() {}

// Judge compares a record with the charge.
func (ch Charge) Judge(r Record) Outcome { return judge(ch.Wanted(), r) }

// Judge compares a record with the refund.
func (r Refund) Judge(rec Record) Outcome { return judge(r.Wanted(), rec) }

// OfAnotherAttempt reports whether a record is a decline of an object that is not this attempt's. The object of an
// earlier attempt was given up, so its decline says nothing about this one. A success of it counts: money has moved.
func (ch Charge) OfAnotherAttempt(r Record) bool {
	return ch.TwoSteps && !r.Executed() && r.ID != ch.ObjectID
}

// Wanted is a successful charge's record.
func (ch Charge) Wanted() Record {
	return Record{
		Object: ChargeObject, Account: ch.Account, Key: ch.Key, Reference: ch.Reference, AmountMinor: ch.AmountMinor,
		Currency: ch.Currency,
	}
}

// Wanted is a successful refund's record.
func (r Refund) Wanted() Record {
	return Record{
		Object: RefundObject, Account: r.Account, Key: r.Key, Reference: r.Reference, ChargeID: r.ChargeID,
		AmountMinor: r.AmountMinor, Currency: r.Currency,
	}
}

// Differs names the first member in which another record does not match r, which was wanted. It is "" if all match.
func (r Record) Differs(got Record) string {
	switch {
	case got.Object != r.Object:
		return "object"
	case got.Account != r.Account:
		return "account"
	case got.Key != r.Key:
		return "key"
	case got.Reference != r.Reference:
		return "reference"
	case got.ChargeID != r.ChargeID:
		return "charge"
	case got.AmountMinor != r.AmountMinor:
		return "amount"
	case got.Currency != r.Currency:
		return "currency"
	}
	return ""
}

func judge(want, r Record) Outcome {
	switch member := want.Differs(r); {
	case member != "":
		return Indeterminate{Reason: "record has another " + member, Contradiction: true, Evidence: r.Evidence(),
			ID: r.ID}
	case !IsID(r.ID):
		return Indeterminate{Reason: "record malformed"}
	case r.Executed():
		return Succeeded{ID: r.ID}
	case r.Status == StatusDeclined && IsDeclineCode(r.DeclineCode):
		return Declined{ID: r.ID, Code: r.DeclineCode}
	}
	return Indeterminate{Reason: "record without a verdict"}
}

// Outcome is what is known after a request to the PSP: one of Succeeded, Declined, NotExecuted, Pending, Indeterminate.
//
//sumtype:decl
type Outcome interface {
	outcome()
	// Label names the outcome in metrics and logs.
	Label() string
}

// Succeeded says that the money has moved.
type Succeeded struct{ ID string }

// Declined says that the PSP has refused, and will not execute the request later. ID is the id of the decline in the
// PSP's ledger. It is empty if the PSP has no record of the decline.
type Declined struct{ ID, Code string }

// NotExecuted says that it is proven that the request had no effect.
type NotExecuted struct{ Reason string }

// Pending says that the PSP has the request and waits for somebody else: the customer (3-D Secure) or a bank. The
// outcome comes later.
type Pending struct{ Reason string }

// Indeterminate says that the request may or may not have been executed.
type Indeterminate struct {
	Reason string
	// Contradiction says that the PSP's answer is about this request but contradicts it. Evidence is the answer as
	// JSON.
	Contradiction bool
	Evidence      []byte
	ID            string // the PSP's id in a contradicting answer; or ""
}

// The reasons of an Indeterminate that stand for no answer at all. With every other reason, something has arrived.
const (
	NoAnswer       = "no answer in time"
	ConnectionLost = "connection lost"
)

func (Succeeded) outcome()     {}
func (Declined) outcome()      {}
func (NotExecuted) outcome()   {}
func (Pending) outcome()       {}
func (Indeterminate) outcome() {}

// Label is "succeeded".
func (Succeeded) Label() string { return "succeeded" }

// Label is "declined".
func (Declined) Label() string { return "declined" }

// Label is "not_executed".
func (NotExecuted) Label() string { return "not_executed" }

// Label is "pending".
func (Pending) Label() string { return "pending" }

// Label is "indeterminate".
func (Indeterminate) Label() string { return "indeterminate" }
