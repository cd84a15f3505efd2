package payments

import (
	"context"
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

// locksOthers: the payment's row is another key's, and two refunds of it would lock it out of turn.
func (g *giveback) locksOthers() bool { return true }

func (g *giveback) queueBegin(b *pgx.Batch, claim idempotency.Claim) {
	g.refund = nil
	g.queueLock(b, claim.Ref, claim.LeaseID)
	var amount *int64
	if g.wanted.AmountCents != 0 {
		a := int64(g.wanted.AmountCents)
		amount = &a
	}
	q := postgres.On(b)
	_, _ = dbsqlc.New(q).BeginRefund(context.Background(), dbsqlc.BeginRefundParams{
		ID: claim.Subject, PaymentID: uuid.UUID(g.payment.ID), TenantID: claim.Ref.Tenant, Operation: string(claim.Ref.Operation),
		IdempotencyKey: claim.Ref.Key.String(), AmountMinor: amount, Reason: nullable(g.wanted.Reason), LeaseID: claim.LeaseID,
	})
	postgres.One(q, g.keep)
	g.queueTally(b)
}

func (g *giveback) queueResume(b *pgx.Batch, claim idempotency.Claim, subject uuid.UUID) {
	g.refund = nil
	g.queueLock(b, claim.Ref, claim.LeaseID)
	q := postgres.On(b)
	_, _ = dbsqlc.New(q).ResumeRefund(context.Background(), dbsqlc.ResumeRefundParams{
		ID: subject, TenantID: claim.Ref.Tenant, Operation: string(claim.Ref.Operation), Key: claim.Ref.Key.String(), LeaseID: claim.LeaseID,
	})
	postgres.One(q, g.keep)
	g.queueTally(b)
}

func (g *giveback) queueLock(b *pgx.Batch, ref idempotency.Ref, leaseID uuid.UUID) {
	_ = dbsqlc.New(postgres.On(b)).LockPayment(context.Background(), dbsqlc.LockPaymentParams{
		ID: uuid.UUID(g.payment.ID), TenantID: ref.Tenant,
		Operation: string(ref.Operation), Key: ref.Key.String(), LeaseID: leaseID,
	})
}

func (g *giveback) queueTally(b *pgx.Batch) {
	_ = dbsqlc.New(postgres.On(b)).TallyRefunds(context.Background(), dbsqlc.TallyRefundsParams{
		TenantID: g.payment.Tenant, PaymentID: uuid.UUID(g.payment.ID),
	})
}

func (g *giveback) keep(row *dbsqlc.Refund) error {
	if row != nil {
		r := refundOf(*row)
		g.refund = &r
	}
	return nil
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

func (g *giveback) queueName(b *pgx.Batch, pspID string) {
	_ = dbsqlc.New(postgres.On(b)).NameRefund(context.Background(), dbsqlc.NameRefundParams{
		TenantID: g.payment.Tenant, ID: uuid.UUID(g.refund.ID), PspRefundID: nullable(pspID),
	})
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

func (g *giveback) queueSettle(b *pgx.Batch, e idempotency.Execution, v verdict, to idempotency.Status, rows *int64) {
	g.queueLock(b, e.Ref, e.LeaseID)
	q := postgres.On(b)
	_, _ = dbsqlc.New(q).SettleRefund(context.Background(), dbsqlc.SettleRefundParams{
		ID: e.Subject, Status: string(v.status), PspRefundID: nullable(v.pspID), DeclineCode: nullable(v.code),
		TenantID: e.Ref.Tenant, Operation: string(e.Ref.Operation), Key: e.Ref.Key.String(),
		Generation: e.Generation, Attempt: e.Attempt, KeyStatus: string(to),
	})
	postgres.Affected(q, func(n int64) error {
		*rows = n
		return nil
	})
	g.queueTally(b)
}
