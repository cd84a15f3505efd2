package payments

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/payments/internal/dbsqlc"
	"payonce/internal/postgres"
	"payonce/internal/problem"
)

// charge is the movement of a payment.
type charge struct {
	service  *Service
	merchant Merchant
	wanted   CreateRequest
	metadata []byte // JSON of what was asked, or nil
	payment  *Payment
}

func (s *Service) newCharge(m Merchant, r CreateRequest) (*charge, error) {
	c := &charge{service: s, merchant: m, wanted: r}
	if len(r.Metadata) > 0 {
		var err error
		if c.metadata, err = json.Marshal(r.Metadata, json.Deterministic(true)); err != nil {
			return nil, fmt.Errorf("marshal metadata: %w", err)
		}
	}
	return c, nil
}

func (c *charge) onBehalfOf() Merchant { return c.merchant }

func (c *charge) locksOthers() bool { return false }

func (c *charge) queueBegin(b *pgx.Batch, claim idempotency.Claim) {
	c.payment = nil
	q := postgres.On(b)
	_, _ = dbsqlc.New(q).BeginPayment(context.Background(), dbsqlc.BeginPaymentParams{
		ID: claim.Subject, TenantID: claim.Ref.Tenant, Operation: string(claim.Ref.Operation), IdempotencyKey: claim.Ref.Key.String(),
		CustomerID: c.wanted.CustomerID, AmountMinor: int64(c.wanted.AmountCents), Currency: string(c.wanted.Currency),
		PaymentMethod: c.wanted.PaymentMethod, Description: nullable(c.wanted.Description), Metadata: c.metadata,
		LeaseID: claim.LeaseID,
	})
	postgres.One(q, c.keep)
}

func (c *charge) queueResume(b *pgx.Batch, claim idempotency.Claim, subject uuid.UUID) {
	c.payment = nil
	q := postgres.On(b)
	_, _ = dbsqlc.New(q).ResumePayment(context.Background(), dbsqlc.ResumePaymentParams{
		ID: subject, TenantID: claim.Ref.Tenant, Operation: string(claim.Ref.Operation), Key: claim.Ref.Key.String(), LeaseID: claim.LeaseID,
	})
	postgres.One(q, c.keep)
}

func (c *charge) keep(row *dbsqlc.Payment) error {
	if row == nil {
		return nil
	}
	p, err := paymentOf(*row)
	c.payment = &p
	return err
}

func (c *charge) load(ctx context.Context, subject uuid.UUID) error {
	p, err := c.service.Payment(ctx, c.merchant.Tenant, PaymentID(subject))
	if err == nil {
		c.payment = &p
	}
	return err
}

func (c *charge) resource() Resource {
	if c.payment == nil {
		return nil
	}
	return *c.payment
}

func (c *charge) refusal(err error) error { return err }

func (c *charge) send(ctx context.Context, key string) gateway.Outcome {
	return c.service.psp.Charge(ctx, c.request(key))
}

// request is what is asked of the PSP.
func (c *charge) request(key string) gateway.Charge {
	return gateway.Charge{
		Account: c.merchant.PSPAccount, Key: key, Reference: c.payment.ID.String(),
		AmountMinor: int64(c.payment.Amount), Currency: string(c.payment.Currency), PaymentMethod: c.payment.PaymentMethod,
	}
}

func (c *charge) queueName(b *pgx.Batch, pspID string) {
	_ = dbsqlc.New(postgres.On(b)).NamePayment(context.Background(), dbsqlc.NamePaymentParams{
		TenantID: c.payment.Tenant, ID: uuid.UUID(c.payment.ID), PspChargeID: nullable(pspID),
	})
}

func (c *charge) object() gateway.Object { return gateway.ChargeObject }

func (c *charge) terms() (AmountMinor, Currency) { return c.payment.Amount, c.payment.Currency }

func (c *charge) asked(key string) Asked { return c.request(key) }

func (c *charge) subject() uuid.UUID { return uuid.UUID(c.payment.ID) }

func (c *charge) standing() verdict {
	return verdict{status: c.payment.Status, pspID: c.payment.PSPChargeID, code: c.payment.DeclineCode}
}

func (c *charge) conclude(v verdict) (Resource, idempotency.Response, error) {
	p := *c.payment
	p.Status, p.PSPChargeID, p.DeclineCode = v.status, v.pspID, v.code
	if v.status == Refused {
		d := problem.New(c.service.publicURL, problem.PaymentDeclined, "The PSP declined the payment: "+v.code+".", p.Location())
		d.PaymentID, d.DeclineCode = p.ID.String(), v.code
		return p, refused(p, d), nil
	}
	r, err := created(p)
	return p, r, err
}

func (c *charge) queueSettle(b *pgx.Batch, e idempotency.Execution, v verdict, to idempotency.Status, rows *int64) {
	q := postgres.On(b)
	_, _ = dbsqlc.New(q).SettlePayment(context.Background(), dbsqlc.SettlePaymentParams{
		ID: e.Subject, Status: string(v.status), PspChargeID: nullable(v.pspID), DeclineCode: nullable(v.code),
		TenantID: e.Ref.Tenant, Operation: string(e.Ref.Operation), Key: e.Ref.Key.String(),
		Generation: e.Generation, Attempt: e.Attempt, KeyStatus: string(to),
	})
	postgres.Affected(q, func(n int64) error {
		*rows = n
		return nil
	})
}
