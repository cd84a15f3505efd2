package psp

import (
	"net/http"
	"time"

	"payonce/demo/mockpsp"
	"payonce/internal/gateway"
)

// Dialect is what the suite must know of a provider. A third one is a further value in dialects, and nothing else.
type Dialect struct {
	Name string
	// Account begins the names of all accounts.
	Account string
	// Client makes a client of the provider at a URL.
	Client func(url string, secrets []string, l gateway.Limits, now func() time.Time) (gateway.PSP, error)
	// Secrets are two signing secrets. The mock signs with the first.
	Secrets [2]string
	// StepOf names the step of a request, or is "".
	StepOf func(*http.Request) string
	// ChargeSteps are the steps of a charge in their order, and RefundSteps those of a refund.
	ChargeSteps, RefundSteps []Step
	// Entries are the steps with which a method of the port begins.
	Entries Entries
	// Charges and Refunds are the faults of the provider itself.
	Charges, Refunds []Fault
	// Start starts the provider's mock, which tells of its events at a URL.
	Start func(shared mockpsp.Config, webhookURL string) (*mock, error)
	// Rates is the member of GET /_faults that has the provider's own faults.
	Rates string
	// Events are the ways in which a webhook may arrive.
	Events []Fault
	// RawCharge is a request that makes a charge, or its object, without the client.
	RawCharge Raw
	// Foreign makes a charge that Payonce did not make. It is nil if there are none.
	Foreign func(w *world)
	// Suffix is what the dialect adds to a key at most.
	Suffix string
}

// Step is a request of an operation.
type Step struct {
	Name string
	// Token is the payment method or the reason that leads to this step.
	Token string
	// Late is another one that leads to this step, and whose movement lands later unless it is ended. It may be "".
	Late string
	// Answer says that the answer repeats what was asked for, so that it can be altered.
	Answer bool
	// Account says that it names the account, too. Known says that the id is known before.
	Account, Known bool
}

// Entries are the names of the steps with which the methods of the port begin.
type Entries struct{ Prepare, Charge, Refund, LookupCharge, LookupRefund string }

// Fault is one thing that goes wrong.
type Fault struct {
	Name   string // as the grid has it
	Token  string // the payment method of the charge, or the reason of the refund
	Amount int64  // of the charge, if it matters
	Rates  string // of PUT /_faults, while the request is sent
	Seed   uint64 // of chance
	Cut    string // the fault on the wire, and
	Step   string // the step at which it strikes

	Forgets bool // the key is forgotten, so a request that is sent again is executed again
	Twice   bool // the PSP itself moves the money twice under one key
	WrongID bool // the answer has another id than the ledger
	Fails   bool // what has succeeded fails later
	Open    bool // nobody but an operator can find out
	Long    bool // takes longer than a second
}

// Raw is a request of the provider's API. It has no key and no secret yet.
type Raw struct {
	Path, Body string
	Header     map[string]string
}

// named are faults without a token.
func named(names ...string) (faults []Fault) {
	for _, name := range names {
		faults = append(faults, Fault{Name: name})
	}
	return faults
}

// eventFaults are the ways that each provider's webhooks have.
func eventFaults() []Fault {
	return named("succeeded", "declined", "duplicate", "forge", "stale", "changed body", "no signature",
		"secret replaced", "ten minutes late")
}

func tokens(names ...string) (faults []Fault) {
	for _, name := range names {
		faults = append(faults, Fault{Name: name, Token: name})
	}
	return faults
}

// with returns the faults, of which some are changed.
func with(faults []Fault, change func(*Fault), names ...string) []Fault {
	for _, name := range names {
		found := false
		for i := range faults {
			if faults[i].Name == name {
				change(&faults[i])
				found = true
			}
		}
		if !found {
			panic("no fault " + name)
		}
	}
	return faults
}

func forgets(f *Fault) { f.Forgets = true }
func twice(f *Fault)   { f.Twice = true }
func wrongID(f *Fault) { f.WrongID = true }
func fails(f *Fault)   { f.Fails = true }
func open(f *Fault)    { f.Open = true }

func dialects() []*Dialect { return []*Dialect{nativeDialect(), stripeDialect()} }
