package gateway

// Lookup is what the PSP says about a request: one of Found, NotFound, Waiting, LookupFailed.
//
//sumtype:decl
type Lookup interface {
	lookup()
	// Label names the result in metrics and logs.
	Label() string
}

// Found is what the account's ledger has of the request: at least one record, oldest first. There should be only one.
type Found struct{ Records []Record }

// NotFound says that the PSP has answered, and has executed nothing of this request.
type NotFound struct {
	// Final: the PSP has ended the request, so it will never execute it. Otherwise the PSP may still receive it.
	Final bool
}

// Waiting says that the PSP has the request, and waits for somebody else: the customer, a bank, another installation.
type Waiting struct {
	Reason string
	Kept   bool // whether it is not ours to end
}

// LookupFailed says that nothing is known.
type LookupFailed struct {
	Reason   string
	NotAsked bool // whether we did not send a request: too many of ours were in flight, or the breaker was open
	Missing  bool // whether the PSP answers a look by an id that it has nothing under the id
}

func (Found) lookup()        {}
func (NotFound) lookup()     {}
func (Waiting) lookup()      {}
func (LookupFailed) lookup() {}

// Label is "lookup_found".
func (Found) Label() string { return "lookup_found" }

// Label is "lookup_not_found" or "lookup_ended".
func (n NotFound) Label() string {
	if n.Final {
		return "lookup_ended"
	}
	return "lookup_not_found"
}

// Label is "lookup_waiting".
func (Waiting) Label() string { return "lookup_waiting" }

// Label is "lookup_failed".
func (LookupFailed) Label() string { return "lookup_failed" }
