package console

import (
	"strings"
	"testing"
	"time"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
)

// Each status has a sentence of its own, and a sentence about a refund does not speak of a charge.
func TestNextIsSaidOfEachStatus(t *testing.T) {
	t.Parallel()
	lease := time.Date(2026, 11, 23, 12, 0, 30, 0, time.UTC)
	for _, operation := range []string{payment.CreateOperation, payment.RefundOperation} {
		seen := map[string]bool{}
		for _, status := range []idempotency.Status{idempotency.InProgressStatus, idempotency.UnknownStatus,
			idempotency.CompletedStatus, idempotency.FailedRetryableStatus, idempotency.ExpiredStatus} {
			ref := idempotency.StoredRef("acme", operation, "k")
			said := nextOf(idempotency.KeyRow{Ref: ref, Status: status, LockedUntil: &lease},
				time.Time{}, false)
			if said == "" || seen[said] {
				t.Errorf("%s: %q", status, said)
			}
			held := nextOf(idempotency.KeyRow{Ref: ref, Status: status, LockedUntil: &lease}, time.Time{}, true)
			says := strings.Contains(held, "an operator has the case")
			if says != (status == idempotency.UnknownStatus) {
				t.Errorf("%s, held: %q", status, held)
			}
			seen[said] = true
			if operation == payment.RefundOperation && strings.Contains(said, "charge") {
				t.Errorf("of a refund: %q", said)
			}
		}
	}
}

// A process that was started after the reservation does not execute the request.
func TestRequestOfAnotherProcessIsNotSaidToBeExecuted(t *testing.T) {
	t.Parallel()
	lease := time.Date(2026, 11, 23, 12, 0, 30, 0, time.UTC)
	row := idempotency.KeyRow{Status: idempotency.InProgressStatus, LockedUntil: &lease,
		Reserved: lease.Add(-30 * time.Second)}
	for started, want := range map[time.Time]string{
		{}:                              "is being executed",
		row.Reserved.Add(-time.Second):  "is being executed",
		row.Reserved.Add(2 * time.Hour): "may have died with its process. Its lease is over at 12:00:30",
	} {
		if said := nextOf(row, started, false); !strings.Contains(said, want) {
			t.Errorf("started at %s: %q", started, said)
		}
	}
}

func TestOnlyWhatIsExecutedCounts(t *testing.T) {
	t.Parallel()
	got := executed([]gateway.Record{
		{Status: "succeeded", AmountMinor: 1200, Currency: "USD"},
		{Status: "declined", AmountMinor: 1200, Currency: "USD"},
		{Status: "succeeded", AmountMinor: 700, Currency: "KRW"},
	})
	if strings.Join(got, ", ") != "12.00 USD, 700 KRW" {
		t.Errorf("executed are %q", got)
	}
}

// One charge of another amount is no good end.
func TestAmountThatWasNotAskedForIsSaid(t *testing.T) {
	t.Parallel()
	row := columns{{Name: "amount_minor", Value: "1200"}, {Name: "currency", Value: "USD"}}
	for want, r := range map[string]gateway.Record{
		"12.00 USD": {Status: "succeeded", AmountMinor: 1201, Currency: "USD"},
		"":          {Status: "succeeded", AmountMinor: 1200, Currency: "USD"},
	} {
		if got := askedOtherwise([]gateway.Record{r}, row); got != want {
			t.Errorf("of %+v it says %q, want %q", r, got, want)
		}
	}
	other := gateway.Record{Status: "succeeded", AmountMinor: 1200, Currency: "EUR"}
	if got := askedOtherwise([]gateway.Record{other}, row); got != "12.00 USD" {
		t.Errorf("of another currency it says %q", got)
	}
}
