package main

import (
	"context"
	_ "embed"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// All SQL. Each function is one statement, and so one transaction: all of it happens, or nothing.

//go:embed schema.sql
var schema string

// storeTimeout bounds what is written after the PSP was asked.
const storeTimeout = 2 * time.Second

type store struct{ *pgxpool.Pool }

func openStore(ctx context.Context, url string) (store, error) {
	pool, err := pgxpool.New(ctx, url)
	if err == nil {
		_, err = pool.Exec(ctx, schema)
	}
	return store{pool}, err
}

// changes executes a statement, and tells whether it has changed a row.
func (s store) changes(ctx context.Context, sql string, args ...any) (bool, error) {
	tag, err := s.Exec(ctx, sql, args...)
	return tag.RowsAffected() > 0, err
}

// find reads the answer of a key.
func (s store) find(ctx context.Context, tenant, key string) (a answer, found bool, err error) {
	a.replayed = true
	err = s.QueryRow(ctx, `SELECT response_status, response FROM payments WHERE tenant = $1 AND key = $2`, tenant, key).
		Scan(&a.status, &a.body)
	if errors.Is(err, pgx.ErrNoRows) {
		return a, false, nil
	}
	return a, true, err
}

// insert stores a payment with the answer. It returns false if the key is there already.
func (s store) insert(ctx context.Context, p payment, c charge, a answer) (bool, error) {
	return s.changes(ctx, `
		INSERT INTO payments (id, tenant, key, customer_id, amount_cents, currency, payment_method,
			psp_charge_id, response_status, response)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (tenant, key) DO NOTHING`,
		p.ID, p.tenant, p.key, p.CustomerID, p.AmountCents, p.Currency, p.PaymentMethod, c.ID, a.status, a.body)
}
