package payments

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

// wantLastToldIsShown compares the payment of the last event with the payment that a client reads.
func (s *shop) wantLastToldIsShown(id payment.ID) {
	s.t.Helper()
	shown, err := s.service.Payment(s.t.Context(), "acme", id)
	if err != nil {
		s.t.Fatal(err)
	}
	last := EventName{id, int64(s.count("SELECT max(version) FROM events WHERE payment_id = $1", id))}
	events, err := s.service.Events(s.t.Context(), "acme", []EventName{last, {id, 1}})
	if err != nil || len(events) != 1 {
		s.t.Fatalf("%d events: %v", len(events), err)
	}
	text := func(p payment.Payment) string {
		raw, err := json.Marshal(p, json.Deterministic(true))
		if err != nil {
			s.t.Fatal(err)
		}
		return string(raw)
	}
	if diff := cmp.Diff(text(shown), text(events[last].Payment)); diff != "" {
		s.t.Fatalf("the last event differs from the payment:\n%s", diff)
	}
}

// Each change of a payment is told once, by whichever source it comes. What says the same again, or what is older, is
// not told.
func TestEachChangeOfAPaymentIsTold(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{}).wantingEvents()
	charge := s.charging("paid-00000000001")
	p := charge.lost().payment()
	s.wantTold(p.ID, "payment.unknown")
	s.evidenceBy(judge.SourceWebhook, charge.record)
	s.evidenceBy(judge.SourceScan, charge.record)
	s.wantLastToldIsShown(p.ID)

	s.refunding("refund-000000001", charge.payment(), 700).succeeded()
	pspID := charge.payment().PSPChargeID
	for _, r := range []gateway.Record{
		byOthers(gateway.RefundObject, pspID, "re_1", "pending", 500),
		byOthers(gateway.RefundObject, pspID, "re_1", "succeeded", 500),
		byOthers(gateway.RefundObject, pspID, "re_1", "pending", 500), // late
		disputeOf(pspID, "dp_1", gateway.NeedsResponse, 5000),
		disputeOf(pspID, "dp_1", gateway.Won, 5000),
		disputeOf(pspID, "dp_1", gateway.NeedsResponse, 5000), // late
		disputeOf(pspID, "dp_2", gateway.Won, 100),
		byOthers(gateway.RefundObject, pspID, "re_1", "declined", 500),
	} {
		s.tells(judge.SourceWebhook, r, false)
		s.wantLastToldIsShown(p.ID)
	}
	s.wantTold(p.ID, "payment.unknown", "payment.succeeded", "refund.succeeded 700", "refund.processing 700",
		"refund.succeeded 1200", "dispute.needs_response 1200", "dispute.won 1200", "dispute.won 1200",
		"refund.failed 700")
}

// A movement of which nothing is known yet is not told, and each outcome of the owner's is.
func TestOutcomesOfTheOwnerAreTold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(*stage) *stage
		want []string
	}{
		"nothing yet": {func(s *stage) *stage { return s }, nil},
		"succeeded":   {(*stage).succeeded, []string{"payment.succeeded"}},
		"declined":    {(*stage).declined, []string{"payment.declined"}},
		"failed":      {(*stage).failed, []string{"payment.failed"}},
		"lost":        {(*stage).lost, []string{"payment.unknown"}},
		"proven": {func(s *stage) *stage { return s.lost().proven() },
			[]string{"payment.unknown", "payment.failed"}},
		"failed twice": {func(s *stage) *stage {
			second := *s.failed()
			second.movement = s.again()
			second.lease = s.reserve(second.movement)
			second.failed()
			return s
		}, []string{"payment.failed", "payment.failed"}},
		"overtaken": {func(s *stage) *stage {
			s.evidenceBy(judge.SourceWebhook, s.record)
			return s.succeeded()
		}, []string{"payment.succeeded"}},
		"overtaken, and refunded": {func(s *stage) *stage {
			s.evidenceBy(judge.SourceWebhook, s.record)
			s.refunding("refund-000000001", s.payment(), 700).succeeded()
			return s.succeeded()
		}, []string{"payment.succeeded", "refund.succeeded 700"}},
	} {
		for _, known := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, known to the API: %t", name, known), func(t *testing.T) {
				t.Parallel()
				s := setupOn(t, &actor{}).wantingEvents()
				charge := s.charging("paid-00000000001")
				charge.movement.merchant.Tells = known
				c.end(charge)
				s.wantTold(payment.ID(charge.lease.Subject), c.want...)
				if len(c.want) > 0 {
					s.wantLastToldIsShown(payment.ID(charge.lease.Subject))
				}
			})
		}
	}
}

