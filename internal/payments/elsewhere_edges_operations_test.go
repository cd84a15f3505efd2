package payments

import (
	"net/http"
	"slices"
	"sync/atomic"
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

// The money of a refund of ours comes back before we know that it was sent. So it is declined here. What was taken for
// a refund of others ends with it: a record without our marks, from before the PSP's id of ours was known, and a late
// one, while the PSP does not say how it is now.
func TestRefundThatComesBackBeforeItsOutcomeIsKnownMovesNothing(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ early, late bool }{
		"before": {early: true}, "after": {late: true}, "before and after": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setupOn(t, &actor{}).wantingEvents()
			p := s.charging("paid-00000000001").paidFor()
			ours := s.refunding("refund-000000001", p, 8000).lost()
			sent, failed := ours.record, ours.record
			sent.Key, sent.Reference = "", ""
			failed.Status, failed.DeclineCode = gateway.StatusDeclined, "expired_or_canceled_card"
			if row.early {
				s.tells(judge.SourceWebhook, sent, false)
				s.wantOutside(8000)
			}
			is[Completed](t, s.evidenceBy(judge.SourceLookup, failed))
			s.wantOutside(0)
			s.wantTotals(p, 0, 0)
			if row.late {
				is[DeadLettered](t, s.evidenceBy(judge.SourceWebhook, sent))
			}
			for range 2 {
				is[Confirmed](t, s.evidenceBy(judge.SourceScan, failed))
				s.wantOutside(0)
			}
			want := []string{"payment.succeeded", "refund.unknown", "refund.declined"}
			if row.early {
				want = slices.Insert(want, 2, "refund.succeeded 8000")
			} else {
				want = append(want, "refund.succeeded 8000")
			}
			s.wantTold(p.ID, append(want, "refund.failed")...) // the last one of what seemed to be of others
			page, err := s.service.RefundsToTell(t.Context(), "acme", p.ID, RefundFilter{Limit: 10})
			if err != nil || len(page.Refunds) != 1 || page.Refunds[0].Status != payment.Declined {
				t.Errorf("refunds %+v, %v", page.Refunds, err)
			}
		})
	}
}

// A record without our marks is judged, and before it is written, our refund of the same id is declined.
func TestRefundThatSeemedToBeOfOthersAndIsOurDeclinedOneBoundsNothing(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	ours := s.refunding("refund-000000001", p, 8000).lost()
	unmarked := ours.record
	unmarked.Key, unmarked.Reference = "", ""
	e := judge.Record{Source: judge.SourceWebhook, Record: unmarked}
	g, err := s.service.GatherRecord(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	is[Completed](t, s.evidenceBy(judge.SourceLookup, declinedAs(ours.record, "expired_card")))
	if applied, err := s.service.Apply(t.Context(), g, judge.Judge(g.Seen, e)); err != nil || !applied.Passed {
		t.Fatalf("%+v, %v", applied, err)
	}
	s.wantOutside(0)
	s.wantTotals(p, 0, 0)
}

// What was executed under the marks of a refund of ours, and not by it, counts as the doing of others: a second refund,
// or one that was released. It ends when its money comes back. An operator still has the case.
func TestRefundUnderOurMarksThatComesBackBoundsNothing(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(*stage) *stage{
		"a second one": (*stage).succeeded, "of a declined one": (*stage).declined,
		"of an expired one": func(s *stage) *stage { return s.failed().expired() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var now atomic.Pointer[gateway.Record] // what the PSP says if it is asked
			s := setupOn(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if record := now.Load(); record != nil {
					finds(*record)(w, r)
					return
				}
				w.WriteHeader(http.StatusInternalServerError)
			}))
			p := s.charging("paid-00000000001").paidFor()
			ours := begin(s.refunding("refund-000000001", p, 5000))
			held := s.count("SELECT refund_held_minor FROM payments")
			further := as("re_further", ours.record)
			failed := declinedAs(further, "expired_card")
			is[DeadLettered](t, s.evidenceBy(judge.SourceScan, further))
			s.wantOutside(5000)
			s.evidenceBy(judge.SourceScan, failed)
			s.wantOutside(0)
			s.wantTotals(p, held, held)

			// The same, told the other way round.
			late, failed := as("re_late", further), as("re_late", failed)
			now.Store(&failed)
			s.evidenceBy(judge.SourceWebhook, failed)
			s.evidenceBy(judge.SourceWebhook, late)
			s.wantOutside(0)
			s.wantTotals(p, held, held)
		})
	}
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
