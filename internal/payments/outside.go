package payments

import (
	"cmp"
	"context"
	"errors"

	"github.com/google/uuid"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/internal/payments/internal/dbsqlc"
	"payonce/internal/postgres"
)

// Others change our payments at the PSP, too: a refund in its dashboard, a dispute, a debit that the bank takes back.
// Such a record is ours by the charge that it changes. An operator has the case. Whatever the operator decides, what
// has moved is stored on the payment, and bounds its refunds.

// executionChangedBy finds what a record changes. It does not matter who has made it. It is a refund of ours if that
// has the record's id, and otherwise the payment whose charge it changes.
func (b *Books) executionChangedBy(ctx context.Context, r gateway.Record) (idempotency.Execution, error) {
	if r.ChargeID == "" {
		return idempotency.Execution{}, errNotOurs
	}
	if r.Object == gateway.RefundObject {
		own, err := b.executionByPSPID(ctx, r.Account, r.ID, gateway.RefundObject)
		if !errors.Is(err, errNotOurs) {
			return own, err
		}
	}
	return b.executionByPSPID(ctx, r.Account, r.ChargeID, gateway.ChargeObject)
}

// executionByPSPID is executionBy with the PSP's id of the movement.
func (b *Books) executionByPSPID(
	ctx context.Context, account, id string, o gateway.Object,
) (idempotency.Execution, error) {
	rows, err := dbsqlc.New(b.db.Reader()).MovementsByPSPID(ctx,
		dbsqlc.MovementsByPSPIDParams{PspIds: []string{id}, Account: account, Object: string(o)})
	if err != nil || len(rows) == 0 {
		return idempotency.Execution{}, cmp.Or(err, errNotOurs)
	}
	return execution(rows[0].TenantID, payment.OperationOf(o), rows[0].IdempotencyKey, rows[0].ID,
		rows[0].Generation), nil
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

// outsideCalls store what others have done to the payment of a movement.
func outsideCalls(p payment.Payment, r gateway.Record) []postgres.Call {
	lock := dbsqlc.LockPaymentParams{TenantID: p.Tenant, ID: uuid.UUID(p.ID)}
	return tallied(lock, func(ctx context.Context, q postgres.Statement) error {
		return dbsqlc.New(q).RecordOutside(ctx, dbsqlc.RecordOutsideParams{
			TenantID: lock.TenantID, PaymentID: lock.ID, Object: string(r.Object), PspID: r.ID,
			AmountMinor: r.AmountMinor, Currency: r.Currency, Status: r.Status,
		})
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
