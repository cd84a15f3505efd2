package gateway

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
