package invariants

import (
	"testing"

	"github.com/google/uuid"

	"payonce/internal/deadletters"
	"payonce/internal/payments"
)

// A record of another amount than was asked agrees with our books if an operator has decided so, each verdict by its
// own decision.
func TestWrongAmountIsLetPassByItsOwnDecisionAlone(t *testing.T) {
	t.Parallel()
	id := uuid.Must(uuid.NewV7())
	for _, row := range []struct {
		status payments.Status
		action deadletters.Action
		agrees bool
	}{
		{payments.Declined, deadletters.NotExecuted, true},
		{payments.Declined, deadletters.Executed, false},
		{payments.Declined, deadletters.Dismiss, false},
		{payments.Succeeded, deadletters.Executed, true},
		{payments.Succeeded, deadletters.NotExecuted, false},
	} {
		b := &books{accounts: map[string]string{"acme": "acct"},
			deadLetters: []deadLetterRow{{Subject: &id, Action: string(row.action)}},
			subjects: map[uuid.UUID]*movementRow{id: {ID: id, Tenant: "acme", Amount: 500, Currency: "USD",
				Status: string(row.status), PSPID: "ch_1"}}}
		e := Entry{ID: "ch_1", Account: "acct", Reference: payments.PaymentID(id).String(), AmountCents: 501,
			Currency: "USD", Status: string(row.status), Fault: wrongAmount}
		if d, differs := b.compare(&e); differs == row.agrees {
			t.Errorf("%s, %s: differs %t: %s", row.status, row.action, differs, d.what)
		}
	}
}
