package invariants

import (
	"fmt"

	"payonce/internal/idempotency"
	"payonce/internal/payments"
)

// mostRounds bounds how often a key may be lost and given back in one generation, however often its client asks. What
// comes after the 20th attempt is for an operator to decide, who may give it back.
const mostRounds = 19

// rounds is the part of I2 about keys that never come to an end: between unknown and failed_retryable, a key goes round
// a bounded number of times in each generation, unless an operator has the case. Each round is a request to the PSP,
// and a client that waits.
func rounds(w world) []Violation {
	count := map[keyGeneration]int{}
	var found []Violation
	for _, e := range w.books.events {
		if e.From != string(idempotency.UnknownStatus) || e.To != string(idempotency.FailedRetryableStatus) ||
			e.Actor == string(payments.SourceOperator) {
			continue
		}
		at := keyGeneration{keyName{e.Tenant, e.Operation, e.Key}, e.Generation}
		if count[at]++; count[at] == mostRounds+1 {
			found = append(found, Violation{"I2", at.key.String(), fmt.Sprintf(
				"lost and given back more than %d times in generation %d: it comes to no end", mostRounds, e.Generation)})
		}
	}
	return found
}
