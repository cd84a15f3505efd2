package payments

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/test/wait"
)

// byOthers is what others have done to a charge.
func byOthers(o gateway.Object, charge, id, status string, amount int64) gateway.Record {
	return gateway.Record{
		Object: o, ID: id, Account: "acme", ChargeID: charge, AmountMinor: amount, Currency: "USD", Status: status,
		Created: time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC),
	}
}

// disputeOf is a dispute of a charge.
func disputeOf(charge, id string, status gateway.DisputeStatus, amount int64) gateway.Record {
	r := byOthers(gateway.DisputeObject, charge, id, status.Record(), amount)
	r.Dispute = gateway.Dispute{Status: status, Reason: "fraudulent", EvidenceDueBy: r.Created.AddDate(0, 0, 9)}
	return r
}

// wantOutside checks what others have moved of the only payment.
func (s *shop) wantOutside(minor int64) {
	s.t.Helper()
	if got := s.count("SELECT sum(moved_outside_minor)::bigint FROM payments"); int64(got) != minor {
		s.t.Fatalf("others have moved %d, want %d", got, minor)
	}
}

// tells brings a record, and checks that it opens a case, or none.
func (s *shop) tells(source judge.Source, r gateway.Record, opens bool) {
	s.t.Helper()
	l, is := s.evidenceBy(source, r).(DeadLettered)
	if is != opens || opens && l.Kind != deadletters.MovedOutside {
		s.t.Fatalf("%s by %s: %+v", r.Status, source, l)
	}
}

// refunds asks for a refund as a client does.
func (s *shop) refunds(key string, p payment.Payment, part payment.AmountMinor) (Answer, error) {
	s.t.Helper()
	return s.service.Refund(s.t.Context(), keyed(s.t, key), p.ID, payment.RefundRequest{AmountCents: part})
}

