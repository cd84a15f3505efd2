package gateway_test

import (
	"context"
	"errors"
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

func observed(psp gateway.PSP, heard *[]string) gateway.Statements {
	return gateway.StatementsOf(gateway.Observed(psp, time.Now,
		func(outcome string, _ time.Duration) { *heard = append(*heard, outcome) }))
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
	want := []string{"statement_ok", "payout_ok", "statement_failed", "payout_failed", "statement_none", "payout_none"}
	if !slices.Equal(heard, want) {
		t.Errorf("observed %v", heard)
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
	psp := gateway.StatementsOf(gateway.PSPs{"one": &counting{}}.Of("other"))
	err := psp.Statement(t.Context(), "canary-account", noon, nil)
	payoutErr := psp.PayoutLines(t.Context(), "canary-account", "po_1", nil)
	if err == nil || errors.Is(err, gateway.ErrNoStatement) || payoutErr == nil ||
		errors.Is(payoutErr, gateway.ErrNoPayoutLines) {
		t.Errorf("statement %v; payout %v", err, payoutErr)
	}
}
