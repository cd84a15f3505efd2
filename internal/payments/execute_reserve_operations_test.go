package payments

import (
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/postgres"
)

// dismissed has an operator close the only open dead letter.
func (s *shop) dismissed() {
	s.t.Helper()
	open := deadletters.Filter{Status: deadletters.OpenStatus, Limit: 9}
	page, err := deadletters.List(s.t.Context(), s.service.db, open)
	if err != nil || len(page.DeadLetters) != 1 {
		s.t.Fatalf("open are %+v: %v", page.DeadLetters, err)
	}
	l := page.DeadLetters[0]
	err = pgx.BeginFunc(s.t.Context(), s.pool, func(tx pgx.Tx) error {
		ref := idempotency.StoredRef(l.About.Tenant, l.About.Operation, l.About.Key)
		if err := postgres.PipelineTx(s.t.Context(), tx, s.keys.LockKey(ref, l.About.Generation)); err != nil {
			return err
		}
		_, err := deadletters.ResolveTx(s.t.Context(), tx, deadletters.Decision{DeadLetter: l.ID, Version: l.Version,
			Action: deadletters.Dismiss, Actor: "ops", Reason: "refunded"})
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// The database goes back to a time before the payment. The PSP has the charge, and no longer its key.
func TestKeyThatARestoreHasLostIsNotChargedTwice(t *testing.T) {
	t.Parallel()
	const key = "order-0000000001"
	lost := setup(t)
	lost.paid(key)
	s := setupAt(t, lost.pspURL, time.Now) // a database without the key and its payment
	s.forgets()
	s.scans()
	s.wantHeld(gateway.ChargeObject, s.creating(key))
	s.wantHeld(gateway.ChargeObject, s.creating(key)) // and again

	// The operator has seen to the charge. Only now the key is free, for a charge of its own.
	s.dismissed()
	if f := is[Final](t, s.create(key, order())); f.Response.Status != http.StatusCreated {
		t.Fatalf("answer is %+v", f)
	}
	if n := s.count("SELECT generation FROM payments"); n != 2 || s.moved(gateway.ChargeObject) != 2 {
		t.Fatalf("it was charged as generation %d", n)
	}
	s.scans() // which finds the same charge, and no new case
	if n := s.count("SELECT count(*) FROM dead_letters WHERE status = 'open'"); n != 0 {
		t.Fatalf("%d are open", n)
	}
}

// A key that was given up as not executed. What is found then is money under the key, whatever the key stands for.
func TestKeyIsNotExecutedAgainWhileMoneyUnderItIsACase(t *testing.T) {
	t.Parallel()
	for name, between := range map[string]func(*stage){
		"released": func(g *stage) { g.record.Reference = "somebody's" },
		"expired":  func(g *stage) { g.expired() },
		"deleted":  func(g *stage) { g.deleted() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setup(t)
			g := s.charging("order-0000000001").failed()
			between(g)
			is[DeadLettered](t, s.evidenceBy(judge.SourceScan, g.record))
			before := s.everything()
			s.wantHeld(gateway.ChargeObject, s.creating("order-0000000001"))
			if now := s.everything(); now != before {
				t.Errorf("it has moved from\n%s to\n%s", before, now)
			}
			s.dismissed()
			lease := g.reserve(g.again())
			if lease.Attempt+lease.Generation != 3 {
				t.Errorf("after the decision it is reserved as %+v", lease)
			}
		})
	}
}
