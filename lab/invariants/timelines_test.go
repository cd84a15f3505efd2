package invariants

import (
	"fmt"
	"testing"

	"payonce/internal/idempotency"
	"payonce/internal/payments"
)

func TestKeyThatComesToNoEndIsFound(t *testing.T) {
	t.Parallel()
	for n, found := range map[int]int{mostRounds: 0, mostRounds + 1: 1, 3 * mostRounds: 1} {
		var b books
		for i := range n {
			for _, edge := range [][2]idempotency.Status{
				{idempotency.InProgressStatus, idempotency.UnknownStatus},
				{idempotency.UnknownStatus, idempotency.FailedRetryableStatus},
				{idempotency.FailedRetryableStatus, idempotency.InProgressStatus},
			} {
				b.events = append(b.events, eventRow{Tenant: "acme", Operation: payments.RefundOperation, Key: "k",
					Generation: 1, Attempt: int32(i), From: string(edge[0]), To: string(edge[1])})
			}
			// What an operator gives back is no round.
			b.events = append(b.events, eventRow{Tenant: "acme", Operation: payments.RefundOperation, Key: "k",
				Generation: 1, Actor: "operator", From: "unknown", To: "failed_retryable"})
			// Another life of the key begins to count from nothing, and so does another tenant's.
			b.events = append(b.events, eventRow{Tenant: "acme", Operation: payments.RefundOperation, Key: "k",
				Generation: int32(i) + 2, From: "unknown", To: "failed_retryable"},
				eventRow{Tenant: fmt.Sprint(i), Operation: payments.RefundOperation, Key: "k", Generation: 1,
					From: "unknown", To: "failed_retryable"})
		}
		if got := rounds(world{books: &b}); len(got) != found {
			t.Errorf("%d rounds: %v", n, got)
		}
	}
}
