package main

import (
	"context"
	_ "embed"
	"time"

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

// completed is the state of a key that has its answer. Before that it is in_progress.
const completed = "completed"

// row is what is known about a key.
type row struct {
	payment
	fingerprint []byte
	status      string
	answer      answer
}

// find reads a key. If there is none, the error is pgx.ErrNoRows.
func (s store) find(ctx context.Context, tenant, key string) (row, error) {
	r := row{answer: answer{replayed: true}}
	err := s.QueryRow(ctx, `
		SELECT id, fingerprint, coalesce(response_status, 0), response, status
		FROM payments WHERE tenant = $1 AND key = $2`, tenant, key).
		Scan(&r.ID, &r.fingerprint, &r.answer.status, &r.answer.body, &r.status)
	return r, err
}

// reserve takes the right to execute p: none → in_progress. It returns false if the key is there already. Of any
// number of requests at once, the database lets one insert the row.
func (s store) reserve(ctx context.Context, p payment) (bool, error) {
	return s.changes(ctx, `
		INSERT INTO payments (id, tenant, key, customer_id, amount_cents, currency, payment_method, fingerprint, status)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'in_progress') ON CONFLICT (tenant, key) DO NOTHING`,
		p.ID, p.tenant, p.key, p.CustomerID, p.AmountCents, p.Currency, p.PaymentMethod, p.fingerprint())
}

// complete stores the outcome and the answer: in_progress → completed.
func (s store) complete(ctx context.Context, p payment, c charge, a answer) error {
	_, err := s.changes(ctx, `
		UPDATE payments SET status = 'completed', response_status = $2, response = $3, psp_charge_id = $4
		WHERE id = $1`, p.ID, a.status, a.body, c.ID)
	return err
}

// release gives the key back: in_progress → none.
func (s store) release(ctx context.Context, p payment) error {
	_, err := s.changes(ctx, `DELETE FROM payments WHERE id = $1`, p.ID)
	return err
}
