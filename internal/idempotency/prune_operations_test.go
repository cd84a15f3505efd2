package idempotency

import (
	"testing"

	"payonce/test/pgtest"
)

// The dead letter's evidence is about this key. The operator who decides needs the row, its response and its timeline.
func TestKeyWithAnOpenDeadLetterNeitherExpiresNorGoes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, status := range []Status{CompletedStatus, FailedRetryableStatus, ExpiredStatus} {
		b.again().putInto(status)
		b.deadLetter(1)
		b.outlive()
		before := b.frozen()
		b.wantExpired(0)
		b.wantDeleted(0)
		if after := b.frozen(); after != before {
			t.Errorf("%s: was %s, is %s", status, before, after)
		}
		if status != ExpiredStatus {
			if got := pgtest.RefusedBy(t, b.tryRolledBack(move(nil),
				string(ExpiredStatus))); got != "idempotency_keys_dead_lettered_stay" {
				t.Errorf("%s, by a script: refused by %q", status, got)
			}
		}

		b.closeDeadLetters()
		b.deadLetter(2) // not about this generation, but its lines are in the same timeline
		if status != ExpiredStatus {
			b.wantExpired(1)
			b.outlive()
		}
		b.wantDeleted(0)
		b.closeDeadLetters()
		b.wantDeleted(1)
	}
}