// An event has the dispute that it is about, also while the payment does not show it: the bank may be faster than the
// outcome. Of several disputes, it is the right one.
func TestEventHasItsDispute(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{}).wantingEvents()
	charge := s.charging("paid-00000000001").lost()
	s.exec("INSERT INTO disputes (tenant_id, payment_id, psp_id, amount_minor, currency, status, opened_at) " +
		"SELECT tenant_id, id, v.psp_id, 500, 'USD', v.status, created_at " +
		"FROM payments, (VALUES ('dp_1', 'won'), ('dp_2', 'lost'), ('dp_3', 'won')) AS v (psp_id, status)")
	id := payment.ID(charge.lease.Subject)
	about := subjectOf("acme", uuid.UUID(id), uuid.UUID{})
	about.object = gateway.DisputeObject
	for _, about.pspID = range []string{"dp_1", "dp_2"} {
		if err := s.inTx(func(ctx context.Context, tx pgx.Tx) error {
			return postgres.PipelineTx(ctx, tx, writeEvents(about))
		}); err != nil {
			t.Fatal(err)
		}
		last := EventName{id, int64(s.count("SELECT max(version) FROM events"))}
		events, err := s.service.Events(t.Context(), "acme", []EventName{last})
		if e := events[last]; err != nil || e.Dispute == nil || e.Dispute.PSPID != about.pspID || e.Refund != nil ||
			e.Payment.Status != payment.Processing {
			t.Errorf("event of %s: %+v: %v", about.pspID, e, err)
		}
	}
	s.evidenceBy(judge.SourceWebhook, charge.record)
	s.wantTold(id, "payment.unknown", "dispute.won", "dispute.lost", "payment.succeeded")
	s.wantLastToldIsShown(id)
}

// A payment that was disputed before its outcome was known, and whose versions are ahead of the clock.
func TestOwnersOutcomeFollowsOnEarlierEvents(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{}).wantingEvents()
	charge := s.charging("paid-00000000001")
	charge.movement.merchant.Tells = true
	charge.failed()
	second := *charge
	second.movement = charge.again()
	second.lease = charge.reserve(second.movement)
	s.exec("INSERT INTO disputes (tenant_id, payment_id, psp_id, amount_minor, currency, status, opened_at) " +
		"SELECT tenant_id, id, 'dp_1', 500, 'USD', 'inquiry', created_at FROM payments")
	const future = 4_000_000_000_000_000
	s.exec("UPDATE events SET version = $1", future)
	second.succeeded()
	s.wantTold(payment.ID(charge.lease.Subject), "payment.failed", "payment.succeeded")
	s.wantLastToldIsShown(payment.ID(charge.lease.Subject))
	if v := s.count("SELECT max(version) FROM events"); v != future+1 {
		t.Errorf("version %d, want %d", v, future+1)
	}
}

