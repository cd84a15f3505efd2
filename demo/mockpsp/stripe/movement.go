package stripe

import (
	"cmp"
	"strings"

	"payonce/demo/mockpsp"
)

// movementOf is how the ledger names a charge: by its intent, since the intent is what may be charged once only.
func movementOf(by asked, i *intent) *mockpsp.Movement {
	return &mockpsp.Movement{
		ID: i.ID, Object: mockpsp.ObjectCharge, Account: i.Account, AmountCents: i.Amount,
		IdempotencyKey: cmp.Or(i.Metadata["idempotency_key"], by.key.Key), Reference: i.Metadata["reference"],
		Currency: strings.ToUpper(i.Currency), PaymentMethod: i.Method,
	}
}

// movementOfRefund is how the ledger names a refund.
func movementOfRefund(by asked, r *refund) *mockpsp.Movement {
	m := &mockpsp.Movement{
		ID: r.ID, Object: mockpsp.ObjectRefund, Account: r.Account, ChargeID: r.Intent, AmountCents: r.Amount,
		IdempotencyKey: cmp.Or(r.Metadata["idempotency_key"], by.key.Key), Reference: r.Metadata["reference"],
		Currency: strings.ToUpper(r.Currency), Reason: cmp.Or(r.Metadata["reason"], r.Reason),
		Status: mockpsp.StatusSucceeded,
	}
	if r.Status == failed {
		m.Status, m.DeclineCode = mockpsp.StatusDeclined, r.Why
	}
	return m
}
