package payments

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
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

// payment reads the payment of the stage.
func (s *stage) payment() payment.Payment {
	s.t.Helper()
	p, err := s.service.Payment(s.t.Context(), "acme", payment.ID(s.lease.Subject))
	if err != nil {
		s.t.Fatal(err)
	}
	return p
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
