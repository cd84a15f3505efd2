package invariants

import (
	"fmt"
	"strings"
	"time"

	"payonce/internal/idempotency"
	"payonce/internal/payments"
)

// windowTolerance is between two clock readings of the same transaction: that of the row, which the guard reads, and
// that of its line in the timeline, which is all that is left. On a busy machine, and in a session that runs the
// trigger for the first time, a tenth of a second lies between them.
const windowTolerance = 500 * time.Millisecond

// released is the part of I8 that looks behind an edge: a key is given back with a proof that nothing was executed, or
// not at all. There are such proofs. The owner has one when it has not sent; that it really has not is seen in
// sends. A lookup has one when the PSP finds nothing after the grace period. At Stripe, both have one when the intent
// is cancelled; that it really is, is seen in intents.
func released(w world, window time.Duration) []Violation {
	var found []Violation
	unknownSince := map[keyName]time.Time{}
	for _, e := range w.books.events {
		name := keyName{e.Tenant, e.Operation, e.Key}
		if e.To == string(idempotency.UnknownStatus) && e.From != e.To {
			unknownSince[name] = e.At
		}
		if e.To != string(idempotency.FailedRetryableStatus) || e.From == e.To {
			continue
		}
		owner := e.From == string(idempotency.InProgressStatus)
		cancelled := w.books.psps[e.Tenant] == stripePSP && e.Operation == payments.CreateOperation &&
			strings.HasPrefix(e.Reason, cancelledAtPSP)
		switch proven := e.At.Sub(unknownSince[name]) + windowTolerance; {
		case owner && e.Actor != string(payments.SourceOwner):
			found = append(found, Violation{"I8", name.String(), e.Actor +
				" gave it back, and only its owner can know that nothing was sent"})
		case !owner && proven < window && !cancelled:
			found = append(found, Violation{"I8", name.String(),
				fmt.Sprintf("%s gave it back %s after it became unknown, within the grace period of %s",
					e.Actor, e.At.Sub(unknownSince[name]).Round(time.Millisecond), window)})
		}
	}
	return found
}

// givenBack counts the attempts of each generation whose owners have given their word that they have not sent.
func (b *books) givenBack() map[keyGeneration]int {
	count := map[keyGeneration]int{}
	for _, e := range b.events {
		if e.Actor == string(payments.SourceOwner) && e.From == string(idempotency.InProgressStatus) &&
			e.To == string(idempotency.FailedRetryableStatus) {
			count[keyGeneration{keyName{e.Tenant, e.Operation, e.Key}, e.Generation}]++
		}
	}
	return count
}
