package payments

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/internal/payments/internal/dbsqlc"
	"payonce/internal/postgres"
)

// Others change our payments at the PSP, too: a refund in its dashboard, a dispute, a debit that the bank takes back.
// Such a record is ours by the charge that it changes. It is stored on the payment, and bounds its refunds.

// executionChangedBy finds what a record changes. It does not matter who has made it. It is a refund of ours if that
// has the record's id, and otherwise the payment whose charge it changes.
func (b *Books) executionChangedBy(ctx context.Context, r gateway.Record) (own idempotency.Execution, err error) {
	if r.ChargeID == "" {
		return own, errNotOurs
	}
	rows, err := dbsqlc.New(b.db.Reader()).FindChanged(ctx, dbsqlc.FindChangedParams{
		Object: string(r.Object), PspID: r.ID, ChargeID: r.ChargeID, Account: r.Account,
	})
	if err != nil || len(rows) == 0 {
		return own, cmp.Or(err, errNotOurs)
	}
	at := max(0, slices.IndexFunc(rows,
		func(row dbsqlc.FindChangedRow) bool { return row.Object == string(gateway.RefundObject) }))
	row := rows[at]
	return execution(row.TenantID, payment.OperationOf(gateway.Object(row.Object)), row.IdempotencyKey, row.ID,
		row.Generation), nil
}

// withStored adds what our books have of an object of the PSP's as the doing of others, which no charge is. The
// database has the epoch for a time that is not known.
func withStored(ctx context.Context, q *dbsqlc.Queries, g Gathered, o gateway.Object, id string) (Gathered, error) {
	if o == gateway.ChargeObject {
		return g, nil
	}
	row, err := q.KnownElsewhere(ctx, dbsqlc.KnownElsewhereParams{
		TenantID: g.Seen.Tenant, PaymentID: uuid.UUID(g.movement.payment.ID), Object: string(o), PspID: id,
	})
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return g, fmt.Errorf("read what others have done: %w", err)
	}
	g.Seen.Stored = judge.Stored{Status: row.Status, AmountMinor: row.AmountMinor, Currency: row.Currency,
		Reason: row.Reason, OfAnother: row.OfAnother, Fresh: row.Fresh}
	if row.EvidenceDueBy.Unix() > 0 {
		g.Seen.Stored.EvidenceDueBy = row.EvidenceDueBy.UTC()
	}
	return g, nil
}

// withLost names the key of a refund that has our marks, and that we have lost, as after a restore. What it has moved
// counts on the payment. The case is about the refund's own key, which nobody may execute again.
func (b *Books) withLost(ctx context.Context, g Gathered, e judge.Record) (Gathered, error) {
	if _, ours := payment.SubjectOf(e.Record.Object, e.Record.Reference); !ours || !g.Seen.ChangedBy(e) {
		return g, nil
	}
	lost, err := b.nameOf(ctx, e.Record)
	if errors.Is(err, errNotOurs) {
		return g, nil
	}
	g.Seen.Own = lost
	return g, err
}

// elsewhereCalls store what others have done to the payment of a movement.
func elsewhereCalls(newID func() (uuid.UUID, error), m *movement, step judge.Step) []postgres.Call {
	r, p := *step.Elsewhere(), *m.payment
	lock := dbsqlc.LockPaymentParams{TenantID: p.Tenant, ID: uuid.UUID(p.ID)}
	return tallied(lock, func(ctx context.Context, q postgres.Statement) error {
		if r.Object == gateway.DisputeObject {
			return dbsqlc.New(q).RecordDispute(ctx, dbsqlc.RecordDisputeParams{
				TenantID: lock.TenantID, PaymentID: lock.ID, PspID: r.ID, AmountMinor: r.AmountMinor,
				Currency: r.Currency, Reason: postgres.Nullable(r.Dispute.Reason), Status: string(r.Dispute.Status),
				EvidenceDueBy: postgres.Nullable(r.Dispute.EvidenceDueBy), OpenedAt: r.Created,
				Overrules: step.Overrules(),
			})
		}
		id, err := newID()
		if err != nil {
			return fmt.Errorf("make refund id: %w", err)
		}
		return dbsqlc.New(q).RecordRefundElsewhere(ctx, dbsqlc.RecordRefundElsewhereParams{
			TenantID: lock.TenantID, ID: id, PaymentID: lock.ID, AmountMinor: r.AmountMinor, Currency: r.Currency,
			Status: string(judge.RefundStatus(r)), PspRefundID: r.ID, DeclineCode: postgres.Nullable(r.DeclineCode),
			CreatedAt: r.Created, SeemsOfOthers: m.refund == nil,
		})
	})
}

// reversalCalls store that the money of a refund of ours has come back.
func reversalCalls(m *movement, v payment.Verdict) []postgres.Call {
	lock := dbsqlc.LockPaymentParams{TenantID: m.merchant.Tenant, ID: uuid.UUID(m.payment.ID)}
	return tallied(lock, func(ctx context.Context, q postgres.Statement) error {
		return dbsqlc.New(q).ReverseRefund(ctx, dbsqlc.ReverseRefundParams{TenantID: lock.TenantID, ID: m.subject(),
			PspRefundID: v.PSPID, DeclineCode: postgres.Nullable(v.Code)})
	})
}

// tallied locks a payment before what moves its money is written, and updates the payment's totals afterwards.
func tallied(p dbsqlc.LockPaymentParams, write postgres.Call) []postgres.Call {
	lock := func(ctx context.Context, q postgres.Statement) error { return dbsqlc.New(q).LockPayment(ctx, p) }
	tally := func(ctx context.Context, q postgres.Statement) error {
		return dbsqlc.New(q).TallyRefunds(ctx, dbsqlc.TallyRefundsParams{TenantID: p.TenantID, PaymentID: p.ID})
	}
	return []postgres.Call{lock, write, tally}
}
