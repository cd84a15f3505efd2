package payments

import (
	"testing"

	"payonce/internal/deadletters"
	"payonce/internal/idempotency"
)

// wantTotals compares what refunds hold of a payment, and what of it the PSP has confirmed.
func (s *shop) wantTotals(p Payment, held, confirmed int) {
	s.t.Helper()
	h := s.count("SELECT refund_held_minor FROM payments WHERE id = $1", p.ID)
	c := s.count("SELECT refunded_minor FROM payments WHERE id = $1", p.ID)
	if h != held || c != confirmed {
		s.t.Fatalf("%d held, %d confirmed; want %d and %d", h, c, held, confirmed)
	}
}

func TestEvidenceOfARefundKeepsTheTotals(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	lost := s.refunding("refund-000000001", p, 1000).lost()
	refused := s.refunding("refund-000000002", p, 2000).lost()
	released := s.refunding("refund-000000003", p, 4000).failed()
	s.wantTotals(p, 3000, 0)
	s.evidenceBy(SourceWebhook, lost.record)
	s.wantTotals(p, 3000, 1000)
	s.evidenceBy(SourceLookup, declinedAs(refused.record, "too_late"))
	s.wantTotals(p, 1000, 1000)
	s.evidenceBy(SourceScan, released.record)
	s.wantTotals(p, 5000, 5000)
	retried := s.refunding("refund-000000004", p, 500).failed()
	s.wantTotals(p, 5000, 5000)
	retried.reserve(retried.again())
	s.wantTotals(p, 5500, 5000)
	s.evidenceBy(SourceWebhook, retried.record)
	s.wantTotals(p, 5500, 5500)
	lost.wantMoved(Succeeded, lost.record.ID)
	refused.wantMoved(Declined, refused.record.ID)
	released.wantMoved(Succeeded, released.record.ID)
}

// A refund that was given up has freed its share, and another one has taken it. Then the first turns out to have
// happened: there is no room for it in the payment, and nobody but an operator can make some.
func TestRefundThatComesToLightWhenItsShareIsGoneIsADeadLetter(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	g := s.refunding("refund-000000001", p, 8000).failed()
	rival := s.refunding("refund-000000002", p, 8000)
	before := s.everything()
	for range 2 {
		if l := is[DeadLettered](t, s.evidenceBy(SourceWebhook, g.record)); l.Kind != deadletters.RefundExceeds ||
			s.everything() != before {
			t.Fatalf("dead letter %s, moved %v", l.Kind, s.everything() != before)
		}
	}
	s.wantDeadLetters("refund_exceeds_payment refund record acme " + g.record.ID)
	s.wantTotals(p, 8000, 0)
	// What makes room lets it in.
	rival.failed()
	is[Completed](t, s.evidenceBy(SourceOperator, g.record))
	g.wantStatus(idempotency.CompletedStatus, 1)
	s.wantTotals(p, 8000, 8000)
}

func TestLateOwnerOfARefundWhoseShareIsGoneIsADeadLetter(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	g := s.refunding("refund-000000001", p, 8000).swept().proven()
	s.refunding("refund-000000002", p, 8000).succeeded()
	before := s.everything()
	is[Pending](t, g.live(g.lease, g.movement, g.success()))
	if s.everything() != before {
		t.Fatal("something has moved")
	}
	s.wantDeadLetters("refund_exceeds_payment refund record acme " + g.record.ID)
}
