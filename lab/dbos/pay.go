package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/google/uuid"
)

// errNoRow: what reserve wrote is gone. The charge is made by then, so this must not pass for a success.
var errNoRow = errors.New("the reserved payment is gone")

// order is the workflow's input. DBOS records it with the workflow, so what must not change when the workflow runs
// again after a crash (the id, the time) is in it and not drawn inside.
type order struct {
	Key         string
	PaymentID   uuid.UUID
	CustomerID  string
	AmountCents int64
	Currency    string
	CreatedAt   time.Time
}

// payment is the workflow's result and the body of the answer.
type payment struct {
	PaymentID   string `json:"paymentId"`
	Status      string `json:"status"`
	CustomerID  string `json:"customerId"`
	AmountCents int64  `json:"amountCents"`
	Currency    string `json:"currency"`
	PSPChargeID string `json:"pspChargeId"`
	CreatedAt   string `json:"createdAt"`
}

// pay is the workflow. After a crash it starts from the top and skips the steps that have a checkpoint.
func (p *peer) pay(ctx dbos.Context, o order) (payment, error) {
	if err := p.reserve(ctx, o); err != nil {
		return payment{}, err
	}
	// Crash window: charged, but no checkpoint yet. The charge is then sent twice, and the PSP must know the key.
	charge, err := dbos.RunAsStep(ctx, func(ctx context.Context) (string, error) { return p.charge(ctx, o) },
		dbos.WithStepName("charge"))
	if err != nil {
		return payment{}, fmt.Errorf("charge: %w", err)
	}
	return p.complete(ctx, o, charge)
}

func (p *peer) reserve(ctx dbos.Context, o order) error {
	// A plain step may run twice, so it says DO NOTHING. A transaction never runs twice.
	_, err := p.write(ctx, "reserve", `INSERT INTO lab_dbos.payments
		(payment_id, idempotency_key, customer_id, amount_cents, currency, status, created_at)
		VALUES ($1, $2, $3, $4, $5, 'processing', $6) ON CONFLICT (payment_id) DO NOTHING`,
		o.PaymentID, o.Key, o.CustomerID, o.AmountCents, o.Currency, o.CreatedAt)
	if err != nil {
		return fmt.Errorf("reserve: %w", err)
	}
	return nil
}

// charge is the PSP. It dedups by key in the cheapest way there is: the same key has the same charge id.
func (p *peer) charge(ctx context.Context, o order) (string, error) {
	if p.pspDelay > 0 {
		select {
		case <-time.After(p.pspDelay):
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	sum := sha256.Sum256([]byte(o.Key))
	return "ch_" + hex.EncodeToString(sum[:12]), nil
}

func (p *peer) complete(ctx dbos.Context, o order, charge string) (payment, error) {
	// Not "AND status = 'processing'": a plain step that runs twice must find its row again.
	rows, err := p.write(ctx, "complete", `UPDATE lab_dbos.payments SET status = 'succeeded', psp_charge_id = $2, completed_at = now()
		WHERE payment_id = $1`, o.PaymentID, charge)
	if err == nil && rows != 1 {
		err = errNoRow
	}
	if err != nil {
		return payment{}, fmt.Errorf("complete: %w", err)
	}
	return payment{
		PaymentID: "pay_" + o.PaymentID.String(), Status: "succeeded", CustomerID: o.CustomerID,
		AmountCents: o.AmountCents,
		Currency:    o.Currency, PSPChargeID: charge, CreatedAt: o.CreatedAt.UTC().Format(time.RFC3339Nano),
	}, nil
}

// write is one statement as a durable step: with its checkpoint in one commit, or before it.
func (p *peer) write(ctx dbos.Context, name, sql string, args ...any) (int64, error) {
	if p.plain {
		return dbos.RunAsStep(ctx, func(ctx context.Context) (int64, error) {
			tag, err := p.pool.Exec(ctx, sql, args...)
			return tag.RowsAffected(), err
		}, dbos.WithStepName(name))
	}
	return dbos.RunAsTransaction(ctx, p.source, func(ctx context.Context, tx dbos.Tx) (int64, error) {
		result, err := tx.Exec(ctx, sql, args...)
		if err != nil {
			return 0, err
		}
		return result.RowsAffected()
	}, dbos.WithStepName(name))
}
