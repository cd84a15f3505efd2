package payments

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/gateway/stripe"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/test/pgtest"
)

// A finding that an operator has judged opens no new dead letter, unless the operator asked for a retry.
func TestFindingThatWasJudgedIsNoNewCase(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001").succeeded()
	again := func(isNew bool) {
		t.Helper()
		if l := is[DeadLettered](t, s.evidenceBy(judge.SourceWebhook, executedTwice.record(g))); l.New != isNew {
			t.Errorf("found as new: %v", l.New)
		}
	}
	finding := "duplicate_movement record acme " + g.record.ID + "-2"
	again(true)
	again(false)
	s.wantDeadLetters(finding)
	s.resolveDeadLetter(deadletters.Retry)
	again(true)
	again(false)
	s.wantDeadLetters(finding, finding)
	s.resolveDeadLetter(deadletters.Dismiss)
	again(false)
	s.wantDeadLetters(finding, finding)
	// A third execution is another case.
	is[DeadLettered](t, s.evidenceBy(judge.SourceWebhook, as("psp_third", g.record)))
	s.wantDeadLetters(finding, finding, "duplicate_movement record acme psp_third")
}

func TestJudgementAboutAnEarlierPaymentSuppressesNoDeadLetter(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	exhaust := func(g *stage) {
		g.lost()
		for range patient().Budget {
			g.timePasses("UPDATE idempotency_keys SET reconcile_after = clock_timestamp()")
			if _, err := s.lookUpDue(t.Context(),
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

// One PSP's webhooks say nothing about a tenant of another.
func TestRecordOfAnotherPSPMovesNothing(t *testing.T) {
	t.Parallel()
	s := setupTwoSteps(t)
	s.chooses(func(step string, _ *http.Request) bool { return step == "create" })
	is[Pending](t, s.pay(twoStepKey, "pm_ok"))
	id := pgtest.Value[string](t, s.pool, "SELECT id FROM payments")
	reference, err := uuid.Parse(id)
	if err != nil {
		t.Fatal(err)
	}
	record := gateway.Record{
		Object: gateway.ChargeObject, ID: "ch_1", Account: "acct_initech", Key: twoStepKey,
		Reference: payment.ID(reference).String(), AmountMinor: 12000, Currency: "USD", Status: "succeeded",
		Created: time.Now(),
	}
	effect, err := s.service.ApplyRecord(t.Context(), judge.Record{Source: judge.SourceWebhook, PSP: "native",
		Record: record})
	if err != nil {
		t.Fatal(err)
	}
	if d := is[DeadLettered](t, effect); d.Kind != "other_account" || s.status(twoStepKey) != "unknown" {
		t.Fatalf("%+v, key %s", d, s.status(twoStepKey))
	}
	effect, err = s.service.ApplyRecord(t.Context(),
		judge.Record{Source: judge.SourceWebhook, PSP: stripe.Name, Record: record})
	if err != nil {
		t.Fatal(err)
	}
	is[Completed](t, effect)
}

// The first attempt's object was declined and given up. Its decline arrives while the second attempt is executed.
func TestDeclineOfAnEarlierObjectSaysNothingAboutTheNextAttempt(t *testing.T) {
	t.Parallel()
	s := setupTwoSteps(t)
	late := func(id string) gateway.Record {
		var reference uuid.UUID
		if err := s.pool.QueryRow(t.Context(), "SELECT id FROM payments").Scan(&reference); err != nil {
			s.t.Error(err)
		}
		return gateway.Record{
			Object: gateway.ChargeObject, ID: id, Account: "acct_initech", Key: twoStepKey,
			Reference: payment.ID(reference).String(), AmountMinor: 12000, Currency: "USD", Status: "declined",
			DeclineCode: "insufficient_funds", Created: time.Now(),
		}
	}
	s.chooses(func(step string, _ *http.Request) bool {
		if step == "confirm" {
			effect, err := s.service.ApplyRecord(t.Context(),
				judge.Record{Source: judge.SourceWebhook, PSP: stripe.Name, Record: late("pi_of_an_earlier_attempt")})
			if _, nothing := effect.(Confirmed); err != nil || !nothing {
				s.t.Errorf("effect %T %+v, %v", effect, effect, err)
			}
		}
		return true
	})
	if f := is[Final](t, s.pay(twoStepKey, "pm_ok")); f.Response.Status != http.StatusCreated {
		t.Fatalf("answer %d", f.Response.Status)
	}
	if n := s.count("SELECT count(*) FROM dead_letters"); n != 0 {
		t.Fatalf("%d dead letters", n)
	}
}
