package invariants

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// The values of dead_letter_hold, each stronger than the one before it.
var holds = []string{"none", "expiry", "release", "decline"}

// moneyMoved is the place of the strongest hold.
const moneyMoved = 3

// holdsFit is the part of I8 about what dead letters hold: each key's row says what the open dead letters about its
// generation and payment forbid, and those about any generation by which money has moved under the key.
func holdsFit(w world, _ Evidence) []Violation {
	due := map[keyName]int{}
	for _, l := range w.books.deadLetters {
		name := keyName{l.Tenant, l.Operation, l.Key}
		k := w.books.keys[name]
		if k != nil && l.Status == "open" && l.holdsRow(k) {
			due[name] = max(due[name], l.holds())
		}
	}
	var found []Violation
	for name, k := range w.books.keys {
		if want := holds[due[name]]; k.Hold != want {
			found = append(found, Violation{"I8", name.String(),
				fmt.Sprintf("dead letters hold %s of it, and its row says %s", want, k.Hold)})
		}
	}
	return found
}

// holdsRow reports whether a dead letter holds a key's row. Money that others have moved out of a payment did not move
// under its key, and does not keep the expired key of a payment that was executed from its renewal.
func (l deadLetterRow) holdsRow(k *keyRow) bool {
	if l.Kind != "moved_outside" {
		return l.concerns(k) || l.holds() == moneyMoved
	}
	return l.concerns(k) && (k.Status != "expired" || k.ResponseStatus == nil || *k.ResponseStatus == 402)
}

// holds is what a dead letter forbids its key while it is open, by its place in holds.
func (l deadLetterRow) holds() int {
	if l.Kind == "job_discarded" {
		return 1
	}
	for _, member := range []string{"record", "answer"} {
		if readDocument(readDocument(l.Evidence).member(member)).text("status") == "succeeded" {
			return moneyMoved
		}
	}
	return 2
}

// readGone reads the keys without a row that their tombstones hold.
func (b *books) readGone(ctx context.Context, tx pgx.Tx) error {
	gone, err := collect(ctx, tx, `SELECT tenant_id, operation, key FROM idempotency_key_tombstones
		WHERE dead_letter_hold = 'decline'`, func(row pgx.CollectableRow) (n keyName, err error) {
		return n, row.Scan(&n.tenant, &n.operation, &n.key)
	})
	for _, name := range gone {
		b.gone[name] = true
	}
	return err
}
