package payments

import (
	"testing"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
)

// A bank disputes only what was charged. So a released key is not executed again, and an unknown one not declined.
func TestOpenDisputeHoldsTheKeyOfItsPayment(t *testing.T) {
	t.Parallel()
	for _, status := range []gateway.DisputeStatus{gateway.NeedsResponse, gateway.Lost} {
		s := setup(t)
		g := s.charging("order-0000000001")
		g.remembers("pi_1")
		g.failed()
		s.tells(judge.SourceWebhook, disputeOf("pi_1", "dp_1", status, 12000), true)
		if answer := s.create("order-0000000001", order()); answer != (Held{}) {
			t.Errorf("%s: the payment is executed again: %T %+v", status, answer, answer)
		}
		g.wantStatus(idempotency.FailedRetryableStatus, 1)
	}
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001")
	g.remembers("pi_1")
	g.lost().windowPasses()
	s.tells(judge.SourceWebhook, disputeOf("pi_1", "dp_1", gateway.UnderReview, 12000), true)
	is[DeadLettered](t, s.evidenceBy(judge.SourceLookup, declinedAs(as("pi_1", g.record), "no_money")))
	g.wantStatus(idempotency.UnknownStatus, 1)
}

// The PSP tells one refund of two payments. One of the two is wrong, so a person decides.
func TestRefundOfTwoPaymentsIsACase(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	a, b := s.charging("paid-00000000001").paidFor(), s.charging("paid-00000000002").paidFor()
	s.tells(judge.SourceWebhook, byOthers(gateway.RefundObject, a.PSPChargeID, "re_1", "succeeded", 500), false)
	for _, status := range []string{"succeeded", "declined"} {
		r := byOthers(gateway.RefundObject, b.PSPChargeID, "re_1", status, 500)
		if l := is[DeadLettered](t, s.evidenceBy(judge.SourceWebhook, r)); l.Kind != deadletters.MovedOutside {
			t.Errorf("%s: dead letter %s", status, l.Kind)
		}
	}
	s.wantTotals(a, 0, 500)
	s.wantTotals(b, 0, 0)
}

// What moves no money is no refund, and does not end a scan.
func TestRefundOfNothingIsPassedOver(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	s.tells(judge.SourceScan, byOthers(gateway.RefundObject, p.PSPChargeID, "re_1", "succeeded", 0), false)
	s.wantOutside(0)
}

// The bank may ask for more, and the merchant may get more time.
func TestDisputeTakesWhatThePSPTellsOfItLater(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	s.tells(judge.SourceWebhook, disputeOf(p.PSPChargeID, "dp_1", gateway.NeedsResponse, 5000), false)
	more := disputeOf(p.PSPChargeID, "dp_1", gateway.NeedsResponse, 12000)
	more.Dispute.EvidenceDueBy = more.Dispute.EvidenceDueBy.AddDate(0, 0, 7)
	s.tells(judge.SourceScan, more, false)
	shown, err := s.service.Payment(t.Context(), "acme", p.ID)
	if err != nil || len(shown.Disputes) != 1 || shown.Disputed() != 12000 ||
		!shown.Disputes[0].EvidenceDueBy.Equal(more.Dispute.EvidenceDueBy) {
		t.Errorf("disputes %+v, %v", shown.Disputes, err)
	}
	s.wantOutside(12000)
}

// An operator has found out at the PSP which end is true, and has that record judged again.
func TestOperatorsRetryDecidesWhichEndOfADisputeIsTrue(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	s.tells(judge.SourceWebhook, disputeOf(p.PSPChargeID, "dp_1", gateway.Lost, 5000), false)
	won := disputeOf(p.PSPChargeID, "dp_1", gateway.Won, 5000)
	s.tells(judge.SourceWebhook, won, true)
	s.wantOutside(5000)
	s.tells(judge.SourceOperator, won, false)
	s.wantOutside(0)
	s.wantDispute(p, gateway.Won, 0)
}

// A scan judges for a while after it has read its page. Meanwhile, a webhook may have told that the refund came back.
func TestScanOfAnOlderPageOpensNoCase(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	moved := byOthers(gateway.RefundObject, p.PSPChargeID, "re_1", "succeeded", 500)
	s.tells(judge.SourceWebhook, declinedAs(moved, "failed"), false)
	s.tells(judge.SourceScan, moved, false)
	s.exec("UPDATE refunds SET updated_at = updated_at - interval '2 minutes'")
	s.tells(judge.SourceScan, moved, true)
}

// A refund may be told before the id of its charge is known here. It is nobody's then, and its case ends by itself.
func TestCaseOfARefundEndsWhenItsChargeIsKnown(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001").lost().windowPasses()
	refund := byOthers(gateway.RefundObject, g.record.ID, "re_1", "succeeded", 500)
	if l := is[DeadLettered](t, s.evidenceBy(judge.SourceWebhook, refund)); l.Kind != deadletters.UnknownMovement {
		t.Errorf("dead letter %s", l.Kind)
	}
	is[Completed](t, s.evidenceBy(judge.SourceWebhook, g.record))
	s.tells(judge.SourceScan, refund, false)
	s.wantOutside(500)
	if open := s.count("SELECT count(*) FROM dead_letters WHERE status = 'open'"); open != 0 {
		t.Errorf("%d cases are open", open)
	}
}
