package payments

import (
	"testing"

	"payonce/internal/gateway"
)

// A PSP may count its charges and its refunds apart, so a charge and a refund can have the same id. They are two
// records, and each needs its own dead letter.
func TestChargeAndRefundWithOneIDAreTwoFindings(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	charge := s.charging("order-0000000001").record
	charge.ID, charge.Reference, charge.Key = "1001", "", ""
	refund := s.refunding("refund-000000001", p, 100).record
	refund.ID, refund.Reference, refund.Key = "1001", "", ""
	for _, r := range []gateway.Record{charge, refund} {
		if found := is[DeadLettered](t, s.evidenceBy(SourceScan, r)); !found.New {
			t.Errorf("the %s has no dead letter of its own", r.Object)
		}
	}
	for _, r := range []gateway.Record{charge, refund} {
		if found := is[DeadLettered](t, s.evidenceBy(SourceWebhook, r)); found.New {
			t.Errorf("the %s has two", r.Object)
		}
	}
}