// One object of the PSP's counts once, from whichever source it comes first, and a later status takes the place of an
// earlier one. No operator is needed.
func TestRefundMadeElsewhereCountsOnceWithItsLastStatus(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	tells := func(source judge.Source, id, status string, amount int64) {
		t.Helper()
		s.tells(source, byOthers(gateway.RefundObject, p.PSPChargeID, id, status, amount), false)
	}
	tells(judge.SourceWebhook, "re_1", "pending", 500)
	s.wantTotals(p, 0, 0)
	tells(judge.SourceScan, "re_1", "succeeded", 500)
	tells(judge.SourceWebhook, "re_1", "pending", 500) // late
	s.wantOutside(500)
	tells(judge.SourceScan, "re_2", "succeeded", 700)
	s.wantOutside(1200)
	s.wantTotals(p, 0, 1200)
	if _, err := s.refunds("refund-000000001", p, 10801); !errors.Is(err, ErrRefundExceedsPayment) {
		t.Errorf("a refund of more than is left: %v", err)
	}
	tells(judge.SourceWebhook, "re_1", "declined", 500)
	tells(judge.SourceWebhook, "re_1", "succeeded", 500) // late
	s.wantOutside(700)
	s.wantTotals(p, 0, 700)
	s.wantDeadLetters()
	page, err := s.service.RefundsToTell(t.Context(), "acme", p.ID, RefundFilter{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, r := range page.Refunds {
		listed = append(listed, fmt.Sprintf("%s %s %s %d %q", r.PSPRefundID, r.Origin, r.Status.Shown(), r.Amount,
			r.Key))
	}
	want := []string{`re_2 provider succeeded 700 ""`, `re_1 provider failed 500 ""`}
	if diff := cmp.Diff(want, listed); diff != "" {
		t.Error(diff)
	}
}

// wantDispute checks what the only payment shows of its only dispute.
func (s *shop) wantDispute(p payment.Payment, status gateway.DisputeStatus, holds payment.AmountMinor) {
	s.t.Helper()
	shown, err := s.service.Payment(s.t.Context(), "acme", p.ID)
	if err != nil {
		s.t.Fatal(err)
	}
	if len(shown.Disputes) != 1 || shown.Disputes[0].Status != status || shown.Disputed() != holds ||
		shown.Disputes[0].Reason != "fraudulent" || shown.Disputes[0].EvidenceDueBy.Day() != 29 {
		s.t.Fatalf("disputes %+v, want %s, which holds %d", shown.Disputes, status, holds)
	}
	s.wantOutside(int64(holds))
}

// Of a dispute, the money is withdrawn after the bank has only asked, and comes back when it is won. Its events come
// late, twice and out of order.
func TestDisputeHoldsItsMoneyUntilItIsWon(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	for _, step := range []struct {
		told, shown gateway.DisputeStatus
		holds       payment.AmountMinor
	}{
		{gateway.Inquiry, gateway.Inquiry, 0},
		{gateway.UnderReview, gateway.UnderReview, 5000},
		{gateway.NeedsResponse, gateway.UnderReview, 5000},
		{gateway.Inquiry, gateway.UnderReview, 5000},
		{gateway.Won, gateway.Won, 0},
		{gateway.Won, gateway.Won, 0},
		{gateway.UnderReview, gateway.Won, 0},
	} {
		s.tells(judge.SourceWebhook, disputeOf(p.PSPChargeID, "dp_1", step.told, 5000), false)
		s.wantDispute(p, step.shown, step.holds)
		if step.holds == 0 {
			continue
		}
		if _, err := s.refunds("refund-000000001", p, 7001); !errors.Is(err, ErrRefundExceedsPayment) {
			t.Errorf("a refund of disputed money: %v", err)
		}
	}
	s.wantDeadLetters()
}

// What was lost is gone. A bank that says both is a case, and the loss counts.
func TestDisputeThatIsLostAndWonIsACase(t *testing.T) {
	t.Parallel()
	for name, told := range map[string][]gateway.DisputeStatus{
		"lost and won": {gateway.NeedsResponse, gateway.Lost, gateway.Won},
		"won and lost": {gateway.NeedsResponse, gateway.Won, gateway.Lost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setupOn(t, &actor{})
			p := s.charging("paid-00000000001").paidFor()
			for i, status := range told {
				s.tells(judge.SourceWebhook, disputeOf(p.PSPChargeID, "dp_1", status, 5000), i == 2)
			}
			s.wantDispute(p, gateway.Lost, 5000)
			s.wantDeadLetters("moved_outside disagrees record acme dp_1")
		})
	}
}

// A statement knows neither the reason nor the dates of a dispute. They are added when the list of disputes is read.
func TestDisputeOfAStatementIsCompletedByTheScan(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	bare := disputeOf(p.PSPChargeID, "dp_1", gateway.NeedsResponse, 5000)
	bare.Dispute = gateway.Dispute{Status: gateway.NeedsResponse}
	s.tells(judge.SourceStatement, bare, false)
	s.tells(judge.SourceScan, disputeOf(p.PSPChargeID, "dp_1", gateway.NeedsResponse, 5000), false)
	s.tells(judge.SourceStatement, bare, false)
	s.wantDispute(p, gateway.NeedsResponse, 5000)
}

// The money of a refund of ours comes back. Its stored answer stays, and its share can be refunded again.
func TestRefundThatComesBackGivesItsShareBack(t *testing.T) {
	t.Parallel()
	for source, expired := range map[judge.Source]bool{judge.SourceWebhook: false, judge.SourceScan: true} {
		t.Run(string(source), func(t *testing.T) {
			t.Parallel()
			s := setupOn(t, &actor{})
			p := s.charging("paid-00000000001").paidFor()
			ours := s.refunding("refund-000000001", p, 8000).succeeded()
			s.wantTotals(p, 8000, 8000)
			if expired {
				ours.expired()
			}
			failed := ours.record
			failed.Status, failed.DeclineCode = gateway.StatusDeclined, "expired_or_canceled_card"
			for range 2 {
				s.tells(source, failed, false)
			}
			s.tells(judge.SourceWebhook, ours.record, false) // late
			s.wantTotals(p, 0, 0)
			r, err := s.service.RefundByID(t.Context(), "acme", payment.RefundID(ours.lease.Subject))
			if err != nil || r.Status != payment.Reversed || r.DeclineCode != "expired_or_canceled_card" ||
				!r.Updated.After(r.Created) {
				t.Errorf("refund %+v, %v", r, err)
			}
			s.wantDeadLetters()
			if !expired {
				answer, err := s.refunds("refund-000000001", p, 8000)
				if f, final := answer.(Final); !final || f.Response.Status != 201 || !f.Replayed {
					t.Errorf("the stored answer is %+v, %v", answer, err)
				}
			}
			s.refunding("refund-000000002", p, 12000).succeeded()
			s.wantTotals(p, 12000, 12000)
		})
	}
}

// The PSP says that the refund came back, and its ledger has it as moved.
func TestRefundThatCameBackAndDidNotIsACase(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	ours := s.refunding("refund-000000001", p, 8000).succeeded()
	failed := ours.record
	failed.Status, failed.DeclineCode = gateway.StatusDeclined, "expired_or_canceled_card"
	s.tells(judge.SourceWebhook, failed, false)
	l := is[DeadLettered](t, s.evidenceBy(judge.SourceScan, ours.record))
	if l.Kind != deadletters.ContradictsCompleted {
		t.Errorf("dead letter %s", l.Kind)
	}
	s.wantTotals(p, 0, 0)
	s.wantOutside(0)
}

// Nobody can tell here how much of the payment an amount in another currency is. So it counts as the whole payment.
func TestMovementInAnotherCurrencyCountsAsTheWholePayment(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	dispute := disputeOf(p.PSPChargeID, "du_1", gateway.Inquiry, 700)
	dispute.Currency = "KWD"
	s.tells(judge.SourceWebhook, dispute, false)
	s.wantOutside(0) // The bank only asks.
	dispute.Dispute.Status = gateway.NeedsResponse
	s.tells(judge.SourceWebhook, dispute, true)
	s.wantOutside(12000)
	if _, err := s.refunds("refund-000000001", p, 1); !errors.Is(err, ErrRefundExceedsPayment) {
		t.Errorf("a refund: %v", err)
	}
	if reason := s.texts("SELECT reason FROM dead_letters ORDER BY opened_at DESC LIMIT 1")[0]; reason !=
		"the PSP has a dispute of this payment that nothing of ours asked for; it is in KWD, so it counts as the whole payment" {
		t.Errorf("reason: %s", reason)
	}
}

// A refund of ours may hold the same share already. The evidence is stored all the same. Ours ends as the PSP says, and
// frees its share if it is declined.
func TestOutsideRefundIsStoredBesideARefundOfOursThatIsUnderWay(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	ours := s.refunding("refund-000000001", p, 12000)
	s.tells(judge.SourceWebhook, byOthers(gateway.RefundObject, p.PSPChargeID, "re_1", "succeeded", 12000), false)
	s.wantOutside(12000)
	s.wantTotals(p, 12000, 12000)
	ours.live(ours.lease, ours.movement, gateway.Declined{Code: gateway.AlreadyMoved})
	s.wantTotals(p, 0, 12000)
	s.wantDeadLetters()
}

// A released refund has no share. Others may have taken it before its client tries again.
func TestReleasedRefundDoesNotTakeWhatOthersHaveMoved(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	released := s.refunding("refund-000000001", p, 8000).failed()
	s.tells(judge.SourceScan, byOthers(gateway.RefundObject, p.PSPChargeID, "re_1", "succeeded", 8000), false)
	c := s.keys.NewReservation(released.reservation.Ref, released.reservation.Fingerprint, uuid.Must(uuid.NewV7()),
		uuid.Must(uuid.NewV7()))
	if _, _, err := s.service.reserve(t.Context(), c, released.again()); !errors.Is(err, ErrRefundExceedsPayment) {
		t.Fatalf("the refund is tried again: %v", err)
	}
	s.wantTotals(p, 0, 8000)
	released.wantStatus(idempotency.FailedRetryableStatus, 1)
}

// Ours and those of others are noticed at the same time. Refunds of ours never take what others have moved before.
func TestRefundsOfOursAndOfOthersAtOnceAreBounded(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	s.tells(judge.SourceScan, byOthers(gateway.RefundObject, p.PSPChargeID, "re_first", "succeeded", 6000), false)
	var granted atomic.Int32
	wait.AtOnce(12, func(i int) {
		if i%2 == 0 {
			s.evidenceBy(judge.SourceWebhook,
				byOthers(gateway.RefundObject, p.PSPChargeID, fmt.Sprint("re_", i), "succeeded", 100))
			return
		}
		m := newRefund(s.psp(), keyed(t, "any-key-0000000000").Merchant, p,
			payment.RefundRequest{AmountCents: 2000})
		k := keyed(t, fmt.Sprintf("refund-%09d", i))
		c := s.keys.NewReservation(s.reservation(payment.RefundOperation, k).Ref, idempotency.Fingerprint{},
			uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7()))
		switch _, _, err := s.service.reserve(t.Context(), c, m); {
		case err == nil:
			granted.Add(1)
		case !errors.Is(err, ErrRefundExceedsPayment):
			t.Error(err)
		}
	})
	s.wantOutside(6600)
	held := s.count("SELECT refund_held_minor FROM payments")
	if n := int(granted.Load()); held != 2000*n || n < 2 || n > 3 || held+6000 > 12000 {
		t.Errorf("%d refunds were granted, %d are held", n, held)
	}
}

