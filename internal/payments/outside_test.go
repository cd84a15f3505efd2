package payments

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

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
// earlier one. Each state of it is one case, whatever an operator decides.
func TestWhatOthersHaveMovedCountsOnceWithItsLastStatus(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	refund := func(id, status string, amount int64) gateway.Record {
		return byOthers(gateway.RefundObject, p.PSPChargeID, id, status, amount)
	}
	s.tells(judge.SourceWebhook, refund("re_1", "pending", 500), true)
	s.tells(judge.SourceScan, refund("re_1", "succeeded", 500), true)
	s.tells(judge.SourceWebhook, refund("re_1", "pending", 500), true) // late
	s.wantOutside(500)
	s.tells(judge.SourceScan, refund("re_2", "succeeded", 700), true)
	s.wantOutside(1200)
	s.exec("UPDATE dead_letters SET status = 'resolved', version = 2, resolved_at = now(), action = 'dismiss', " +
		"actor = 'ann', resolution_reason = 'seen to'")
	s.tells(judge.SourceScan, refund("re_2", "succeeded", 700), true)
	if open := s.count("SELECT count(*) FROM dead_letters WHERE status = 'open'"); open != 0 {
		t.Errorf("%d cases are open again", open)
	}
	s.wantOutside(1200)
	_, err := s.refunds("refund-000000001", p, 10801)
	if !errors.Is(err, ErrRefundExceedsPayment) {
		t.Errorf("a refund of more than is left: %v", err)
	}
	s.tells(judge.SourceWebhook, refund("re_1", "declined", 500), false)
	s.tells(judge.SourceWebhook, refund("re_1", "succeeded", 500), true) // late
	s.wantOutside(700)
	s.wantDeadLetters("moved_outside pending 500 refund record acme re_1",
		"moved_outside succeeded 500 refund record acme re_1", "moved_outside succeeded 700 refund record acme re_2")
}

// The operator has dismissed what had moved nothing yet. That is no decision about what moves later.
func TestDismissedCaseIsOpenedAgainWhenTheMoneyLeaves(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	open := func(want int) {
		t.Helper()
		if got := s.count("SELECT count(*) FROM dead_letters WHERE status = 'open'"); got != want {
			t.Errorf("%d cases are open, want %d", got, want)
		}
	}
	for _, steps := range [][]gateway.Record{
		{byOthers(gateway.DisputeObject, p.PSPChargeID, "du_1", "pending", 0),
			byOthers(gateway.DisputeObject, p.PSPChargeID, "du_1", "pending", 12000),
			byOthers(gateway.DisputeObject, p.PSPChargeID, "du_1", "succeeded", 12000)},
		{byOthers(gateway.RefundObject, p.PSPChargeID, "re_1", "pending", 500),
			byOthers(gateway.RefundObject, p.PSPChargeID, "re_1", "succeeded", 500)},
	} {
		for _, r := range steps {
			s.tells(judge.SourceWebhook, r, true)
			open(1)
			s.dismissed()
			s.tells(judge.SourceScan, r, true)
			open(0)
		}
	}
}

// Of a dispute, the money is withdrawn after the bank has only asked, and may come back.
func TestDisputeHoldsWhatIsWithdrawn(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	dispute := func(status string, amount int64) gateway.Record {
		return byOthers(gateway.DisputeObject, p.PSPChargeID, "du_1", status, amount)
	}
	s.tells(judge.SourceWebhook, dispute("pending", 0), true)
	s.wantOutside(0)
	s.tells(judge.SourceWebhook, dispute("pending", 12000), true)
	s.tells(judge.SourceWebhook, dispute("pending", 0), true) // late
	s.wantOutside(12000)
	if _, err := s.refunds("refund-000000001", p, 1); !errors.Is(err, ErrRefundExceedsPayment) {
		t.Errorf("a refund of a disputed payment: %v", err)
	}
	s.tells(judge.SourceWebhook, dispute("declined", 12000), false)
	s.wantOutside(0)
	s.wantDeadLetters("moved_outside pending 0 record acme du_1", "moved_outside pending 12000 record acme du_1")
}

// A dispute whose money came back and that is still open may take it again. What we are told may be late, so what was
// withdrawn once bounds refunds until the dispute is closed.
func TestDisputeThatIsReinstatedIsNotOver(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		before []int64 // what was held while it was open
		held   int64
		closed string
		takes  int64
	}{
		"lost in the end":            {[]int64{12000, 0, 12000}, 12000, "succeeded", 12000},
		"lost, reinstated before":    {[]int64{0}, 0, "succeeded", 12000},
		"won, and reinstated before": {[]int64{12000, 0}, 12000, "declined", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setupOn(t, &actor{})
			p := s.charging("paid-00000000001").paidFor()
			for _, amount := range row.before {
				s.tells(judge.SourceWebhook, byOthers(gateway.DisputeObject, p.PSPChargeID, "du_1", "pending",
					amount), true)
			}
			s.wantOutside(row.held)
			s.tells(judge.SourceWebhook, byOthers(gateway.DisputeObject, p.PSPChargeID, "du_1", row.closed, 12000),
				row.closed == "succeeded")
			s.wantOutside(row.takes)
		})
	}
}

