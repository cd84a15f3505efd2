package payment

import (
	"time"

	"payonce/internal/gateway"
)

// Disputed is the sum of the disputes whose money is withdrawn, or may be.
func (p Payment) Disputed() (sum AmountMinor) {
	for _, d := range p.Disputes {
		switch {
		case !d.Status.Takes():
		case d.Currency != p.Currency: // Nobody can convert it here.
			sum += p.Amount
		default:
			sum += d.Amount
		}
	}
	return sum
}

// Dispute is a request of the payer's bank for the money of a payment.
type Dispute struct {
	PSPID         string
	Amount        AmountMinor
	Currency      Currency
	Reason        string // as the PSP calls it
	Status        gateway.DisputeStatus
	EvidenceDueBy time.Time // zero if the PSP does not say
	Opened        time.Time // by the PSP's clock
	Updated       time.Time
}
