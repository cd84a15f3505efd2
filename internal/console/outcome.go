package console

import (
	"time"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/payments"
)

// nextOf says what happens next with a key, for a reader who does not know the statuses.
func nextOf(row idempotency.KeyRow) string {
	what := "charge"
	if row.Ref.Operation == payments.RefundOperation {
		what = "refund"
	}
	switch row.Status {
	case idempotency.InProgressStatus:
		if row.LockedUntil == nil {
			return ""
		}
		return "A request is being executed. It has a lease until " + row.LockedUntil.UTC().Format(time.TimeOnly) +
			" (UTC). If its process dies, the key becomes unknown after that."
	case idempotency.UnknownStatus:
		return "It is not known what the PSP has done. The PSP may report it by a webhook, and the reconciler asks the " +
			"PSP until there is proof. Until then, no " + what + " is sent again."
	case idempotency.CompletedStatus:
		return "The outcome is final. The same request with this key gets the stored response. Another request with it " +
			"is refused."
	case idempotency.FailedRetryableStatus:
		return "The PSP has executed no " + what + ". The client may send the request with this key again."
	case idempotency.ExpiredStatus:
		return "The key has expired. The next request with it is a new " + what + "."
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
