package payments

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
)

// contradicts names the dead letter of a record that contradicts what the stage's key stands for.
func contradicts(g *stage, id string) string {
	return "psp_contradicts_request key " + lockOrder(g.reservation.Ref) + " 1 " + g.lease.Subject.String() +
		" record " + id
}

// twin is another payment or refund under the same key and the same generation: the key was deleted and used again
// before there were tombstones.
func (s *stage) twin() *stage {
	s.t.Helper()
	s.deleted().timePasses("DELETE FROM idempotency_key_tombstones")
	second := *s
	second.movement = s.again()
	second.lease = s.reserve(second.movement)
	c, err := s.service.gather(s.t.Context(), second.lease.Execution())
	if err != nil {
		s.t.Fatal(err)
	}
	second.record = recordOf(c, "psp_"+second.lease.Subject.String())
	if second.record.Key != s.record.Key || second.lease.Subject == s.lease.Subject {
		s.t.Fatalf("the twin is %+v of %+v", second.record, s.record)
	}
	return &second
}

func TestDeletedKeyIsChargedUnderItsNextGeneration(t *testing.T) {
	t.Parallel()
	s := setup(t)
	const key = "order-0000000001"
	g := &stage{shop: s, t: t, key: keyed(t, key)}
	for i := range 3 {
		asked := order()
		asked.AmountCents += payment.AmountMinor(i)
		if f := is[Final](t, s.create(key, asked)); f.Response.Status != http.StatusCreated || f.Replayed {
			t.Fatalf("life %d: answer is %+v", i+1, f)
		}
		g.deleted()
	}
	var keys []string
	page, err := s.service.psps.Of(native.Name).List(t.Context(), gateway.ChargeObject, "acme", time.Time{}, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range page.Records {
		keys = append(keys, r.Key)
	}
	if diff := cmp.Diff([]string{key, key + ".g2", key + ".g3"}, keys); diff != "" {
		t.Fatalf("the PSP's ledger differs (-want +got):\n%s", diff)
	}
	if n := s.count("SELECT count(DISTINCT generation) FROM payments WHERE idempotency_key = $1", key); n != 3 {
		t.Fatalf("%d generations for 3 payments", n)
	}
}

// A dead letter, or a job, about the payment that had the key before does nothing to the one that has it now.
func TestActionForAnEarlierPaymentLeavesTheKeyAlone(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	p := s.charging("paid-00000000001").paidFor()
	for _, old := range []*stage{s.charging("order-0000000001").succeeded(),
		s.refunding("refund-000000001", p, 100).succeeded()} {
		now := old.twin().lost()
		due := func(g *stage) idempotency.Due {
			return idempotency.Due{Ref: g.reservation.Ref, Generation: 1, Subject: g.lease.Subject}
		}
		_, asked := psp.seen()
		if r, err := s.service.LookUpDue(t.Context(), due(old), patient()); r != Moot || err != nil {
			t.Errorf("a job for the old one came to %q: %v", r, err)
		}
		for _, decides := range []func() error{old.releases, func() error { return old.executes("") }} {
			s.wantRefused("decided by a dead letter about the old one", on(judge.NotApplicable), decides)
		}
		if _, now := psp.seen(); now != asked {
			t.Error("the PSP was asked for the old one")
		}
		s.wantRefused("woken by a dead letter about the old one", on(judge.NotApplicable),
			func() error { return old.wakes(old.about(1)) })
		if err := now.wakes(now.about(1)); err != nil {
			t.Error(err)
		}
		r, err := s.service.LookUpDue(t.Context(), due(now), patient())
		if r != Scheduled || err != nil {
			t.Errorf("a job for the new one came to %q: %v", r, err)
		}
	}
}

// The PSP still lists what it did for the payment that had this very key before.
func TestRecordOfAnEarlierPaymentOfTheKeySaysNothing(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	p := s.charging("paid-00000000001").paidFor()
	for _, old := range []*stage{s.charging("order-0000000001").succeeded(),
		s.refunding("refund-000000001", p, 100).succeeded()} {
		now := old.twin().lost()
		psp.onLookup(finds(old.record))
		now.resolves(Scheduled)
		if i := now.inquire(deadletters.NotExecuted, ""); i.decision.Answer != (gateway.NotFound{}) {
			t.Errorf("the answer is %+v", i.decision.Answer)
		}
		now.windowPasses().resolves(Resolved)
		now.wantStatus(idempotency.FailedRetryableStatus, 1)

		// What is ours beside it counts.
		third := now.twin().lost()
		psp.onLookup(finds(old.record, third.record))
		third.resolves(Resolved)
		third.wantMoved(payment.Succeeded, third.record.ID)
	}
	s.wantDeadLetters()
}

// The key of a generation was never sent for another generation's payment: that the PSP lists one under it is a
// contradiction.
func TestRecordOfAnotherGenerationsPaymentIsAContradiction(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	first := s.charging("order-0000000001").failed()
	m := first.again()
	lease := first.expired().reserve(m)
	first.live(lease, m, gateway.Indeterminate{Reason: "no answer in time"})
	strange := first.record
	strange.Key = lease.PassThroughKey()
	psp.onLookup(finds(strange))
	due := idempotency.Due{Ref: first.reservation.Ref, Generation: 2, Subject: lease.Subject}
	if r, err := s.service.LookUpDue(t.Context(), due, patient()); r != ToOperator || err != nil {
		t.Fatalf("it came to %q: %v", r, err)
	}
}

func TestScanIsNotHeldUpByALaterPaymentOfTheKey(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	old := s.charging("order-0000000001").failed()
	now := old.twin()
	if l := is[DeadLettered](t, s.evidenceBy(judge.SourceScan, old.record)); l.Kind != deadletters.LateAfterExpiry {
		t.Fatalf("dead letter %s", l.Kind)
	}
	is[Confirmed](t, s.evidenceBy(judge.SourceScan, now.record))
}

// An open dead letter about an earlier payment holds neither the release nor the expiry of the key, if it does not say
// that money moved.
func TestDeadLettersAboutAnEarlierPaymentHoldNothing(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	old := s.charging("order-0000000001").succeeded()
	now := old.twin()
	is[DeadLettered](t, s.evidenceBy(judge.SourceWebhook, declinedAs(old.record, "no_money")))
	now.lost().windowPasses()
	psp.onLookup(finds())
	if now.gathers().seen.Held {
		t.Error("the dead letter is taken for one about the new payment")
	}
	now.resolves(Resolved)
	now.expired()
	if n, err := s.keys.Delete(t.Context(), 10); n != 0 || err != nil {
		t.Errorf("%d keys deleted: %v", n, err)
	}
	now.timePasses("UPDATE idempotency_keys SET delete_after = clock_timestamp()")
	if n, err := s.keys.Delete(t.Context(), 10); n != 0 || err != nil {
		t.Errorf("%d keys deleted, with the timeline that an open dead letter needs: %v", n, err)
	}
}

func TestJudgementAboutAnEarlierPaymentSuppressesNoDeadLetter(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	exhaust := func(g *stage) {
		g.lost()
		for range patient().Budget {
			g.timePasses("UPDATE idempotency_keys SET reconcile_after = clock_timestamp()")
			if _, err := s.service.LookUpDue(t.Context(),
				idempotency.Due{Ref: g.reservation.Ref, Generation: 1}, patient()); err != nil {
				t.Fatal(err)
			}
		}
	}
	old := s.charging("order-0000000001")
	exhaust(old)
	is[Completed](t, s.evidenceBy(judge.SourceWebhook, old.record))
	s.resolveDeadLetter(deadletters.Dismiss)
	is[DeadLettered](t, s.evidenceBy(judge.SourceWebhook, executedTwice.record(old)))
	s.resolveDeadLetter(deadletters.Dismiss)
	now := old.twin()
	exhaust(now)
	// Nor is what was decided about the old one open again, because the key is unknown for the new one.
	if l := is[DeadLettered](t, s.evidenceBy(judge.SourceWebhook, executedTwice.record(old))); l.New {
		t.Error("a finding about the old payment that was judged is a new case")
	}
	if n := s.count("SELECT count(*) FROM dead_letters WHERE status = 'open' AND subject = $1",
		now.lease.Subject); n != 1 {
		t.Fatalf("%d open dead letters about the new payment", n)
	}
}
