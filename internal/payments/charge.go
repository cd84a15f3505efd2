package payments

import (
	"context"
	"errors"
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
	metadata []byte // the request's metadata as JSON, or nil
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

func (c *charge) begin(reservation idempotency.Reservation) []postgres.Call {
	c.payment = nil
	var begun []*Payment
	begin := c.service.beginPayments([]chargeReservation{{reservation: reservation, charge: c}}, &begun)
	return []postgres.Call{func(ctx context.Context, q postgres.Statement) error {
		err := begin(ctx, q)
		if err == nil {
			c.payment = begun[0]
		}
		return err
	}}
}

func (c *charge) resume(reservation idempotency.Reservation, subject uuid.UUID) []postgres.Call {
	c.payment = nil
	return []postgres.Call{func(ctx context.Context, q postgres.Statement) error {
		row, err := dbsqlc.New(q).ResumePayment(ctx, dbsqlc.ResumePaymentParams{
			ID: subject, TenantID: reservation.Ref.Tenant, Operation: string(reservation.Ref.Operation),
			Key: reservation.Ref.Key.String(), LeaseID: reservation.LeaseID,
		})
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		p, err := paymentOf(row)
		c.payment = &p
		return err
	}}
}

func (c *charge) load(ctx context.Context, subject uuid.UUID) error {
	p, err := c.service.readPayment(ctx, c.merchant.Tenant, PaymentID(subject), c.service.readDurably)
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

func (c *charge) domainError(error) error { return nil }

func (c *charge) prepare(ctx context.Context, own idempotency.Execution) (string, gateway.Outcome) {
	return c.service.psps.Of(c.merchant.PSP).Prepare(ctx, c.request(own))
}

func (c *charge) prepared(objectID string) { c.payment.pspObjectID = objectID }

func (c *charge) send(ctx context.Context, own idempotency.Execution) gateway.Outcome {
	return c.service.psps.Of(c.merchant.PSP).Charge(ctx, c.request(own))
}

// request is the request to the PSP.
func (c *charge) request(own idempotency.Execution) gateway.Charge {
	return gateway.Charge{
		Account: c.merchant.PSPAccount, Key: own.PassThroughKey(), Attempt: own.Attempt,
		TwoSteps: c.service.psps.Of(c.merchant.PSP).Traits().TwoSteps,
		ObjectID: c.payment.pspObjectID, Reference: c.payment.ID.String(),
		AmountMinor: int64(c.payment.Amount), Currency: string(c.payment.Currency),
		PaymentMethod: c.payment.PaymentMethod,
	}
}

func (c *charge) object() gateway.Object { return gateway.ChargeObject }

func (c *charge) terms() (AmountMinor, Currency) { return c.payment.Amount, c.payment.Currency }

func (c *charge) asked(own idempotency.Execution) gateway.Request { return c.request(own) }

func (c *charge) subject() uuid.UUID { return uuid.UUID(c.payment.ID) }

func (c *charge) paid() Payment { return *c.payment }

func (c *charge) rowVerdict() verdict {
	return verdict{status: c.payment.Status, pspID: c.payment.PSPChargeID, code: c.payment.DeclineCode}
}

func (c *charge) conclude(v verdict) (Resource, idempotency.Response, error) {
	p := *c.payment
	p.Status, p.PSPChargeID, p.DeclineCode = v.status, v.pspID, v.code
	p.outside = 0 // all who complete the key store the same bytes
	if v.status == Declined {
		d := problem.New(c.service.publicURL, problem.PaymentDeclined, "The PSP declined the payment: "+v.code+".",
			p.Location())
		d.PaymentID, d.DeclineCode = p.ID.String(), v.code
		return p, refused(p, d), nil
	}
	r, err := created(p)
	return p, r, err
}

func (c *charge) updateRow(o rowUpdate, written *bool) []postgres.Call {
	var all []bool
	record := c.service.recordPayments([]rowUpdate{o}, &all)
	return []postgres.Call{func(ctx context.Context, q postgres.Statement) error {
		err := record(ctx, q)
		*written = err == nil && all[0]
		return err
	}}
}
