package idempotency

import (
	"testing"

	"payonce/internal/deadletters"
)

// What is seen of a dead letter, and what the release asks for, is the same.
func TestSightTellsWhetherAnOperatorHasTheCase(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.putInto(UnknownStatus)
	b.deadLetter(2)
	tenant, key, none := b.aDeadLetter(1), b.aDeadLetter(1), b.aDeadLetter(1)
	tenant.About.Tenant, key.About.Key, none.About = "globex", "order-0000000043", nil
	for _, l := range []deadletters.DeadLetter{tenant, key, none} {
		b.send(b.opening(l)...)
	}
	if b.view().Held {
		t.Fatal("dead letters about other things count")
	}
	b.deadLetter(1)
	if !b.view().Held {
		t.Fatal("an open dead letter does not count")
	}
	b.closeDeadLetters()
	if b.view().Held {
		t.Fatal("a closed dead letter counts")
	}
}
