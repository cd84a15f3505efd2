package gateway

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"payonce/internal/tracing"
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

func (a absent) VerifyEvent(http.Header, []byte) (Delivery, error) { return Delivery{}, a.err() }

func (a absent) ParseEvent([]byte) (Event, error) { return nil, a.err() }

func (a absent) InFlight() int { return 0 }

func (a absent) Close() {}

// observed is a provider whose operations are traced and measured.
type observed struct {
	PSP

	now     func() time.Time
	observe func(outcome string, took time.Duration)
}

// Observed is the provider, with a span for each operation that asks about one charge or refund. observe is called once
// after each operation, however many requests it has sent, with the outcome and the time.
func Observed(psp PSP, now func() time.Time, observe func(outcome string, took time.Duration)) PSP {
	return observed{psp, now, observe}
}

// begin begins an operation. The caller calls end with the outcome.
func (o observed) begin(ctx context.Context, span string) (within context.Context, end func(outcome string)) {
	began := o.now()
	within, spanned := tracing.StartClient(ctx, span)
	return within, func(outcome string) {
		spanned.Outcome(outcome)
		spanned.End()
		o.observe(outcome, o.now().Sub(began))
	}
}

func (o observed) Prepare(ctx context.Context, ch Charge) (objectID string, refused Outcome) {
	if !o.Traits().TwoSteps {
		return o.PSP.Prepare(ctx, ch) // sends nothing
	}
	ctx, end := o.begin(ctx, "PSP request")
	objectID, refused = o.PSP.Prepare(ctx, ch)
	label := "prepared"
	if refused != nil {
		label = refused.Label()
	}
	end(label)
	return objectID, refused
}

func (o observed) Charge(ctx context.Context, ch Charge) Outcome {
	ctx, end := o.begin(ctx, "PSP request")
	outcome := o.PSP.Charge(ctx, ch)
	end(outcome.Label())
	return outcome
}

func (o observed) Refund(ctx context.Context, r Refund) Outcome {
	ctx, end := o.begin(ctx, "PSP request")
	outcome := o.PSP.Refund(ctx, r)
	end(outcome.Label())
	return outcome
}

func (o observed) Lookup(ctx context.Context, r Request, end End) Lookup {
	ctx, ended := o.begin(ctx, "PSP lookup")
	result := o.PSP.Lookup(ctx, r, end)
	ended(result.Label())
	return result
}

func (o observed) List(ctx context.Context, ob Object, account string, after time.Time, cursor string) (Page, error) {
	began := o.now()
	page, err := o.PSP.List(ctx, ob, account, after, cursor)
	label := "list_ok"
	if err != nil {
		label = "list_failed"
	}
	o.observe(label, o.now().Sub(began))
	return page, err
}
