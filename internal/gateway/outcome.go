package gateway

// Outcome is what is known after a request to the PSP: one of Succeeded, Declined, NotExecuted, Indeterminate.
//
//sumtype:decl
type Outcome interface {
	outcome()
	// Label names the outcome in metrics and logs.
	Label() string
}

// Succeeded: the money moved.
type Succeeded struct{ ID string }

// Declined: the PSP refused, for good. ID names the refusal in its ledger, and is empty if the PSP has no record of it.
type Declined struct{ ID, Code string }

// NotExecuted: proven to have had no effect.
type NotExecuted struct{ Reason string }

// Indeterminate: it may or may not have been executed.
type Indeterminate struct {
	Reason string
	// Contradiction: the PSP answered, about this very request, something that was not asked for. Evidence is what it
	// said, as JSON.
	Contradiction bool
	Evidence      []byte
	ID            string // of what a contradiction names, in the PSP's ledger; "" if it names nothing
}

func (Succeeded) outcome()     {}
func (Declined) outcome()      {}
func (NotExecuted) outcome()   {}
func (Indeterminate) outcome() {}

// Label is "succeeded".
func (Succeeded) Label() string { return "succeeded" }

// Label is "declined".
func (Declined) Label() string { return "declined" }

// Label is "not_executed".
func (NotExecuted) Label() string { return "not_executed" }

// Label is "indeterminate".
func (Indeterminate) Label() string { return "indeterminate" }
