package payments

import (
	"testing"

	"payonce/internal/deadletters"
	"payonce/internal/judge"
)

// An operator has the key looked up again while a lookup is under way. That lookup still knows of the dead letter: what
// it would write, to ask again in an hour, must not undo the operator's decision.
func TestLookupUnderWayDoesNotUndoAnOperatorsRetry(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	g := s.charging("order-0000000001").lost().windowPasses()
	s.evidenceBy(judge.SourceWebhook, otherAmount.record(g))
	h := newHeld(t)
	psp.onLookup(h.before(finds()))
	got := whileAsked(h, g.asks, func() {
		s.resolveDeadLetter(deadletters.Retry)
		if err := g.wakes(g.about(1)); err != nil {
			t.Error(err)
		}
	})
	if due := s.count("SELECT count(*) FROM idempotency_keys WHERE reconcile_after <= clock_timestamp()"); got != Moot || due != 1 {
		t.Errorf("came to %q, %d keys are due", got, due)
	}
	psp.onLookup(finds())
	g.resolves(Resolved)
}

// The same lookup has spent the budget, and does not know that the operator has given a new one: its dead letter is not
// opened.
func TestLookupUnderWayOpensNoDeadLetterBehindAnOperatorsRetry(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	g := s.charging("order-0000000001").lost().windowPasses()
	for range 3 {
		g.resolves(Scheduled)
	}
	h := newHeld(t)
	psp.onLookup(h.before(nil))
	got := whileAsked(h, g.asks, func() {
		if err := g.wakes(g.about(1)); err != nil {
			t.Error(err)
		}
	})
	if got != Moot {
		t.Errorf("came to %q", got)
	}
	s.wantDeadLetters()
}

// A contradiction is a dead letter, also for an operator who has just closed one. The operator's retry stands all the
// same.
func TestContradictionUnderWayDoesNotUndoAnOperatorsRetry(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	g := s.charging("order-0000000001").lost().windowPasses()
	other := otherAmount.record(g)
	s.evidenceBy(judge.SourceWebhook, other)
	h := newHeld(t)
	psp.onLookup(h.before(finds(other)))
	got := whileAsked(h, g.asks, func() {
		s.resolveDeadLetter(deadletters.Retry)
		if err := g.wakes(g.about(1)); err != nil {
			t.Error(err)
		}
	})
	if due := s.count("SELECT count(*) FROM idempotency_keys WHERE reconcile_after <= clock_timestamp()"); got != ToOperator || due != 1 {
		t.Errorf("came to %q, %d keys are due", got, due)
	}
	s.wantDeadLetters(contradicts(g, other.ID), contradicts(g, other.ID))
}
