package payments

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
	"payonce/internal/payments/internal/dbsqlc"
	"payonce/internal/postgres"
)

// findMovement is the call that reads a movement: the one with this id, or, without an id, the one that the key stands
// for now. If there is none, out is nil.
func (b *Books) findMovement(ref idempotency.Ref, id *uuid.UUID, out **movement) postgres.Call {
	find := b.findPayment
	if ref.Operation == payment.RefundOperation {
		find = b.findRefund
	}
	p := dbsqlc.FindPaymentParams{TenantID: ref.Tenant, ID: id}
	if id == nil {
		p.Operation, p.Key = string(ref.Operation), ref.Key.String()
	}
	return func(ctx context.Context, q postgres.Statement) (err error) {
		*out, err = find(ctx, dbsqlc.New(q), p)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	}
}

func (b *Books) findPayment(
	ctx context.Context, q *dbsqlc.Queries, by dbsqlc.FindPaymentParams,
) (*movement, error) {
	row, err := q.FindPayment(ctx, by)
	if err != nil {
		return nil, err
	}
	return b.movementOf(row.Payment, nil, payment.Merchant{PSP: row.Psp, PSPAccount: row.PspAccount, Tells: row.Tells})
}

func (b *Books) findRefund(ctx context.Context, q *dbsqlc.Queries, by dbsqlc.FindPaymentParams) (*movement, error) {
	row, err := q.FindRefund(ctx, dbsqlc.FindRefundParams(by))
	if err != nil {
		return nil, err
	}
	return b.movementOf(row.Payment, &row.Refund,
		payment.Merchant{PSP: row.Psp, PSPAccount: row.PspAccount, Tells: row.Tells})
}

// movementOf is the movement of a payment's row, or of a refund's with its payment's.
func (b *Books) movementOf(paid dbsqlc.Payment, refund *dbsqlc.Refund, of payment.Merchant) (*movement, error) {
	p, err := paymentOf(paid)
	of.Tenant = p.Tenant
	m := &movement{merchant: of, psp: b.psps.Of(of.PSP), object: gateway.ChargeObject, payment: &p}
	if refund != nil {
		r := refundOf(*refund)
		m.object, m.refund = gateway.RefundObject, &r
	}
	return m, err
}

// paymentOf is the only mapper of a payment's row.
func paymentOf(row dbsqlc.Payment) (payment.Payment, error) {
	p := payment.Payment{
		ID: payment.ID(row.ID), Tenant: row.TenantID, CustomerID: row.CustomerID,
		Amount: payment.AmountMinor(row.AmountMinor), Currency: payment.Currency(row.Currency),
		PaymentMethod: row.PaymentMethod,
		Description:   postgres.Text(row.Description), Reference: postgres.Text(row.Reference),
		Status:      payment.Status(row.Status),
		PSPChargeID: postgres.Text(row.PspChargeID), DeclineCode: postgres.Text(row.DeclineCode),
		Refunded: payment.AmountMinor(row.RefundedMinor), Key: row.IdempotencyKey, Created: row.CreatedAt,
		Updated:     changedAt(row.CreatedAt, row.UpdatedAt),
		PSPObjectID: postgres.Text(row.PspObjectID),
	}
	if row.Metadata != nil {
		if err := json.Unmarshal(row.Metadata, &p.Metadata); err != nil {
			return payment.Payment{}, err
		}
	}
	return p, nil
}

// refundOf is the only mapper of a refund's row.
func refundOf(row dbsqlc.Refund) payment.Refund {
	return payment.Refund{
		ID: payment.RefundID(row.ID), PaymentID: payment.ID(row.PaymentID),
		Amount:   payment.AmountMinor(row.AmountMinor),
		Currency: payment.Currency(row.Currency), Reason: postgres.Text(row.Reason), Status: payment.Status(row.Status),
		Origin:      payment.Origin(row.Origin),
		PSPRefundID: postgres.Text(row.PspRefundID), DeclineCode: postgres.Text(row.DeclineCode),
		Key: row.IdempotencyKey, Created: row.CreatedAt, Updated: changedAt(row.CreatedAt, row.UpdatedAt),
	}
}

// changedAt is when a row was last changed. A row that got its outcome at once does not say, see RecordPayments.
func changedAt(created time.Time, updated *time.Time) time.Time {
	if updated != nil {
		return *updated
	}
	return created
}

type reading = postgres.Reading

// readDurably fails unless a failover would find what the query has read (ADR 0022). It costs no further round trip,
// but a commit. That there is no row is durable, too: another server that has the row would have to be newer.
func (b *Books) readDurably(ctx context.Context, query postgres.Query) error {
	var found error
	err := b.db.ReadDurably(ctx, func(ctx context.Context, q postgres.DBTX) error {
		if found = query(ctx, q); errors.Is(found, pgx.ErrNoRows) {
			return nil
		}
		return found
	})
	return cmp.Or(err, found)
}

// readToTell reads what a client will act on. A row with a verdict was reserved durably, because it was sent. A failed
// row tells only that nothing was executed, which no failover undoes. Of a row that is processing, nobody knows: its
// reservation may be one that was answered 503, and that a failover undoes. And a row that is missing here may be on a
// newer primary. So both are read again, durably.
func readToTell[T any](b *Books, read func(reading) (value T, final bool, err error)) (T, error) {
	value, final, err := read(b.db.ReadNow)
	if missing := absent(err); missing || err == nil && !final {
		value, _, err = read(b.readDurably)
		if !missing {
			err = gone(err)
		}
	}
	return value, err
}

// absent reports whether err says that there is no such row.
func absent(err error) bool {
	return errors.Is(err, ErrPaymentNotFound) || errors.Is(err, ErrRefundNotFound)
}

// gone is err, if what was read a moment ago is there. Otherwise another server answers by now.
func gone(err error) error {
	if absent(err) {
		return &postgres.UnavailableError{Op: "read durably", Err: err}
	}
	return err
}

// durably reads a key for an answer that is final. A client that was told a final answer must never hear another one,
// so the row must be one that a failover cannot undo.
func (s *Service) durably(ctx context.Context, ref idempotency.Ref, m *movement) (idempotency.KeyRow, error) {
	row, err := s.keys.FindDurably(ctx, ref)
	if err != nil {
		s.metrics.StoreFailed("find")
		s.log.WarnContext(ctx, "outcome not read durably",
			slog.String("resource", m.resource().Location()), slog.Any("error", err))
	}
	return row, err
}

// execution names a movement's generation of its key. It has no attempt; the key's row tells the attempt.
func execution(
	tenant string, operation idempotency.Operation, key string, subject uuid.UUID, generation int32,
) idempotency.Execution {
	return idempotency.Execution{
		Ref:     idempotency.StoredRef(tenant, string(operation), key),
		Subject: subject, Generation: generation,
	}
}