// Nobody can tell here how much of the payment an amount in another currency is. So it counts as the whole payment.
func TestMovementInAnotherCurrencyCountsAsTheWholePayment(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	dispute := byOthers(gateway.DisputeObject, p.PSPChargeID, "du_1", "pending", 0)
	dispute.Currency = "KWD"
	s.tells(judge.SourceWebhook, dispute, true)
	s.wantOutside(0) // nothing is nothing in each currency
	dispute.AmountMinor = 700
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
	s.tells(judge.SourceWebhook, byOthers(gateway.RefundObject, p.PSPChargeID, "re_1", "succeeded", 12000), true)
	s.wantOutside(12000)
	s.wantTotals(p, 12000, 0)
	ours.live(ours.lease, ours.movement, gateway.Declined{Code: gateway.AlreadyMoved})
	s.wantTotals(p, 0, 0)
	s.wantDeadLetters("moved_outside succeeded 12000 refund record acme re_1", "moved_outside "+deadletters.About{
		Tenant: "acme", Operation: string(payment.RefundOperation), Key: "refund-000000001", Generation: 1,
	}.KeyFinding(ours.lease.Subject))
}

// A released refund has no share. Others may have taken it before its client tries again.
func TestReleasedRefundDoesNotTakeWhatOthersHaveMoved(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	released := s.refunding("refund-000000001", p, 8000).failed()
	s.tells(judge.SourceScan, byOthers(gateway.RefundObject, p.PSPChargeID, "re_1", "succeeded", 8000), true)
	c := s.keys.NewReservation(released.reservation.Ref, released.reservation.Fingerprint, uuid.Must(uuid.NewV7()),
		uuid.Must(uuid.NewV7()))
	if _, _, err := s.service.reserve(t.Context(), c, released.again()); !errors.Is(err, ErrRefundExceedsPayment) {
		t.Fatalf("the refund is tried again: %v", err)
	}
	s.wantTotals(p, 0, 0)
	released.wantStatus(idempotency.FailedRetryableStatus, 1)
}

// Ours and those of others are noticed at the same time. Refunds of ours never take what others have moved before.
func TestRefundsOfOursAndOfOthersAtOnceAreBounded(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	s.tells(judge.SourceScan, byOthers(gateway.RefundObject, p.PSPChargeID, "re_first", "succeeded", 6000), true)
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
	s.tells(judge.SourceWebhook, byOthers(gateway.RefundObject, p.PSPChargeID, ours.record.ID, "succeeded", 8000), true)
	s.wantOutside(8000)
	is[Completed](t, s.evidenceBy(judge.SourceScan, ours.record))
	s.wantOutside(0)
	s.wantTotals(p, 8000, 8000)
}

// The PSP's id of a refund is never taken for that of the payment, also if an operator says executed.
func TestOperatorsDecisionDoesNotNameAPaymentAfterItsRefund(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001")
	g.remembers("pi_1")
	g.lost().windowPasses()
	s.tells(judge.SourceScan, byOthers(gateway.RefundObject, "pi_1", "re_1", "succeeded", 500), true)
	deadLetter := deadletters.DeadLetter{
		Kind: deadletters.MovedOutside, About: &deadletters.About{Tenant: "acme",
			Operation: string(payment.CreateOperation),
			Key:       "order-0000000001", Generation: 1},
		Evidence: []byte(s.texts("SELECT evidence::text FROM dead_letters")[0]),
	}
	if id := judge.DeadLetterOf(deadLetter).PSPID; id != "" {
		t.Errorf("the payment is named %s", id)
	}
}

// The sum of what the PSP says may be larger than any amount. It is stored all the same.
func TestLargestAmountsOfOthersCanBeStored(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	for _, id := range []string{"re_1", "re_2"} {
		s.tells(judge.SourceScan, byOthers(gateway.RefundObject, p.PSPChargeID, id, "succeeded", 1<<63-1), true)
	}
	s.wantOutside(1<<63 - 1)
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
	s.tells(judge.SourceWebhook, byOthers(gateway.RefundObject, p.PSPChargeID, "re_1", "succeeded", 500), true)
	if f := is[Final](t, s.create("order-0000000001", order())); f.Response.Status != 201 {
		t.Errorf("answer is %+v", f)
	}
}