// An inquiry changes no total of the payment. Its event is written before that of the outcome, which shows it.
func TestOutcomeAfterAnInquiryShowsIt(t *testing.T) {
	t.Parallel()
	for name, overlap := range map[string]bool{"committed before": false, "committed while the owner waits": true} {
		s := setupOn(t, &actor{}).wantingEvents()
		charge := s.charging("paid-00000000001")
		charge.movement.merchant.Tells = true
		charge.remembers("pi_1")
		e := judge.Record{Source: judge.SourceWebhook, Record: disputeOf("pi_1", "dp_1", gateway.Inquiry, 5000)}
		g, err := s.service.GatherRecord(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
		inquiry := pgtest.Begin(t, s.pool)
		if err := s.service.applyTx(t.Context(), inquiry, g, judge.Judge(g.Seen, e)); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		succeed := func() { charge.succeeded(); close(done) }
		if overlap {
			go succeed()
			pgtest.AwaitLock(t, s.pool)
		}
		if err := inquiry.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !overlap {
			succeed()
		}
		<-done
		id := payment.ID(charge.lease.Subject)
		t.Log(name)
		s.wantTold(id, "dispute.inquiry", "payment.succeeded")
		s.wantLastToldIsShown(id)
	}
}

// The same outcomes of a refund.
func TestOutcomesOfARefundAreTold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(*stage) *stage
		want []string
	}{
		"nothing yet": {func(s *stage) *stage { return s }, nil},
		"succeeded":   {(*stage).succeeded, []string{"refund.succeeded 700"}},
		"declined":    {(*stage).declined, []string{"refund.declined"}},
		"failed":      {(*stage).failed, []string{"refund.failed"}},
		"lost":        {(*stage).lost, []string{"refund.unknown"}},
		"proven": {func(s *stage) *stage { return s.lost().proven() },
			[]string{"refund.unknown", "refund.failed"}},
		"come back": {func(s *stage) *stage {
			s.succeeded()
			s.evidenceBy(judge.SourceWebhook, declinedAs(s.record, "account_closed"))
			return s
		}, []string{"refund.succeeded 700", "refund.failed"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setupOn(t, &actor{})
			p := s.charging("paid-00000000001").paidFor()
			s.wantingEvents()
			refund := c.end(s.refunding("refund-000000001", p, 700))
			s.wantTold(p.ID, c.want...)
			if len(c.want) == 0 {
				return
			}
			s.wantLastToldIsShown(p.ID)
			wantRefund := fmt.Sprint(payment.RefundID(refund.lease.Subject))
			last := EventName{p.ID, int64(s.count("SELECT max(version) FROM events"))}
			events, err := s.service.Events(t.Context(), "acme", []EventName{last})
			if err != nil || events[last].Refund == nil || events[last].Refund.ID.String() != wantRefund {
				t.Errorf("event %+v, want refund %s: %v", events[last], wantRefund, err)
			}
		})
	}
}

// The sweep has locked keys of many tenants. It waits for no payment.
func TestSweepDoesNotWaitForALockedPayment(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{}).wantingEvents()
	held, other := s.charging("paid-00000000001"), s.charging("paid-00000000002")
	tx := pgtest.Begin(t, s.pool)
	pgtest.Exec(t, tx, "SELECT FROM payments WHERE id = $1 FOR UPDATE", held.lease.Subject)
	s.sweeps(2)
	held.wantStatus(idempotency.UnknownStatus, 1)
	s.wantTold(payment.ID(held.lease.Subject))
	s.wantTold(payment.ID(other.lease.Subject), "payment.unknown")
	// The lookups tell it, once, and wait for the payment: a greater version must not be older.
	var first errgroup.Group
	first.Go(func() error { return s.postpone(held) })
	pgtest.AwaitLock(t, s.pool)
	if err := errors.Join(tx.Rollback(t.Context()), first.Wait()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, lost := range []*stage{held, other} {
			if err := s.postpone(lost); err != nil {
				t.Fatal(err)
			}
			s.wantTold(payment.ID(lost.lease.Subject), "payment.unknown")
			s.wantLastToldIsShown(payment.ID(lost.lease.Subject))
		}
	}
}
