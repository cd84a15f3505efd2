package payments

import (
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"payonce/internal/payments/internal/dbsqlc"
	"payonce/internal/postgres"
)

// Status is the state of a payment or refund.
type Status string

// The statuses of a payment or refund. Failed means that it is proven that the PSP has executed nothing. A retry with
// the same key executes again.
const (
	Processing Status = "processing"
	Succeeded  Status = "succeeded"
	Declined   Status = "declined"
	Failed     Status = "failed"
)

// Statuses lists them all.
func Statuses() []Status { return []Status{Processing, Succeeded, Declined, Failed} }

// Payment is a charge of a customer.
type Payment struct {
	ID            PaymentID
	Tenant        string
	CustomerID    string
	Amount        AmountMinor
	Currency      Currency
	PaymentMethod string
	Description   string
	Metadata      map[string]string
	Status        Status
	PSPChargeID   string
	DeclineCode   string
	Refunded      AmountMinor
	Key           string // the Idempotency-Key of the request that has made it
	Created       time.Time

	MovedOutside AmountMinor // what others have moved at the PSP; it may be more than the payment
	PSPObjectID  string      // the PSP's object of the current attempt, if the PSP executes in two steps
}

// Refund gives back a part of a payment, or all of it.
type Refund struct {
	ID          RefundID
	PaymentID   PaymentID
	Amount      AmountMinor
	Currency    Currency
	Reason      string
	Status      Status
	PSPRefundID string
	DeclineCode string
	Key         string // as of a Payment
	Created     time.Time
}

// paymentOf is the only mapper of a payment's row.
func paymentOf(row dbsqlc.Payment) (Payment, error) {
	p := Payment{
		ID: PaymentID(row.ID), Tenant: row.TenantID, CustomerID: row.CustomerID,
		Amount: AmountMinor(row.AmountMinor), Currency: Currency(row.Currency), PaymentMethod: row.PaymentMethod,
		Description: postgres.Text(row.Description), Status: Status(row.Status),
		PSPChargeID: postgres.Text(row.PspChargeID), DeclineCode: postgres.Text(row.DeclineCode),
		Refunded:     AmountMinor(row.RefundedMinor),
		MovedOutside: AmountMinor(row.MovedOutsideMinor), Key: row.IdempotencyKey, Created: row.CreatedAt, PSPObjectID: postgres.Text(row.PspObjectID),
	}
	if row.Metadata != nil {
		if err := json.Unmarshal(row.Metadata, &p.Metadata); err != nil {
			return Payment{}, err
		}
	}
	return p, nil
}

// refundOf is the only mapper of a refund's row.
func refundOf(row dbsqlc.Refund) Refund {
	return Refund{
		ID: RefundID(row.ID), PaymentID: PaymentID(row.PaymentID), Amount: AmountMinor(row.AmountMinor),
		Currency: Currency(row.Currency), Reason: postgres.Text(row.Reason), Status: Status(row.Status),
		PSPRefundID: postgres.Text(row.PspRefundID), DeclineCode: postgres.Text(row.DeclineCode),
		Key: row.IdempotencyKey, Created: row.CreatedAt,
	}
}

// lastID is greater than every UUIDv7. It is the cursor of the first page.
func lastID() uuid.UUID { return uuid.Max }
