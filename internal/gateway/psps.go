package gateway

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// PSPs are the providers of this process, by name.
type PSPs map[string]PSP

// Of returns the provider with a name. If this process has none, it returns a provider that is never ready: it sends
// nothing and knows nothing.
func (p PSPs) Of(name string) PSP {
	if psp, ok := p[name]; ok {
		return psp
	}
	return absent(name)
}

// InFlight is the number of requests in flight, of all providers.
func (p PSPs) InFlight() (n int) {
	for _, psp := range p {
		n += psp.InFlight()
	}
	return n
}

// Close drops the idle connections of all providers.
func (p PSPs) Close() {
	for _, psp := range p {
		psp.Close()
	}
}

// absent is a provider that this process has no settings for.
type absent string

func (a absent) err() error {
	return fmt.Errorf("this process has no settings for the tenant's PSP, which is %s", string(a))
}

func (a absent) Traits() Traits { return Traits{Name: string(a), Proof: ProofByAbsence} }

func (a absent) Ready(string) bool { return false }

func (a absent) Prepare(context.Context, Charge) (string, Outcome) {
	return "", NotExecuted{Reason: a.err().Error()}
}

func (a absent) Charge(context.Context, Charge) Outcome {
	return NotExecuted{Reason: a.err().Error()}
}

func (a absent) Refund(context.Context, Refund) Outcome {
	return NotExecuted{Reason: a.err().Error()}
}

func (a absent) Lookup(context.Context, Request, End) Lookup {
	return LookupFailed{Reason: a.err().Error()}
}

func (a absent) List(context.Context, Object, string, time.Time, string) (Page, error) {
	return Page{}, a.err()
}

func (a absent) Statement(context.Context, string, time.Time, func(Record) error) error {
	return a.err()
}

func (a absent) VerifyEvent(http.Header, []byte) (Delivery, error) { return Delivery{}, a.err() }

func (a absent) ParseEvent([]byte) (Event, error) { return nil, a.err() }

func (a absent) InFlight() int { return 0 }

func (a absent) Close() {}
