package payments

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
	"payonce/internal/payments/internal/dbsqlc"
	"payonce/internal/postgres"
)

// LookUp asks the PSP what its ledger has under the key of an execution. It is for people: it judges nothing and writes
// nothing. If the movement is not there, it fails with ErrPaymentNotFound.
func (b *Books) LookUp(ctx context.Context, own idempotency.Execution) (gateway.Lookup, error) {
	g, err := b.Gather(ctx, own)
	if errors.Is(err, errNotOurs) {
		return nil, ErrPaymentNotFound
	}
	if err != nil {
		return nil, err
	}
	return b.psps.Of(g.Seen.PSP).Lookup(ctx, g.Seen.Request, gateway.EndNothing), nil
}

// Merge is a page of the payments of both pages, newest first. Both were read with the same filter.
func (p Page) Merge(other Page, limit int) Page {
	merged := Page{Payments: append(p.Payments, other.Payments...)}
	slices.SortFunc(merged.Payments, func(a, b payment.Payment) int { return bytes.Compare(b.ID[:], a.ID[:]) })
	more := p.Next != nil || other.Next != nil
	if len(merged.Payments) > limit {
		merged.Payments, more = merged.Payments[:limit], true
	}
	if more {
		merged.Next = &merged.Payments[limit-1].ID
	}
	return merged
}

// Payments lists the tenant's payments, newest first.
func (b *Books) Payments(ctx context.Context, tenant string, f Filter) (Page, error) {
	page, _, err := b.readPayments(ctx, tenant, f, b.db.ReadNow)
	if err == nil {
		err = withLives(ctx, b.db, tenant, page.all()...)
	}
	return page, err
}

// MerchantOf reads on behalf of whom a payment is made: the tenant's provider, and its account there. It fails as
// Payment does.
func (b *Books) MerchantOf(ctx context.Context, tenant string, id payment.ID) (payment.Merchant, error) {
	return b.merchantOf(ctx, idempotency.Ref{Tenant: tenant, Operation: payment.CreateOperation}, (*uuid.UUID)(&id))
}

// MerchantOfKey reads on behalf of whom a key is executed. If the key stands for no payment or refund, it fails with
// ErrPaymentNotFound.
func (b *Books) MerchantOfKey(ctx context.Context, ref idempotency.Ref) (payment.Merchant, error) {
	return b.merchantOf(ctx, ref, nil)
}

func (b *Books) merchantOf(ctx context.Context, ref idempotency.Ref, id *uuid.UUID) (payment.Merchant, error) {
	var m *movement
	if err := b.db.Pipeline(ctx, b.findMovement(ref, id, &m)); err != nil {
		return payment.Merchant{}, fmt.Errorf("read merchant: %w", err)
	}
	if m == nil {
		return payment.Merchant{}, ErrPaymentNotFound
	}
	return m.merchant, nil
}

// Refunds lists the refunds of the tenant's payment, newest first. For another tenant's payment it fails with
// ErrPaymentNotFound, as if there were none.
func (b *Books) Refunds(ctx context.Context, tenant string, id payment.ID, f RefundFilter) (RefundPage, error) {
	page, _, err := b.readRefunds(ctx, tenant, id, f, b.db.ReadNow)
	return page, err
}

// Event is what has become of a payment, as it was then.
type Event struct {
	Version int64 // grows with each event of the payment
	Type    string
	Payment payment.Payment
	Refund  *payment.Refund  // that the event is about; nil: none
	Dispute *payment.Dispute // that the event is about; nil: none
}

// EventName names an event of a tenant.
type EventName struct {
	PaymentID payment.ID
	Version   int64
}

// Events reads events of a tenant. Those that are not there are missing in the result.
func (b *Books) Events(ctx context.Context, tenant string, names []EventName) (map[EventName]Event, error) {
	asked := dbsqlc.ReadEventsParams{TenantID: tenant}
	for _, n := range names {
		asked.PaymentIds = append(asked.PaymentIds, uuid.UUID(n.PaymentID))
		asked.Versions = append(asked.Versions, n.Version)
	}
	var rows []dbsqlc.ReadEventsRow
	err := b.db.ReadNow(ctx, func(ctx context.Context, q postgres.DBTX) (err error) {
		rows, err = dbsqlc.New(q).ReadEvents(ctx, asked)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	events := make(map[EventName]Event, len(rows))
	for _, row := range rows {
		e, err := eventOf(row)
		if err != nil {
			return nil, fmt.Errorf("read event of payment %s: %w", row.Payment.ID, err)
		}
		events[EventName{e.Payment.ID, e.Version}] = e
	}
	return events, nil
}

func eventOf(row dbsqlc.ReadEventsRow) (e Event, err error) {
	as := row.Payment
	as.Status, as.PspChargeID, as.DeclineCode = row.Status, row.PspChargeID, row.DeclineCode
	as.RefundedMinor, as.UpdatedAt = row.RefundedMinor, &row.ChangedAt
	e = Event{Version: row.Version, Type: row.Type}
	if e.Payment, err = paymentOf(as); err != nil {
		return e, err
	}
	if row.Disputes != nil {
		if e.Payment.Disputes, err = disputesOf(row.Disputes); err != nil {
			return e, err
		}
	}
	for i, d := range e.Payment.Disputes {
		if row.DisputeID != nil && d.PSPID == *row.DisputeID {
			e.Dispute = &e.Payment.Disputes[i]
		}
	}
	if row.Refund != nil {
		e.Refund, err = refundIn(row.Refund)
	}
	return e, err
}

// refundIn reads the row of a refund, as the database writes it.
func refundIn(raw []byte) (*payment.Refund, error) {
	var row struct {
		ID             uuid.UUID  `json:"id"`
		PaymentID      uuid.UUID  `json:"payment_id"`
		Origin         string     `json:"origin"`
		IdempotencyKey string     `json:"idempotency_key"`
		AmountMinor    int64      `json:"amount_minor"`
		Currency       string     `json:"currency"`
		Reason         *string    `json:"reason"`
		Status         string     `json:"status"`
		PspRefundID    *string    `json:"psp_refund_id"`
		DeclineCode    *string    `json:"decline_code"`
		CreatedAt      time.Time  `json:"created_at"`
		UpdatedAt      *time.Time `json:"updated_at"`
	}
	if err := json.Unmarshal(raw, &row); err != nil {
		return nil, err
	}
	r := refundOf(dbsqlc.Refund{ID: row.ID, PaymentID: row.PaymentID, Origin: row.Origin,
		IdempotencyKey: row.IdempotencyKey, AmountMinor: row.AmountMinor, Currency: row.Currency, Reason: row.Reason,
		Status: row.Status, PspRefundID: row.PspRefundID, DeclineCode: row.DeclineCode, CreatedAt: row.CreatedAt,
		UpdatedAt: row.UpdatedAt})
	return &r, nil
}
