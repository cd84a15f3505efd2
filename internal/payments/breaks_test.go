package payments

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/test/pgproxy"
)

// breakOf is the line of a statement that has the stage's movement as executed, while our row says otherwise.
func (s *stage) breakOf(pspID string, ours payment.Status) judge.Break {
	subject := s.lease.Subject
	return judge.Break{
		Kind: judge.BreakStatus, Account: "acme", Day: time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC),
		Object: s.record.Object,
		PSPID:  pspID, Subject: &subject, Reference: s.record.Reference, Moved: s.record.Created,
		Theirs: &judge.Side{AmountMinor: s.record.AmountMinor, Currency: s.record.Currency},
		Ours:   &judge.Side{AmountMinor: s.record.AmountMinor, Currency: s.record.Currency, Status: string(ours)},
	}
}

// resolves judges a break in a transaction of its own.
func (s *shop) resolves(b judge.Break) (completed bool, err error) {
	err = s.inTx(func(ctx context.Context, tx pgx.Tx) (err error) {
		completed, err = s.service.BreakTx(ctx, tx, b)
		return err
	})
	return completed, err
}

func (s *shop) wantResolved(b judge.Break, want bool) {
	s.t.Helper()
	if completed, err := s.resolves(b); err != nil || completed != want {
		s.t.Fatalf("completed: %v, %v", completed, err)
	}
}

// A statement's run counts the keys that it has completed. A dead letter is none, and neither is what is right already.
func TestBreakCompletesWhatHasMovedOnce(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001").failed()
	s.wantResolved(g.breakOf(g.record.ID, payment.Failed), true)
	g.wantMoved(payment.Succeeded, g.record.ID)
	before := s.everything()
	s.wantResolved(g.breakOf(g.record.ID, payment.Failed), false)
	if s.everything() != before {
		t.Error("the second time, something was written")
	}
	missing := g.breakOf(g.record.ID, payment.Succeeded)
	missing.Kind, missing.Theirs = judge.BreakMissingThere, nil
	s.wantResolved(missing, false)
	s.wantDeadLetters("missing_at_psp missing acme " + g.record.Reference)
}

// A later statement has what an earlier one did not have. That closes its own dead letter, and frees its own key.
func TestStatementThatHasTheMovementAfterAllClosesItsDeadLetter(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g, h := s.charging("order-0000000001").succeeded(), s.charging("order-0000000002").succeeded()
	missing, other := g.breakOf(g.record.ID, payment.Succeeded), h.breakOf(h.record.ID, payment.Succeeded)
	gone, subject := missing, uuid.Must(uuid.NewV7())
	gone.Subject, gone.Reference = &subject, payment.ID(subject).String()
	for _, b := range []*judge.Break{&missing, &other, &gone} {
		b.Kind, b.Theirs = judge.BreakMissingThere, nil
		s.wantResolved(*b, false)
	}
	for _, b := range []*judge.Break{&missing, &gone} {
		b.Listed = true
		s.wantResolved(*b, false)
	}
	open := s.texts("SELECT finding FROM dead_letters WHERE status = 'open'")
	held := s.texts("SELECT key FROM idempotency_keys WHERE dead_letter_hold <> 'none'")
	want := []string{"missing acme " + h.record.Reference, "order-0000000002"}
	if diff := cmp.Diff(want, append(open, held...)); diff != "" {
		t.Errorf("what is open, and held (-want +got):\n%s", diff)
	}
}

// What a constraint refuses is judged once more, with the reason: the id belongs to another payment, or the share of
// the refund is gone. Both are a dead letter, and the run goes on.
func TestBreakThatAConstraintRefusesIsADeadLetter(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	other := s.charging("order-0000000001").succeeded()
	g := s.charging("order-0000000002").failed()
	s.wantResolved(g.breakOf(other.record.ID, payment.Failed), false)
	g.wantStatus(idempotency.FailedRetryableStatus, 1)
	s.wantDeadLetters(contradicts(g, other.record.ID))

	p := s.charging("order-0000000003").paidFor()
	first := s.refunding("refund-0000000001", p, p.Amount).failed()
	s.refunding("refund-0000000002", p, p.Amount).succeeded()
	s.wantResolved(first.breakOf(first.record.ID, payment.Failed), false)
	first.wantStatus(idempotency.FailedRetryableStatus, 1)
	s.wantDeadLetters(contradicts(g, other.record.ID), "refund_exceeds_payment refund record acme "+first.record.ID)
}

// An error that judge can do nothing about ends the run with what has failed.
func TestBreakThatCannotBeWrittenEndsTheRun(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001").succeeded()
	missing := g.breakOf(g.record.ID, payment.Succeeded)
	missing.Kind, missing.Theirs = judge.BreakMissingThere, nil
	s.service.newID = noID
	if _, err := s.resolves(missing); err == nil || !strings.Contains(err.Error(), "no random numbers") {
		t.Errorf("without an id for the dead letter: %v", err)
	}
}

// A row that cannot be read is not one that is not there. A break about what is not there is no error.
func TestBreakAboutARowThatCannotBeReadEndsTheRun(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001").succeeded()
	g.timePasses(`UPDATE payments SET metadata = '[1]'`)
	declined := g.breakOf(g.record.ID, payment.Succeeded)
	if completed, err := s.resolves(declined); err == nil {
		t.Errorf("completed: %v", completed)
	}
}

// The statement's transaction does not lock the keys that it reads. If one moves meanwhile, the break is judged again.
func TestBreakAboutAKeyThatMovesIsJudgedAgain(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	proxy := s.proxied()
	g := s.charging("order-0000000001").failed()
	held := proxy.On("ResolveKeys", pgproxy.HoldBefore)
	result := make(chan error, 1)
	go func() {
		completed, err := s.resolves(g.breakOf(g.record.ID, payment.Failed))
		if err == nil && !completed {
			err = errors.New("nothing is completed")
		}
		result <- err
	}()
	held.Await(t)
	m := g.again()
	g.live(g.reserve(m), m, gateway.Indeterminate{Reason: "no answer in time"})
	held.Release()
	if err := <-result; err != nil {
		t.Error(err)
	}
	g.wantMoved(payment.Succeeded, g.record.ID)

	h := s.charging("order-0000000002").failed()
	held = proxy.On("ResolveKeys", pgproxy.HoldBefore)
	go func() {
		_, err := s.resolves(h.breakOf(h.record.ID, payment.Failed))
		result <- err
	}()
	held.Await(t)
	m = h.again()
	h.live(h.reserve(m), m, gateway.Indeterminate{Reason: "no answer in time"})
	h.timePasses(`UPDATE payments SET metadata = '[1]'`)
	held.Release()
	if err := <-result; err == nil {
		t.Error("what cannot be read again was judged")
	}
}
