package gateway

import (
	"context"
	"errors"
	"time"
)

// Statements are what a PSP publishes about the balances of its accounts. No payment depends on them.
type Statements interface {
	// Statement calls each with every line of one day (UTC) in the account's settlement, of whatever type. Only if it
	// returns nil, the day is complete. It fails with ErrNoStatement if the PSP has no statement for that day.
	Statement(ctx context.Context, account string, day time.Time, each func(Line) error) error
	// PayoutLines calls each with the id of every line that a payout has paid. It fails with ErrNoPayoutLines if the
	// PSP does not tell.
	PayoutLines(ctx context.Context, account, payoutID string, each func(lineID string) error) error
}

// ErrNoStatement says that the PSP has no statement for that day.
var ErrNoStatement = errors.New("the PSP has no statement for that day")

// ErrNoPayoutLines says that the PSP does not tell which lines a payout has paid.
var ErrNoPayoutLines = errors.New("the PSP does not tell which lines the payout has paid")

// StatementsOf are the statements of a PSP. If the PSP publishes none, there is none for any day.
func StatementsOf(psp PSP) Statements {
	if published, ok := psp.(Statements); ok {
		return published
	}
	return noStatements{}
}

// Publishes reports whether a PSP publishes statements. A PSP that this process has no settings for may do so: its
// absence must be noticed.
func Publishes(psp PSP) bool {
	if o, ok := psp.(observed); ok {
		psp = o.PSP
	}
	_, published := psp.(Statements)
	return published
}

var (
	_ Statements = absent("")
	_ Statements = observed{}
)

type noStatements struct{}

func (noStatements) Statement(context.Context, string, time.Time, func(Line) error) error {
	return ErrNoStatement
}

func (noStatements) PayoutLines(context.Context, string, string, func(string) error) error {
	return ErrNoPayoutLines
}

func (a absent) Statement(context.Context, string, time.Time, func(Line) error) error { return a.err() }

func (a absent) PayoutLines(context.Context, string, string, func(string) error) error {
	return a.err()
}

func (o observed) Statement(ctx context.Context, account string, day time.Time, each func(Line) error) error {
	began := o.now()
	err := StatementsOf(o.PSP).Statement(ctx, account, day, each)
	o.read("statement", err, began)
	return err
}

func (o observed) PayoutLines(ctx context.Context, account, payoutID string, each func(string) error) error {
	began := o.now()
	err := StatementsOf(o.PSP).PayoutLines(ctx, account, payoutID, each)
	o.read("payout", err, began)
	return err
}

// read observes a read. What the PSP does not publish, or not yet, is no failure of it.
func (o observed) read(what string, err error, began time.Time) {
	label := what + "_ok"
	switch {
	case errors.Is(err, ErrNoStatement), errors.Is(err, ErrNoPayoutLines):
		label = what + "_none"
	case err != nil:
		label = what + "_failed"
	}
	o.observe(label, o.now().Sub(began))
}
