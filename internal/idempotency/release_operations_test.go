package idempotency

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

// The query finds no row, so the resolver goes on as it does with any key that has moved. A script that
// does not ask meets the trigger.
func TestKeyWithAnOpenDeadLetterIsNotReleased(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.putInto(UnknownStatus)
	b.loseLongAgo()
	b.deadLetter(2) // says nothing about generation 1
	b.deadLetter(1)
	before, events := b.row(), len(b.events())
	b.unchanged("lookup", b.releaseUnknown(b.view()), before, events)
	b.unchanged("operator", b.releaseByOperator(b.view()), before, events)
	b.unchanged("cancelled", b.releaseCancelled(b.view()), before, events)
	if got := pgtest.RefusedBy(t, b.tryRolledBack(move(nil),
		string(FailedRetryableStatus))); got != "idempotency_keys_dead_lettered_stay" {
		t.Fatalf("a script: refused by %q", got)
	}
	// Evidence that it was executed passes all the same.
	if got := pgtest.RefusedBy(t, b.tryRolledBack(move(nil), string(CompletedStatus))); got != "" {
		t.Fatalf("completion: refused by %q", got)
	}

	b.closeDeadLetters()
	b.deadLetter(2)
	if !b.releaseUnknown(b.view()).Passed {
		t.Fatal("a key was not released whose dead letter is closed")
	}
}

// A dead letter holds the key from its owner, too: what the owner can prove is about this attempt, and the dead letter
// may be about an earlier one.
func TestOwnerReleasesNoKeyThatADeadLetterHolds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	lease := b.own()
	b.deadLetter(1)
	before, events := b.row(), len(b.events())
	if b.release(lease) {
		t.Fatal("released")
	}
	b.unchanged("held", GuardResult{}, before, events)
	if got := pgtest.RefusedBy(t, b.tryRolledBack(move(nil),
		string(FailedRetryableStatus))); got != "idempotency_keys_dead_lettered_stay" {
		t.Fatalf("the database refuses it by %q", got)
	}
	b.closeDeadLetters()
	another := b.aDeadLetter(1)
	other := uuid.New()
	another.Subject = &other
	b.send(b.opening(another)...)
	if !b.release(lease) {
		t.Fatal("held by a dead letter about another payment")
	}
}

// A decline does not pass while a dead letter says that money moved. Everything else does.
func TestOwnerTellsNobodyOfADeclineBesideMovedMoney(t *testing.T) {
	t.Parallel()
	b := setup(t)
	lease := b.own()
	declined := refusal()
	// tries completes the key, and undoes it.
	tries := func(unlessCharged bool, r Response) (out GuardResult, err error) {
		tx, err := b.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(context.Background())
		err = postgres.PipelineTx(t.Context(), tx, b.completing(lease, unlessCharged, r, &out))
		return out, err
	}
	for evidence, passes := range map[string]bool{
		`{"record": {"status": "succeeded"}}`: false, `{"answer": {"status": "succeeded"}}`: false,
		`{"record": {"status": "declined"}}`: true, `{}`: true,
	} {
		b.closeDeadLetters()
		b.deadLetterSaying(evidence)
		if out, err := tries(true, declined); err != nil || out.Passed != passes {
			t.Errorf("%s: a decline passes: %v (%v)", evidence, out.Passed, err)
		}
		if out, err := tries(false, answer("paid")); err != nil || !out.Passed {
			t.Errorf("%s: a success does not pass (%v)", evidence, err)
		}
		// The database holds a writer to it that does not ask.
		if _, err := tries(false, declined); (err == nil) != passes {
			t.Errorf("%s: the database lets it pass: %v", evidence, err)
		}
	}
}
