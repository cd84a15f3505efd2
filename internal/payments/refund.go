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
	"payonce/internal/payments/internal/dbsqlc"
	"payonce/internal/postgres"
	"payonce/internal/problem"
)

// RefundRequest asks for money back. AmountCents zero means all that no other refund has claimed.
type RefundRequest struct {
	AmountCents AmountMinor `json:"amountCents,omitzero"`
	Reason      string      `json:"reason,omitempty"`
}

// Validate lists everything that is wrong with the request. amountGiven tells an explicit zero from no amount.
func (r *RefundRequest) Validate(amountGiven bool) []Invalid {
	var bad []Invalid
	if amountGiven {
		bad = checkAmount(r.AmountCents)
	}
	return append(bad, checkText("/reason", r.Reason, maxReason)...)
}

// Refund gives back a part of a payment, once for its key. The request must have passed Validate. It fails with ErrPaymentNotFound,
// ErrPaymentNotRefundable or ErrRefundExceedsPayment, and has not consumed the key then.
func (s *Service) Refund(ctx context.Context, k Keyed, id PaymentID, r RefundRequest) (Answer, error) {
	p, err := s.Payment(ctx, k.Merchant.Tenant, id)
	if err != nil {
		return nil, err
	}
	fingerprint, err := idempotency.FingerprintOf(http.MethodPost, "/payments/"+id.String()+"/refunds", r)
	if err != nil {
		return nil, fmt.Errorf("fingerprint request: %w", err)
	}
	ref := idempotency.Ref{Tenant: k.Merchant.Tenant, Operation: RefundOperation, Key: k.Key}
	// Succeeded is final, and so is the id, so this cannot stand between a completed refund and its replay. A payment for which an
	// operator has vouched has no charge at the PSP that could be named to it.
	if p.Status != Success || strings.HasPrefix(p.PSPChargeID, OperatorPSPID) {
		return s.notRefundable(ctx, ref, fingerprint)
	}
	subject, err := s.newID()
	if err != nil {
		return nil, fmt.Errorf("make refund id: %w", err)
	}
	return s.execute(ctx, ref, fingerprint, subject, &giveback{service: s, merchant: k.Merchant, payment: p, wanted: r})
}

// notRefundable refuses for the payment's state, unless the key stands for another request: the fingerprint is judged first.
func (s *Service) notRefundable(ctx context.Context, ref idempotency.Ref, f idempotency.Fingerprint) (Answer, error) {
	decision, err := s.keys.Peek(ctx, idempotency.Claim{Ref: ref, Fingerprint: f})
	if err != nil {
		s.metrics.StoreFailed("peek")
		return nil, err
	}
	if misuse, ok := decision.(idempotency.Misuse); ok {
		s.metrics.Reserved("key_misuse")
		return Mismatch{Expires: misuse.Expires}, nil
	}
	return nil, ErrPaymentNotRefundable
}

// giveback is the movement of a refund. The payment's row is locked before the refund's is written or settled, so that the
// payment's totals are those of its refunds.
type giveback struct {
	service  *Service
	merchant Merchant
	payment  Payment
	wanted   RefundRequest
	refund   *Refund
}

func (g *giveback) onBehalfOf() Merchant { return g.merchant }

func (g *giveback) begin(claim idempotency.Claim) []postgres.Call {
	var amount *int64
	if g.wanted.AmountCents != 0 {
		a := int64(g.wanted.AmountCents)
		amount = &a
	}
	return g.keeping(claim.Ref, claim.LeaseID, func(ctx context.Context, q *dbsqlc.Queries) (dbsqlc.Refund, error) {
		return q.BeginRefund(ctx, dbsqlc.BeginRefundParams{
			ID: claim.Subject, PaymentID: uuid.UUID(g.payment.ID),
			IdempotencyKey: claim.Ref.Key.String(), AmountMinor: amount, Reason: nullable(g.wanted.Reason),
			TenantID: claim.Ref.Tenant, Operation: string(claim.Ref.Operation), LeaseID: claim.LeaseID,
		})
	})
}

func (g *giveback) resume(claim idempotency.Claim, subject uuid.UUID) []postgres.Call {
	return g.keeping(claim.Ref, claim.LeaseID, func(ctx context.Context, q *dbsqlc.Queries) (dbsqlc.Refund, error) {
		return q.ResumeRefund(ctx, dbsqlc.ResumeRefundParams{
			ID: subject, TenantID: claim.Ref.Tenant, Operation: string(claim.Ref.Operation), Key: claim.Ref.Key.String(), LeaseID: claim.LeaseID,
		})
	})
}

