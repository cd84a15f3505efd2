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

// The states of a key.
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

// find reads a key. If there is none, the error is pgx.ErrNoRows. A key that is in_progress beyond its lease is unknown:
// nobody can tell how far its owner has come.
func (s store) find(ctx context.Context, tenant, key string) (row, error) {
	r := row{answer: answer{replayed: true}}
	err := s.QueryRow(ctx, `
		SELECT payment_id, attempt, fingerprint, coalesce(response_status, 0), response,
			CASE WHEN status = 'in_progress' AND locked_until <= clock_timestamp() THEN 'unknown' ELSE status END
		FROM keys WHERE tenant = $1 AND key = $2`, tenant, key).
		Scan(&r.ID, &r.attempt, &r.fingerprint, &r.answer.status, &r.answer.body, &r.status)
	return r, err
}

// reserve takes the right to execute p for the time of a lease: none → in_progress. It returns false if the key is there
// already. Of any number of requests at once, the database lets one insert the row.
func (s store) reserve(ctx context.Context, p payment, lease time.Duration) (bool, error) {
	tag, err := s.Exec(ctx, `
		WITH key AS (
			INSERT INTO keys (tenant, key, payment_id, fingerprint, status, locked_until)
			VALUES ($1, $2, $3, $4, 'in_progress', clock_timestamp() + $9::interval)
			ON CONFLICT DO NOTHING RETURNING payment_id
		)
		INSERT INTO payments (id, tenant, customer_id, amount_cents, currency, payment_method, status)
		SELECT payment_id, $1, $5, $6, $7, $8, 'processing' FROM key`,
		p.tenant, p.key, p.ID, p.fingerprint(), p.CustomerID, p.AmountCents, p.Currency, p.PaymentMethod, lease)
	return tag.RowsAffected() == 1, err
}

// retake takes that right once more: unknown, failed_retryable → in_progress. Of several requests, one gets it. The
// new attempt number takes the right away from all that had it before.
func (s store) retake(ctx context.Context, p payment, lease time.Duration) (bool, error) {
	tag, err := s.Exec(ctx, `
		UPDATE keys SET status = 'in_progress', attempt = attempt + 1, locked_until = clock_timestamp() + $2::interval
		WHERE payment_id = $1 AND attempt = $3 AND (status IN ('unknown', 'failed_retryable')
			OR status = 'in_progress' AND locked_until <= clock_timestamp())`, p.ID, lease, p.attempt)
	return tag.RowsAffected() == 1, err
}

// complete stores the outcome and the answer: in_progress, unknown, failed_retryable → completed. It returns
// false if the lease is lost: another attempt was begun, or the key is completed.
func (s store) complete(ctx context.Context, p payment, c charge, a answer) (bool, error) {
	tag, err := s.Exec(ctx, `
		WITH key AS (
			UPDATE keys SET status = 'completed', response_status = $2, response = $3
			WHERE payment_id = $1 AND attempt = $6 AND status <> 'completed'
			RETURNING payment_id
		)
		UPDATE payments SET status = $4, psp_charge_id = $5 FROM key WHERE id = payment_id`,
		p.ID, a.status, a.body, c.Status, c.ID, p.attempt)
	return tag.RowsAffected() == 1, err
}

// lose says that nobody knows the outcome: in_progress → unknown. It does nothing if the lease is lost.
func (s store) lose(ctx context.Context, p payment) error {
	_, err := s.Exec(ctx, `
		UPDATE keys SET status = 'unknown'
		WHERE payment_id = $1 AND attempt = $2 AND status = 'in_progress'`, p.ID, p.attempt)
	return err
}

// release gives the key back, proven not executed: in_progress, unknown → failed_retryable. It does nothing if the
// lease is lost.
func (s store) release(ctx context.Context, p payment) error {
	_, err := s.Exec(ctx, `
		UPDATE keys SET status = 'failed_retryable'
		WHERE payment_id = $1 AND attempt = $2 AND status <> 'completed'`, p.ID, p.attempt)
	return err
}
