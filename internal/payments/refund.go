package payments

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/internal/payments/internal/dbsqlc"
	"payonce/internal/postgres"
)

// Refund gives back a part of a payment, once for each key. If it fails with an InvalidError, ErrPaymentNotFound,
// ErrPaymentNotRefundable or ErrRefundExceedsPayment, the key is not consumed.
func (s *Service) Refund(ctx context.Context, k Keyed, id payment.ID, r payment.RefundRequest) (Answer, error) {
	p, err := rowToTell(ctx, &s.Books, k.Merchant.Tenant, id) // A refusal tells of the payment.
	if err != nil {
		return nil, err
	}
	bad := r.Validate()
	if bad == nil && r.AmountCents != 0 {
		bad = s.unacceptable(k.Merchant,
			gateway.Refund{AmountMinor: int64(r.AmountCents), Currency: string(p.Currency)})
	}
	fingerprint, err := idempotency.FingerprintOf(http.MethodPost, "/payments/"+id.String()+"/refunds", r)
	if err != nil {
		return nil, fmt.Errorf("fingerprint request: %w", err)
	}
	ref := idempotency.Ref{Tenant: k.Merchant.Tenant, Operation: payment.RefundOperation, Key: k.Key}
	asked, silent := idempotency.Reservation{Ref: ref, Fingerprint: fingerprint}, false
	if bad == nil && p.VouchedFor() {
		if p, silent, err = s.shownCharge(ctx, k.Merchant, p); err != nil {
			return nil, err
		}
	}
	m := newRefund(s.psps.Of(k.Merchant.PSP), k.Merchant, p, r)
	// Succeeded and the PSP's id are final, so these checks never refuse the replay of a completed refund.
	switch {
	case bad != nil:
		return s.refuse(ctx, asked, m, &InvalidError{bad})
	case silent:
		return s.refuse(ctx, asked, m, nil)
	case p.Status != payment.Succeeded || p.VouchedFor():
		return s.refuse(ctx, asked, m, ErrPaymentNotRefundable)
	}
	return s.execute(ctx, ref, fingerprint, k.Subject, m)
}

// shownCharge asks the PSP for the charge of a payment that an operator has vouched for: by the id that the operator
// has named, then by the key. No money is returned from a charge before a record of the PSP has shown that it is this
// payment's: its account, key, reference, amount and currency. The payment then takes the record's id, so the PSP is
// asked once. Without such a record, the payment is as it was. silent: the PSP does not answer. That it has nothing
// under the named id is an answer. It is not asked by a dead letter's id, which nobody has named.
func (s *Service) shownCharge(
	ctx context.Context, m payment.Merchant, p payment.Payment,
) (_ payment.Payment, silent bool, err error) {
	own, err := executionBy(ctx, dbsqlc.New(s.db.Reader()), m.PSPAccount, uuid.UUID(p.ID), gateway.ChargeObject)
	if err != nil {
		return p, false, fmt.Errorf("find charge: %w", err)
	}
	c := movement{merchant: m, psp: s.psps.Of(m.PSP), payment: &p}
	wanted := c.chargeRequest(own)
	questions, byID := []gateway.Charge{wanted}, wanted
	byID.ObjectID = strings.TrimPrefix(p.PSPChargeID, payment.OperatorPSPID)
	if uuid.Validate(byID.ObjectID) != nil {
		questions = []gateway.Charge{byID, wanted}
	}
	for _, asked := range questions {
		answer := c.psp.Lookup(ctx, asked, gateway.EndNothing)
		if f, failed := answer.(gateway.LookupFailed); failed && !f.Missing {
			silent = true
		}
		found, _ := answer.(gateway.Found)
		for _, r := range found.Records {
			if _, shown := wanted.Judge(r).(gateway.Succeeded); !shown {
				continue
			}
			if _, err = s.ApplyRecord(ctx, judge.Record{Source: judge.SourceLookup, PSP: m.PSP,
				Record: r}); err == nil {
				p, err = s.Payment(ctx, m.Tenant, p.ID)
			}
			return p, false, err
		}
	}
	return p, silent, nil
}

// A refund locks the row of its payment before it writes its own row. So the totals in the payment's row always match
// its refunds.

func beginRefund(r reservation, out *reserved) []postgres.Call {
	wanted := r.movement.wantedRefund
	var amount *int64
	if wanted.AmountCents != 0 {
		a := int64(wanted.AmountCents)
		amount = &a
	}
	return writeRefund(r, out, func(ctx context.Context, q *dbsqlc.Queries) (dbsqlc.Refund, error) {
		return q.BeginRefund(ctx, dbsqlc.BeginRefundParams{
			ID: r.Subject, PaymentID: uuid.UUID(r.movement.payment.ID), IdempotencyKey: r.Ref.Key.String(),
			AmountMinor: amount, Reason: postgres.Nullable(wanted.Reason), TenantID: r.Ref.Tenant,
			Operation: string(r.Ref.Operation), LeaseID: r.LeaseID,
		})
	})
}

// resumeRefund brings a failed refund back to processing.
func resumeRefund(r reservation, out *reserved) []postgres.Call {
	return writeRefund(r, out, func(ctx context.Context, q *dbsqlc.Queries) (dbsqlc.Refund, error) {
		return q.ResumeRefund(ctx, dbsqlc.ResumeRefundParams(r.resumes()))
	})
}

// writeRefund writes the refund's row, between the lock of the payment and the update of its totals.
func writeRefund(
	r reservation, out *reserved, write func(context.Context, *dbsqlc.Queries) (dbsqlc.Refund, error),
) []postgres.Call {
	return r.movement.locked(r.Ref, r.LeaseID, func(ctx context.Context, q postgres.Statement) error {
		row, err := write(ctx, dbsqlc.New(q))
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		out.movement = r.movement.withRefund(refundOf(row))
		return nil
	})
}

// locked is tallied for the owner of a lease.
func (m *movement) locked(ref idempotency.Ref, leaseID uuid.UUID, write postgres.Call) []postgres.Call {
	return tallied(dbsqlc.LockPaymentParams{
		ID: uuid.UUID(m.payment.ID), TenantID: ref.Tenant, Operation: string(ref.Operation), Key: ref.Key.String(),
		LeaseID: &leaseID,
	}, write)
}

// recordRefund writes a verdict to a refund.
func (m *movement) recordRefund(u rowUpdate, out *written) []postgres.Call {
	return m.locked(u.key.Ref, u.key.LeaseID, func(ctx context.Context, q postgres.Statement) error {
		rows, err := dbsqlc.New(q).RecordRefund(ctx, dbsqlc.RecordRefundParams{
			ID: u.key.Subject, Status: string(u.verdict.Status), PspRefundID: postgres.Nullable(u.verdict.PSPID),
			DeclineCode: postgres.Nullable(u.verdict.Code),
			TenantID:    u.key.Ref.Tenant, Operation: string(u.key.Ref.Operation), Key: u.key.Ref.Key.String(),
			Generation: u.key.Generation, Attempt: u.key.Attempt, KeyStatus: string(u.to),
		})
		out.row = rows == 1
		return err
	})
}