// keeping writes the refund's row between the lock and the tally of its payment, and keeps the row.
func (g *giveback) keeping(
	ref idempotency.Ref, leaseID uuid.UUID, write func(context.Context, *dbsqlc.Queries) (dbsqlc.Refund, error),
) []postgres.Call {
	g.refund = nil
	return g.locked(ref, leaseID, func(ctx context.Context, q postgres.Statement) error {
		row, err := write(ctx, dbsqlc.New(q))
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		r := refundOf(row)
		g.refund = &r
		return nil
	})
}

// locked locks the payment before the refund's row is written, and brings its totals up to date afterwards.
func (g *giveback) locked(ref idempotency.Ref, leaseID uuid.UUID, write postgres.Call) []postgres.Call {
	lock := func(ctx context.Context, q postgres.Statement) error {
		return dbsqlc.New(q).LockPayment(ctx, dbsqlc.LockPaymentParams{
			ID:       uuid.UUID(g.payment.ID),
			TenantID: ref.Tenant, Operation: string(ref.Operation), Key: ref.Key.String(), LeaseID: leaseID,
		})
	}
	tally := func(ctx context.Context, q postgres.Statement) error {
		return dbsqlc.New(q).TallyRefunds(ctx, dbsqlc.TallyRefundsParams{TenantID: g.payment.Tenant, PaymentID: uuid.UUID(g.payment.ID)})
	}
	return []postgres.Call{lock, write, tally}
}

func (g *giveback) load(ctx context.Context, subject uuid.UUID) error {
	r, err := g.service.RefundByID(ctx, g.merchant.Tenant, RefundID(subject))
	if err == nil {
		g.refund = &r
	}
	return err
}

func (g *giveback) resource() Resource {
	if g.refund == nil {
		return nil
	}
	return *g.refund
}

func (g *giveback) refusal(err error) error {
	if postgres.Violates(err, "payments_refunds_within_amount") || postgres.Violates(err, "refunds_amount_positive") {
		return ErrRefundExceedsPayment
	}
	return err
}

func (g *giveback) send(ctx context.Context, key string) gateway.Outcome {
	return g.service.psp.Refund(ctx, g.request(key))
}

// request is what is asked of the PSP.
func (g *giveback) request(key string) gateway.Refund {
	return gateway.Refund{
		Account: g.merchant.PSPAccount, Key: key, Reference: g.refund.ID.String(), ChargeID: g.payment.PSPChargeID,
		AmountMinor: int64(g.refund.Amount), Currency: string(g.refund.Currency), Reason: g.refund.Reason,
	}
}

func (g *giveback) name(pspID string) postgres.Call {
	return func(ctx context.Context, q postgres.Statement) error {
		return dbsqlc.New(q).NameRefund(ctx, dbsqlc.NameRefundParams{TenantID: g.payment.Tenant, ID: uuid.UUID(g.refund.ID), PspRefundID: nullable(pspID)})
	}
}

func (g *giveback) object() gateway.Object { return gateway.RefundObject }

func (g *giveback) terms() (AmountMinor, Currency) { return g.refund.Amount, g.refund.Currency }

func (g *giveback) asked(key string) Asked { return g.request(key) }

func (g *giveback) subject() uuid.UUID { return uuid.UUID(g.refund.ID) }

func (g *giveback) standing() verdict {
	return verdict{status: g.refund.Status, pspID: g.refund.PSPRefundID, code: g.refund.DeclineCode}
}

func (g *giveback) conclude(v verdict) (Resource, idempotency.Response, error) {
	r := *g.refund
	r.Status, r.PSPRefundID, r.DeclineCode = v.status, v.pspID, v.code
	if v.status == Refused {
		d := problem.New(g.service.publicURL, problem.RefundDeclined, "The PSP declined the refund: "+v.code+".", r.Location())
		d.PaymentID, d.RefundID, d.DeclineCode = r.PaymentID.String(), r.ID.String(), v.code
		return r, refused(r, d), nil
	}
	response, err := created(r)
	return r, response, err
}

func (g *giveback) record(o outcome, written *bool) []postgres.Call {
	return g.locked(o.own.Ref, o.own.LeaseID, func(ctx context.Context, q postgres.Statement) error {
		rows, err := dbsqlc.New(q).RecordRefund(ctx, dbsqlc.RecordRefundParams{
			ID: o.own.Subject, Status: string(o.verdict.status), PspRefundID: nullable(o.verdict.pspID), DeclineCode: nullable(o.verdict.code),
			TenantID: o.own.Ref.Tenant, Operation: string(o.own.Ref.Operation), Key: o.own.Ref.Key.String(),
			Generation: o.own.Generation, Attempt: o.own.Attempt, KeyStatus: string(o.to),
		})
		*written = rows == 1
		return err
	})
}
