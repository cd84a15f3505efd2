package main

import (
	"context"
	_ "embed"
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
	proof       bool // see claimDue
}

// find reads a key. If there is none, the error is pgx.ErrNoRows.
func (s store) find(ctx context.Context, tenant, key string) (row, error) {
	r := row{answer: answer{replayed: true}}
	err := s.QueryRow(ctx, `
		SELECT id, attempt, generation, fingerprint, coalesce(response_status, 0), response, status
		FROM payments WHERE tenant = $1 AND key = $2 AND status <> 'expired'`, tenant, key).
		Scan(&r.ID, &r.attempt, &r.generation, &r.fingerprint, &r.answer.status, &r.answer.body, &r.status)
	return r, err
}

// reserve takes the right to execute p for the time of a lease: none, expired → in_progress. It returns the generation,
// or pgx.ErrNoRows if the key is in use. Of any number of requests at once, the database lets one insert the row.
func (s store) reserve(ctx context.Context, p payment, lease time.Duration) (generation int, err error) {
	err = s.QueryRow(ctx, `
		INSERT INTO payments (id, tenant, key, customer_id, amount_cents, currency, payment_method, fingerprint, status,
			locked_until, generation)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'in_progress', clock_timestamp() + $9::interval,
			(SELECT 1 + count(*) FROM payments WHERE tenant = $2 AND key = $3 AND status = 'expired'))
		ON CONFLICT DO NOTHING RETURNING generation`,
		p.ID, p.tenant, p.key, p.CustomerID, p.AmountCents, p.Currency, p.PaymentMethod, p.fingerprint(), lease).
		Scan(&generation)
	return generation, err
}

// retake takes that right again: failed_retryable → in_progress. Of several requests, one gets it. The new attempt
// number takes the right away from all that had it before.
func (s store) retake(ctx context.Context, p payment, lease time.Duration) (bool, error) {
	return s.changes(ctx, `
		UPDATE payments SET status = 'in_progress', attempt = attempt + 1, locked_until = clock_timestamp() + $2::interval
		WHERE id = $1 AND attempt = $3 AND status = 'failed_retryable'`, p.ID, lease, p.attempt)
}

// apply stores what has become of an attempt: → completed, unknown, failed_retryable. Only completed has a charge and
// an answer. It returns false if the lease is lost: there is another attempt, or the key is completed.
func (s store) apply(ctx context.Context, p payment, to string, c charge, a answer, keep time.Duration) (bool, error) {
	return s.changes(ctx, `
		UPDATE payments SET status = $2, response_status = nullif($3, 0), response = $4, psp_charge_id = nullif($5, ''),
			unknown_since = clock_timestamp(), locked_until = clock_timestamp() + $7::interval
		WHERE id = $1 AND attempt = $6 AND status NOT IN ('completed', 'expired')`,
		p.ID, to, a.status, a.body, c.ID, p.attempt, keep)
}

// claimDue takes keys to look up: in_progress beyond the lease, unknown → unknown. Two processes do not disturb each
// other: each skips the rows that the other one has locked, and finds them due only after a time that grows. So a key
// is looked up again if this process dies. The row's proof says whether "not found" proves that nothing was executed.
func (s store) claimDue(ctx context.Context, grace time.Duration) ([]row, error) {
	rows, err := s.Query(ctx, `
		WITH due AS (
			SELECT id, CASE status WHEN 'unknown' THEN unknown_since ELSE clock_timestamp() END AS since
			FROM payments WHERE status IN ('in_progress', 'unknown') AND locked_until <= clock_timestamp()
			ORDER BY locked_until LIMIT 20 FOR UPDATE SKIP LOCKED
		)
		UPDATE payments p SET status = 'unknown', unknown_since = since,
			locked_until = clock_timestamp() + least('2s', greatest('200ms', clock_timestamp() - since))
		FROM due WHERE p.id = due.id
		RETURNING p.id, tenant, key, attempt, generation, customer_id, amount_cents, currency, payment_method,
			since + $1::interval <= clock_timestamp()`, grace)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(found pgx.CollectableRow) (row, error) {
		var r row
		err := found.Scan(&r.ID, &r.tenant, &r.key, &r.attempt, &r.generation, &r.CustomerID, &r.AmountCents,
			&r.Currency, &r.PaymentMethod, &r.proof)
		return r, err
	})
}

// doubt has a key looked up now: unknown, failed_retryable → unknown.
func (s store) doubt(ctx context.Context, tenant, key string) error {
	_, err := s.changes(ctx, `
		UPDATE payments SET status = 'unknown', locked_until = clock_timestamp()
		WHERE tenant = $1 AND key = $2 AND status IN ('unknown', 'failed_retryable')`, tenant, key)
	return err
}

// expire ends the lives of old keys: completed, failed_retryable → expired. An unknown key never expires.
//
// The row stays in our books, without the answer. It must not be deleted: the next life would use its PSP key again.
// The PSP forgets a key after a day, but it never forgets a charge: a lookup would find the charge of the life before.
func (s store) expire(ctx context.Context) error {
	_, err := s.changes(ctx, `
		UPDATE payments SET status = 'expired', response_status = NULL, response = NULL
		WHERE id IN (
			SELECT id FROM payments WHERE status IN ('completed', 'failed_retryable') AND locked_until <= clock_timestamp()
			ORDER BY locked_until LIMIT 100 FOR UPDATE SKIP LOCKED
		)`)
	return err
}
