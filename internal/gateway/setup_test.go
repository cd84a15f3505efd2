package gateway_test

import (
	"testing"
	"time"

	"payonce/internal/gateway"
)

// noon is when the ledger of these tests begins.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func aCharge() gateway.Charge {
	return gateway.Charge{
		Account: "canary-account", Key: "canary-key-0123456789", Attempt: 1, Reference: "pay_canary",
		AmountMinor: 12000, Currency: "USD", PaymentMethod: "pm_canary",
	}
}

func aRefund() gateway.Refund {
	return gateway.Refund{
		Account: "canary-account", Key: "canary-key-0123456789", Attempt: 1, Reference: "re_canary", ChargeID: "ch_1",
		AmountMinor: 500, Currency: "USD", Reason: "canary reason",
	}
}

// The PSP's records of aCharge and aRefund, with or without an edit.

func charged(edits ...func(*gateway.Record)) gateway.Record {
	return edited(gateway.Record{
		Object: gateway.ChargeObject, ID: "ch_1", Account: "canary-account", Key: "canary-key-0123456789",
		Reference: "pay_canary", AmountMinor: 12000, Currency: "USD", Status: gateway.StatusSucceeded,
		Created: noon.Add(time.Microsecond),
	}, edits)
}

func refunded(edits ...func(*gateway.Record)) gateway.Record {
	return edited(gateway.Record{
		Object: gateway.RefundObject, ID: "rf_1", Account: "canary-account", Key: "canary-key-0123456789",
		Reference: "re_canary", ChargeID: "ch_1", AmountMinor: 500, Currency: "USD", Status: gateway.StatusSucceeded,
		Created: noon.Add(3 * time.Microsecond),
	}, edits)
}

func edited(r gateway.Record, edits []func(*gateway.Record)) gateway.Record {
	for _, edit := range edits {
		edit(&r)
	}
	return r
}

// declined makes a decline of a record.
func declined(code string) func(*gateway.Record) {
	return func(r *gateway.Record) { r.Status, r.DeclineCode = gateway.StatusDeclined, code }
}

// indeterminate checks that nothing is known, and that no operator is called for it.
func indeterminate(t *testing.T, o gateway.Outcome, reason string) {
	t.Helper()
	got, ok := o.(gateway.Indeterminate)
	if !ok || got.Reason != reason || got.Contradiction {
		t.Fatalf("outcome %T %+v, want Indeterminate without contradiction: %s", o, o, reason)
	}
}

// contradiction checks that the outcome is one, and returns its evidence.
func contradiction(t *testing.T, o gateway.Outcome, reason string) []byte {
	t.Helper()
	got, ok := o.(gateway.Indeterminate)
	if !ok || got.Reason != reason || !got.Contradiction || len(got.Evidence) == 0 {
		t.Fatalf("outcome %T %+v, want a contradiction with evidence: %s", o, o, reason)
	}
	return got.Evidence
}
