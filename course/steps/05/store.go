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

// The states of a key; in_progress is the first.
const (
	unknown         = "unknown"
	failedRetryable = "failed_retryable"
	completed       = "completed"
)

// row is what is known about a key.
type row struct {
	payment
	fingerprint []byte
	status      string
	answer      answer
}

// find reads a key. If there is none, the error is pgx.ErrNoRows. A key that is in_progress beyond its lease is
// unknown: nobody can tell how far its owner has come.
func (s store) find(ctx context.Context, tenant, key string) (row, error) {
	r := row{answer: answer{replayed: true}}
	err := s.QueryRow(ctx, `
		SELECT id, attempt, fingerprint, coalesce(response_status, 0), response,
			CASE WHEN status = 'in_progress' AND locked_until <= clock_timestamp() THEN 'unknown' ELSE status END
		FROM payments WHERE tenant = $1 AND key = $2`, tenant, key).
		Scan(&r.ID, &r.attempt, &r.fingerprint, &r.answer.status, &r.answer.body, &r.status)
	return r, err
}

// reserve takes the right to execute p for the time of a lease: none → in_progress. It returns false if the key is
// there already. Of any number of requests at once, the database lets one insert the row.
func (s store) reserve(ctx context.Context, p payment, lease time.Duration) (bool, error) {
	return s.changes(ctx, `
		INSERT INTO payments (id, tenant, key, customer_id, amount_cents, currency, payment_method, fingerprint, status,
			locked_until)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'in_progress', clock_timestamp() + $9::interval)
		ON CONFLICT (tenant, key) DO NOTHING`,
		p.ID, p.tenant, p.key, p.CustomerID, p.AmountCents, p.Currency, p.PaymentMethod, p.fingerprint(), lease)
}

// retake takes that right again: unknown, failed_retryable → in_progress. Of several requests, one gets it. The new
// attempt number takes the right away from all that had it before.
func (s store) retake(ctx context.Context, p payment, lease time.Duration) (bool, error) {
	return s.changes(ctx, `
		UPDATE payments SET status = 'in_progress', attempt = attempt + 1, locked_until = clock_timestamp() + $2::interval
		WHERE id = $1 AND attempt = $3 AND (status IN ('unknown', 'failed_retryable')
			OR status = 'in_progress' AND locked_until <= clock_timestamp())`, p.ID, lease, p.attempt)
}

// apply stores what has become of an attempt: → completed, unknown, failed_retryable. Only completed has a charge and
// an answer. It returns false if the lease is lost: there is another attempt, or the key is completed.
func (s store) apply(ctx context.Context, p payment, status string, c charge, a answer) (held bool, err error) {
	return s.changes(ctx, `
		UPDATE payments SET status = $2, response_status = nullif($3, 0), response = $4, psp_charge_id = nullif($5, '')
		WHERE id = $1 AND attempt = $6 AND status <> 'completed'`, p.ID, status, a.status, a.body, c.ID, p.attempt)
}
