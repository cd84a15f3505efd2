package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"payonce/internal/gateway"
)

// publishing is a provider with statements, whose reads end with this error.
type publishing struct {
	gateway.PSP

	err error
}

func (p publishing) Statement(context.Context, string, time.Time, func(gateway.Line) error) error {
	return p.err
}

func (p publishing) PayoutLines(context.Context, string, string, func(string) error) error {
	return p.err
}

// observed hears of each read with its time, by a clock that moves on by a second whenever it is read.
func observed(psp gateway.PSP, heard *[]string) gateway.Statements {
	now := noon
	return gateway.StatementsOf(gateway.Observed(psp, func() time.Time { now = now.Add(time.Second); return now },
		func(outcome string, took time.Duration) { *heard = append(*heard, fmt.Sprint(outcome, " ", took)) }))
}

// What the PSP does not publish, or not yet, is no failure of it.
func TestObserverHearsOfEachReadOfAStatementOnce(t *testing.T) {
	t.Parallel()
	var heard []string
	for _, end := range []error{
		nil, errors.New("cut off"), errors.Join(gateway.ErrNoStatement, gateway.ErrNoPayoutLines),
	} {
		psp := observed(publishing{err: end}, &heard)
		err := psp.Statement(t.Context(), "acct", noon, nil)
		payoutErr := psp.PayoutLines(t.Context(), "acct", "po_1", nil)
		if !errors.Is(err, end) || !errors.Is(payoutErr, end) {
			t.Errorf("statement %v; payout %v", err, payoutErr)
		}
	}
	want := []string{"statement_ok 1s", "payout_ok 1s", "statement_failed 1s", "payout_failed 1s", "statement_none 1s",
		"payout_none 1s"}
	if !slices.Equal(heard, want) {
		t.Errorf("observed %v", heard)
	}
}

// A provider without settings may publish statements. Nobody would notice its absence if no day of it were due.
func TestOnlyAProviderWithoutTheMethodsPublishesNothing(t *testing.T) {
	t.Parallel()
	watched := func(psp gateway.PSP) gateway.PSP { return gateway.Observed(psp, time.Now, nil) }
	for name, row := range map[string]struct {
		psp  gateway.PSP
		want bool
	}{
		"with": {publishing{}, true}, "with, observed": {watched(publishing{}), true},
		"none": {&counting{}, false}, "none, observed": {watched(&counting{}), false},
		"no settings": {gateway.PSPs{}.Of("other"), true},
	} {
		if got := gateway.Publishes(row.psp); got != row.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestProviderThatPublishesNothingHasNoStatement(t *testing.T) {
	t.Parallel()
	var heard []string
	for _, none := range []gateway.Statements{
		gateway.StatementsOf(&counting{}), observed(&counting{}, &heard),
	} {
		err := none.Statement(t.Context(), "acct", noon, nil)
		payoutErr := none.PayoutLines(t.Context(), "acct", "po_1", nil)
		if !errors.Is(err, gateway.ErrNoStatement) || !errors.Is(payoutErr, gateway.ErrNoPayoutLines) {
			t.Errorf("statement %v; payout %v", err, payoutErr)
		}
	}
}

// A statement that does not exist would be proof that nothing has moved.
func TestStatementOfAProviderWithoutSettingsIsNotKnown(t *testing.T) {
	t.Parallel()
	const reason = "this process has no settings for the tenant's PSP, which is other"
	psp := gateway.StatementsOf(gateway.PSPs{"one": &counting{}}.Of("other"))
	never := func(gateway.Line) error { t.Error("it has a line"); return nil }
	for what, err := range map[string]error{
		"statement": psp.Statement(t.Context(), "canary-account", noon, never),
		"payout":    psp.PayoutLines(t.Context(), "canary-account", "po_1", nil),
	} {
		if err == nil || err.Error() != reason || errors.Is(err, gateway.ErrNoStatement) ||
			errors.Is(err, gateway.ErrNoPayoutLines) {
			t.Errorf("%s: error %v", what, err)
		}
	}
}
