package payments

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
	"payonce/internal/payments/internal/dbsqlc"
	"payonce/internal/postgres"
)

// A transactional outbox: what a step changes is told by an event, which is a row that the step's transaction writes.
// Package events delivers it. Of the events, nothing here is sent, and nothing is decided.

// subject is what an event is about.
type subject struct {
	tenant  string
	payment uuid.UUID
	object  gateway.Object
	refund  uuid.UUID // zero for a refund of others
	pspID   string    // of a dispute, or of a refund of others
}

// subjectOf is about a payment, or, unless the id is zero, about a refund of it.
func subjectOf(tenant string, paymentID, refundID uuid.UUID) subject {
	about := subject{tenant: tenant, payment: paymentID, object: gateway.ChargeObject, refund: refundID}
	if refundID != (uuid.UUID{}) {
		about.object = gateway.RefundObject
	}
	return about
}

// writeEvents is the call that writes the events, if their tenants want them.
func writeEvents(subjects ...subject) postgres.Call {
	var p dbsqlc.WriteEventsParams
	for _, e := range subjects {
		p.TenantIds = append(p.TenantIds, e.tenant)
		p.PaymentIds = append(p.PaymentIds, e.payment)
		p.Objects = append(p.Objects, string(e.object))
		p.RefundIds = append(p.RefundIds, e.refund)
		p.PspIds = append(p.PspIds, e.pspID)
	}
	return func(ctx context.Context, q postgres.Statement) error { return dbsqlc.New(q).WriteEvents(ctx, p) }
}

// tells reports whether an event follows the step. On the path of a payment, the API key says whether the tenant wants
// events, as it was read some seconds ago. If that was too old, the key's statement refuses the step. It is tried again
// alone, and then the database decides, as it does for all other steps.
func (m sentStep) tells() bool {
	return m.gathered.movement != nil && (m.gathered.movement.merchant.Tells || m.gathered.alone || !m.step.ByOwner())
}

// tellsWithRow reports whether the statement that writes the payment's row writes the event, too: on the path of a
// payment, each statement counts.
func (m sentStep) tellsWithRow() bool { return m.tells() && m.step.ByOwner() && !m.alone() }

// eventsOf are the calls that tell of steps that do not tell with their rows.
func eventsOf(members []sentStep) []postgres.Call {
	var subjects []subject
	for _, m := range members {
		if !m.tells() || m.tellsWithRow() {
			continue
		}
		if about, changes := m.subject(); changes {
			subjects = append(subjects, about)
		}
	}
	if len(subjects) == 0 {
		return nil
	}
	first, own, calls := members[0].step, subjects[0], []postgres.Call{writeEvents(subjects...)}
	if first.To() == idempotency.UnknownStatus || first.AskAgain() != nil {
		return tellLost(own)
	}
	if v := first.Verdict(); v.Status == payment.Declined && v.PSPID != "" && own.refund != (uuid.UUID{}) {
		calls = append(calls, writeEvents(subject{own.tenant, own.payment, gateway.RefundObject, uuid.UUID{}, v.PSPID}))
	}
	return calls // The second one is of what seemed to be a refund of others, and has ended with ours.
}

// subject is what the step changes.
func (m sentStep) subject() (about subject, changes bool) {
	own, step := m.gathered.movement, m.step
	about = own.told(own.subject())
	if r := step.Elsewhere(); step.To() == "" && r != nil {
		about.object, about.refund, about.pspID = r.Object, uuid.UUID{}, r.ID
		return about, true
	}
	// A sweep that has found the payment locked did not tell that the outcome is unknown. The first lookup that does
	// not find out either tells, unless it is told. Later ones need not wait for the payment's lock.
	again := step.AskAgain()
	mayBeUntold := again != nil && again.Failures <= 1 && own.merchant.Tells
	return about, mayBeUntold || step.To() != "" || step.Named() != "" || step.Reversal() != nil
}

// told is about a row of the movement's kind: its own, or that of the key under which it is asked for. Such a movement
// may have no row of its own: it has found the key of an earlier one.
func (m *movement) told(row uuid.UUID) subject {
	if m.isRefund() {
		return subjectOf(m.merchant.Tenant, uuid.UUID(m.payment.ID), row)
	}
	return subjectOf(m.merchant.Tenant, row, uuid.UUID{})
}

// tellLost are the calls that tell that a key has become unknown, which writes nothing to the payment's row.
func tellLost(about subject) []postgres.Call {
	lock := func(ctx context.Context, q postgres.Statement) error {
		return dbsqlc.New(q).LockPayment(ctx, dbsqlc.LockPaymentParams{TenantID: about.tenant, ID: about.payment})
	}
	return []postgres.Call{lock, writeEvents(about)}
}

// TellLostTx tells, in the caller's transaction, that these keys have become unknown. It goes from tenant to tenant, as
// the sweep does: the rows of two tenants may lie on two servers, and are not locked by one statement there.
func TellLostTx(ctx context.Context, tx pgx.Tx, lost []idempotency.Due) error {
	if len(lost) == 0 {
		return nil
	}
	var p dbsqlc.LockLostParams
	for tenant := lost[0].Ref.Tenant; len(lost) > 0 && lost[0].Ref.Tenant == tenant; lost = lost[1:] {
		p.TenantIds = append(p.TenantIds, tenant)
		p.Refunds = append(p.Refunds, lost[0].Ref.Operation == payment.RefundOperation)
		p.Subjects = append(p.Subjects, lost[0].Subject)
	}
	var calls []postgres.Call
	err := postgres.PipelineTx(ctx, tx, func(ctx context.Context, q postgres.Statement) error {
		rows, err := dbsqlc.New(q).LockLost(ctx, p)
		for _, row := range rows { // Only events of statements of their own have different versions.
			calls = append(calls, writeEvents(subjectOf(row.TenantID, row.ID, row.RefundID)))
		}
		return err
	})
	if err == nil && len(calls) > 0 {
		err = postgres.PipelineTx(ctx, tx, calls...)
	}
	if err != nil {
		return fmt.Errorf("tell of what is lost: %w", err)
	}
	return TellLostTx(ctx, tx, lost)
}