// Who gives money of a charge back says that the charge was executed. So the key of a payment that is still unknown is
// not released, and not completed as a decline. What was moved is known when the payment is resolved.
func TestOutsideRefundOfAPaymentThatIsUnknownIsNotLost(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001")
	g.remembers("pi_1")
	g.lost().windowPasses()
	s.tells(judge.SourceScan, byOthers(gateway.RefundObject, "pi_1", "re_1", "succeeded", 500), true)
	s.wantOutside(500)
	is[DeadLettered](t, s.evidenceBy(judge.SourceWebhook, declinedAs(as("pi_1", g.record), "no_money")))
	g.wantStatus(idempotency.UnknownStatus, 1)
	is[Completed](t, s.evidenceBy(judge.SourceWebhook, as("pi_1", g.record)))
	s.wantOutside(500)
	if held := s.count("SELECT count(*) FROM idempotency_keys WHERE dead_letter_hold <> 'none'"); held != 1 {
		t.Errorf("%d keys are held", held)
	}
	s.tells(judge.SourceScan, byOthers(gateway.RefundObject, "pi_1", "re_1", "succeeded", 500), false)
	if open := s.count("SELECT count(*) FROM dead_letters WHERE status = 'open' AND kind = 'moved_outside'"); open != 0 {
		t.Errorf("%d cases are open", open)
	}
	p := payment.Payment{ID: payment.ID(g.lease.Subject), Tenant: "acme"}
	if _, err := s.refunds("refund-000000001", p, 11501); !errors.Is(err, ErrRefundExceedsPayment) {
		t.Errorf("a refund of more than is left: %v", err)
	}
}

