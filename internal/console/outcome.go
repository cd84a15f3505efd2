package console

import (
	"strconv"
	"time"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/operator"
	"payonce/internal/payment"
)

// nextOf says what happens next with a key, for a reader who does not know the statuses. started is when this API
// process was started, or zero. held: an open dead letter is about the key.
func nextOf(row idempotency.KeyRow, started time.Time, held bool) string {
	what := "charge"
	if row.Ref.Operation == payment.RefundOperation {
		what = "refund"
	}
	switch row.Status {
	case idempotency.InProgressStatus:
		if row.LockedUntil == nil {
			return ""
		}
		end := row.LockedUntil.UTC().Format(time.TimeOnly)
		if started.After(row.Reserved) {
			return "A request has reserved the key, and has not ended. It may have died with its process. Its lease is " +
				"over at " + end + " (UTC), and then the key becomes unknown."
		}
		return "A request is being executed. It has a lease until " + end +
			" (UTC). If its process dies, the key becomes unknown after that."
	case idempotency.UnknownStatus:
		if held {
			return "It is not settled what has become of it, and an operator has the case. Until it is settled, no " + what +
				" is sent again."
		}
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

// waiting says what a payment without an outcome waits for, and since when. open are the open dead letters about its
// key, newest first.
func waiting(row idempotency.KeyRow, open []operator.Found) (what string, since time.Time) {
	if len(open) > 0 {
		return "waits for an operator", open[len(open)-1].At.Time()
	}
	if row.Status == idempotency.UnknownStatus {
		return "waits for the PSP's word", row.Reserved
	}
	return "is executed", row.Reserved
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

// askedOtherwise is the amount of our row if the PSP has executed another one, or in another currency; or "".
func askedOtherwise(ledger []gateway.Record, row columns) string {
	minor, err := strconv.ParseInt(row.value("amount_minor"), 10, 64)
	for _, r := range ledger {
		if err == nil && r.Executed() && (r.AmountMinor != minor || r.Currency != row.value("currency")) {
			return payment.Currency(row.value("currency")).Money(payment.AmountMinor(minor))
		}
	}
	return ""
}

func amountOf(r gateway.Record) string {
	return payment.Currency(r.Currency).Money(payment.AmountMinor(r.AmountMinor))
}
