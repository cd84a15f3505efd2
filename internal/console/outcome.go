package console

import (
	"time"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
)

// nextOf says what happens next with a key, in a sentence for a reader who does not know the statuses.
func nextOf(row idempotency.KeyRow) string {
	switch row.Status {
	case idempotency.InProgressStatus:
		if row.LockedUntil == nil {
			return ""
		}
		return "A request is being executed. If its process dies, the lease ends at " +
			row.LockedUntil.UTC().Format(time.TimeOnly) + " (UTC). Then the key becomes unknown."
	case idempotency.UnknownStatus:
		return "Nobody here knows what the PSP has done. The reconciler asks the PSP until there is proof, or the PSP " +
			"reports it by a webhook. Nobody sends the charge again meanwhile."
	case idempotency.CompletedStatus:
		return "The outcome is final. Each further request with this key gets the stored response."
	case idempotency.FailedRetryableStatus:
		return "It is proven that the PSP has executed nothing. The next request with this key is executed."
	case idempotency.ExpiredStatus:
		return "The key is free again. The next request with it is a new payment or refund."
	}
	return ""
}

// executed are the amounts of what the PSP has executed under a key. There should be one at most.
func executed(ledger []gateway.Record) (amounts []string) {
	for _, r := range ledger {
		if r.Executed() {
			amounts = append(amounts, amountOf(r))
		}
	}
	return amounts
}