// remembers stores the PSP's object of the stage's charge, as an owner does before the second step.
func (s *stage) remembers(id string) {
	s.t.Helper()
	if n := s.count(`WITH u AS (UPDATE payments SET psp_object_id = $1 WHERE id = $2 RETURNING 1)
		SELECT count(*) FROM u`, id, s.lease.Subject); n != 1 {
		s.t.Fatalf("%d payments have an object", n)
	}
}

// A refund of ours whose marks somebody has deleted is ours by its id, and counts once.
func TestRefundOfOursWithoutItsMarksCountsOnce(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	ours := s.refunding("refund-000000001", p, 500).succeeded()
	l := is[DeadLettered](t, s.evidenceBy(judge.SourceWebhook,
		byOthers(gateway.RefundObject, p.PSPChargeID, ours.record.ID, "succeeded", 500)))
	if l.Kind != deadletters.ContradictsCompleted {
		t.Errorf("dead letter %s", l.Kind)
	}
	s.wantOutside(0)
	s.wantTotals(p, 500, 500)
}

// A second refund under our marks has moved money, too. Whatever an operator decides, it bounds what may be refunded.
func TestSecondRefundUnderOurMarksBoundsRefunds(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	ours := s.refunding("refund-000000001", p, 5000).succeeded()
	l := is[DeadLettered](t, s.evidenceBy(judge.SourceWebhook, as("re_twice", ours.record)))
	if l.Kind != deadletters.DuplicateMovement {
		t.Errorf("dead letter %s", l.Kind)
	}
	s.wantOutside(5000)
	if _, err := s.refunds("refund-000000002", p, 2001); !errors.Is(err, ErrRefundExceedsPayment) {
		t.Errorf("a refund of more than is left: %v", err)
	}
}

// A released refund was executed after all, and first seemed to be one of others. It is ours when it is resolved.
func TestOutsideRefundThatTurnsOutToBeOursCountsAsOurs(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	ours := s.refunding("refund-000000001", p, 8000).failed()
	s.tells(judge.SourceWebhook,
		byOthers(gateway.RefundObject, p.PSPChargeID, ours.record.ID, "succeeded", 8000), false)
	s.wantOutside(8000)
	is[Completed](t, s.evidenceBy(judge.SourceScan, ours.record))
	s.wantOutside(0)
	s.wantTotals(p, 8000, 8000)
}

// The sum of what the PSP says may be larger than any amount. It is stored all the same.
func TestLargestAmountsOfOthersCanBeStored(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	for _, id := range []string{"re_1", "re_2"} {
		s.tells(judge.SourceScan, byOthers(gateway.RefundObject, p.PSPChargeID, id, "succeeded", 1<<63-1), false)
	}
	s.wantOutside(1_000_000_000_000_000_000)
	if _, err := s.refunds("refund-000000001", p, 0); !errors.Is(err, ErrRefundExceedsPayment) {
		t.Errorf("a refund: %v", err)
	}
}

// What others have moved out of a payment is no money under its key. An expired key begins a new payment.
func TestRefundOfOthersDoesNotHoldTheNextGeneration(t *testing.T) {
	t.Parallel()
	s := setup(t)
	g := s.charging("order-0000000001")
	p := g.paidFor()
	g.expired()
	s.tells(judge.SourceWebhook, byOthers(gateway.RefundObject, p.PSPChargeID, "re_1", "succeeded", 500), false)
	if f := is[Final](t, s.create("order-0000000001", order())); f.Response.Status != 201 {
		t.Errorf("answer is %+v", f)
	}
}
