package payments

import (
	"testing"

	"payonce/internal/gateway"
	"payonce/internal/judge"
	"payonce/internal/payment"
)

// One movement counts once, also when an operator has vouched for it before the PSP has shown it.
func TestVouchedRefundCountsOnce(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	g := s.refunding("refund-000000001", p, 5000).lost()
	if err := g.executes(g.record.ID); err != nil {
		t.Fatal(err)
	}
	other := g.record
	other.AmountMinor++
	is[DeadLettered](t, s.evidenceBy(judge.SourceScan, other))
	s.wantTotals(p, 5000, 5000)
	s.wantOutside(0)

	unmarked := g.record
	unmarked.Key, unmarked.Reference = "", ""
	s.tells(judge.SourceScan, unmarked, false)
	s.wantTotals(p, 5000, 5000)
	is[Confirmed](t, s.evidenceBy(judge.SourceWebhook, g.record))
	g.wantMoved(payment.Succeeded, g.record.ID)
	s.wantTotals(p, 5000, 5000)
	s.wantOutside(0)
}

func TestVouchedRefundThatFailsComesBack(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	g := s.refunding("refund-000000001", p, 5000).lost()
	if err := g.executes(g.record.ID); err != nil {
		t.Fatal(err)
	}
	s.tells(judge.SourceWebhook, declinedAs(g.record, "expired_card"), false)
	g.wantMoved(payment.Reversed, g.record.ID)
	s.wantTotals(p, 0, 0)
}

// A line of the statement that is there twice, and of nothing of ours; and one under the marks of a refund of ours.
func TestFurtherLinesOfAStatementAreCases(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	s.wantResolved(judge.Break{Kind: judge.BreakDuplicate, Account: "acme", Object: gateway.ChargeObject, PSPID: "ch_x",
		Theirs: &judge.Side{AmountMinor: 500, Currency: "USD", Status: "succeeded"}}, false)
	ours := s.refunding("refund-000000001", p, 5000).succeeded()
	id := ours.lease.Subject
	s.wantResolved(judge.Break{Kind: judge.BreakDuplicate, Account: "acme", Object: gateway.RefundObject,
		PSPID: "re_twice", Subject: &id, Reference: payment.RefundID(id).String(), Moved: ours.record.Created,
		Theirs: &judge.Side{AmountMinor: 5000, Currency: "USD", Status: "succeeded"},
		Ours:   &judge.Side{AmountMinor: 5000, Currency: "USD", Status: "succeeded", PSPID: ours.record.ID}}, false)
	s.wantOutside(0)
	s.wantDeadLetters("duplicate_movement record acme ch_x", "duplicate_movement refund record acme re_twice")
}
