package gateway

import (
	"context"
	"errors"
	"time"

	"payonce/internal/tracing"
)

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
	o.read("list", err, began)
	return page, err
}

func (o observed) Statement(ctx context.Context, account string, day time.Time, each func(Record) error) error {
	began := o.now()
	err := o.PSP.Statement(ctx, account, day, each)
	o.read("statement", err, began)
	return err
}

// read observes a read. A statement that is not there yet is no failure of the PSP.
func (o observed) read(what string, err error, began time.Time) {
	label := what + "_ok"
	switch {
	case errors.Is(err, ErrNoStatement):
		label = what + "_none"
	case err != nil:
		label = what + "_failed"
	}
	o.observe(label, o.now().Sub(began))
}
