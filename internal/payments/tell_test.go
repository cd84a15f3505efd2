package payments

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

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

// wantingEvents has acme want events. What the API knows of that is left as it was.
func (s *shop) wantingEvents() *shop {
	s.exec("UPDATE tenants SET tells = true WHERE id = 'acme'")
	return s
}

// told are the types of the events of a payment, oldest first, each with what is returned of it by then.
func (s *shop) told(id payment.ID) []string {
	s.t.Helper()
	return s.texts("SELECT type || CASE refunded_minor WHEN 0 THEN '' ELSE ' ' || refunded_minor END FROM events "+
		"WHERE payment_id = $1 ORDER BY version", id)
}

func (s *shop) wantTold(id payment.ID, want ...string) {
	s.t.Helper()
	if diff := cmp.Diff(append([]string{}, want...), append([]string{}, s.told(id)...)); diff != "" {
		s.t.Fatalf("events differ (-want +got):\n%s", diff)
	}
}

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

// payment reads the payment of the stage.
func (s *stage) payment() payment.Payment {
	s.t.Helper()
	p, err := s.service.Payment(s.t.Context(), "acme", payment.ID(s.lease.Subject))
	if err != nil {
		s.t.Fatal(err)
	}
	return p
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

// Payments that share a transaction are told each as its tenant wants.
func TestEachMemberOfAGroupIsToldAsItsTenantWants(t *testing.T) {
	t.Parallel()
	s := setup(t).wantingEvents()
	const each = 20
	var all errgroup.Group
	for i := range 3 * each {
		k := keyed(t, fmt.Sprintf("paid-%011d", i))
		k.Merchant.Tells = i%3 > 0 // The API key of every third has not been read again yet.
		if i%3 == 2 {
			k.Merchant.Tenant, k.Merchant.PSPAccount, k.Merchant.Tells = "globex", "globex", false
		}
		all.Go(func() error {
			_, err := s.service.Create(t.Context(), k, order())
			return err
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	n := s.count("SELECT count(*) FROM events AS e JOIN payments AS p ON p.id = e.payment_id " +
		"WHERE e.tenant_id = 'acme' AND e.type = 'payment.succeeded' AND p.status = 'succeeded'")
	if paid := s.count("SELECT count(*) FROM payments WHERE status = 'succeeded'"); n != 2*each || paid != 3*each {
		t.Errorf("%d payments, %d events of the tenant that wants them", paid, n)
	}
	if n := s.count("SELECT count(*) FROM events"); n != 2*each {
		t.Errorf("%d events", n)
	}
}

// A step that does not pass tells nothing.
func TestStepThatIsRefusedIsNotTold(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{}).wantingEvents()
	charge := s.charging("paid-00000000001")
	s.evidenceBy(judge.SourceWebhook, otherAmount.record(charge))
	g := gatherReserved(charge.lease, charge.movement)
	g.alone = true
	released := judge.Judge(g.Seen, judge.Reply{Attempt: 1, Outcome: gateway.NotExecuted{Reason: "no connection"}})
	if applied, err := s.service.Apply(t.Context(), g, released); err != nil || applied.Passed {
		t.Fatalf("%+v: %v", applied, err)
	}
	charge.wantStatus(idempotency.InProgressStatus, 1)
	s.wantTold(charge.movement.payment.ID)
}

// Evidence that comes second tells nothing, also when the payment has changed again meanwhile.
func TestEvidenceThatIsOvertakenIsNotTold(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{}).wantingEvents()
	charge := s.charging("paid-00000000001").lost()
	e := judge.Record{Source: judge.SourceWebhook, Record: charge.record}
	g, err := s.service.GatherRecord(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	late := judge.Judge(g.Seen, e)
	s.evidenceBy(judge.SourceLookup, charge.record)
	s.refunding("refund-000000001", charge.payment(), 700).succeeded()
	if applied, err := s.service.Apply(t.Context(), g, late); err != nil || applied.Passed {
		t.Fatalf("%+v: %v", applied, err)
	}
	s.wantTold(charge.movement.payment.ID, "payment.unknown", "payment.succeeded", "refund.succeeded 700")
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

// A key whose lease is over becomes unknown by the sweeper, or by a request that finds it. Both tell.
func TestKeyThatBecomesUnknownWithoutItsOwnerIsTold(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(*shop) *stage{
		"payment": func(s *shop) *stage { return s.charging("paid-00000000001") },
		"refund": func(s *shop) *stage {
			return s.refunding("refund-000000001", s.charging("paid-00000000001").paidFor(), 700)
		},
	} {
		t.Run(name+" swept", func(t *testing.T) {
			t.Parallel()
			s := setupOn(t, &actor{})
			stage := begin(s)
			s.wantingEvents()
			s.sweeps(1)
			stage.wantStatus(idempotency.UnknownStatus, 1)
			s.wantTold(stage.movement.payment.ID, name+".unknown")
		})
		t.Run(name+" found", func(t *testing.T) {
			t.Parallel()
			s := setupOn(t, &actor{})
			stage := begin(s)
			s.wantingEvents()
			stage.leaseEnds()
			c := s.keys.NewReservation(stage.reservation.Ref, stage.reservation.Fingerprint, stage.lease.LeaseID,
				stage.lease.Subject)
			if d, _, err := s.service.reserve(t.Context(), c, stage.again()); err != nil {
				t.Fatalf("%T: %v", d, err)
			}
			stage.wantStatus(idempotency.UnknownStatus, 1)
			s.wantTold(stage.movement.payment.ID, name+".unknown")
		})
	}
}

// sweeps lets all leases end, and has the sweeper pass.
func (s *shop) sweeps(want int) {
	s.t.Helper()
	s.timePasses("UPDATE idempotency_keys SET locked_until = clock_timestamp() WHERE status = 'in_progress'")
	if err := s.inTx(func(ctx context.Context, tx pgx.Tx) error {
		due, err := s.keys.SweepTx(ctx, tx, 10, time.Minute)
		if len(due) != want {
			s.t.Errorf("%d keys are swept, want %d", len(due), want)
		}
		return errors.Join(err, TellLostTx(ctx, tx, due))
	}); err != nil {
		s.t.Fatal(err)
	}
}

// Two refunds of one payment become unknown at the same time.
func TestRefundsOfOnePaymentThatAreSweptTogetherAreTold(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{}).wantingEvents()
	p := s.charging("paid-00000000001").paidFor()
	s.refunding("refund-000000001", p, 700)
	s.refunding("refund-000000002", p, 300)
	s.sweeps(2)
	s.wantTold(p.ID, "payment.succeeded", "refund.unknown", "refund.unknown")
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

// postpone applies a lookup that the PSP has not answered.
func (s *shop) postpone(lost *stage) error {
	ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Second)
	defer cancel()
	g, err := s.service.Gather(ctx, lost.lease.Execution())
	if err != nil {
		return err
	}
	step := judge.Judge(g.Seen, judge.NoAnswer{Reason: "timeout", Policy: patient()})
	applied, err := s.service.Apply(ctx, g, step)
	if err == nil && !applied.Passed {
		err = errors.New("the key has moved")
	}
	return err
}

// A lookup locks no payment of a tenant that wants no events.
func TestLookupOfATenantWithoutEventsWaitsForNoPayment(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	charge := s.charging("paid-00000000001").lost()
	pgtest.Exec(t, pgtest.Begin(t, s.pool), "SELECT FROM payments WHERE id = $1 FOR UPDATE", charge.lease.Subject)
	if err := s.postpone(charge); err != nil {
		t.Fatal(err)
	}
}

// A tenant that wants no events has none.
func TestNobodyElseHasEvents(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	charge := s.charging("paid-00000000001").lost()
	s.evidenceBy(judge.SourceWebhook, charge.record)
	s.refunding("refund-000000001", charge.payment(), 700).succeeded()
	if n := s.count("SELECT count(*) FROM events"); n != 0 {
		t.Errorf("%d events", n)
	}
}

// An event and its change are written together, or neither of them is.
func TestOutcomeIsNotWrittenWithoutItsEvent(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{}).wantingEvents()
	s.failing(1000, oddError, "events", "INSERT", "true")
	charge := s.charging("paid-00000000001")
	is[Pending](t, charge.live(charge.lease, charge.movement, charge.success()))
	charge.wantStatus(idempotency.InProgressStatus, 1)
	s.exec("DROP TRIGGER outage ON events")
	charge.succeeded()
	s.wantTold(payment.ID(charge.lease.Subject), "payment.succeeded")
}

// After a restore, or when the clock of a new primary is behind, the next version is still greater than the last.
func TestVersionGrowsWhateverTheClockSays(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{}).wantingEvents()
	charge := s.charging("paid-00000000001").lost()
	const future = 4_000_000_000_000_000
	s.exec("UPDATE events SET version = $1", future)
	charge.evidenceBy(judge.SourceWebhook, charge.record)
	if v := s.count("SELECT max(version) FROM events"); v != future+1 {
		t.Errorf("version %d, want %d", v, future+1)
	}
}
