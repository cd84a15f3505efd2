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
	proof       bool // see claimDue
}

// find reads a key. If there is none, the error is pgx.ErrNoRows.
func (s store) find(ctx context.Context, tenant, key string) (row, error) {
	r := row{answer: answer{replayed: true}}
	err := s.QueryRow(ctx, `
		SELECT payment_id, attempt, generation, fingerprint, coalesce(response_status, 0), response, status
		FROM keys WHERE tenant = $1 AND key = $2 AND status <> 'expired'`, tenant, key).
		Scan(&r.ID, &r.attempt, &r.generation, &r.fingerprint, &r.answer.status, &r.answer.body, &r.status)
	return r, err
}

// reserve takes the right to execute p for the time of a lease: none, expired → in_progress. It returns 0 if the key is in
// use, or else the key's generation. Of any number of requests at once, the database lets one write the row.
func (s store) reserve(ctx context.Context, p payment, lease time.Duration) (generation int, err error) {
	err = s.QueryRow(ctx, `
		WITH key AS (
			INSERT INTO keys (tenant, key, payment_id, fingerprint, status, locked_until)
			VALUES ($1, $2, $3, $4, 'in_progress', clock_timestamp() + $9::interval)
			ON CONFLICT (tenant, key) DO UPDATE SET payment_id = excluded.payment_id, fingerprint = excluded.fingerprint,
				status = 'in_progress', locked_until = excluded.locked_until, attempt = 1, generation = keys.generation + 1
			WHERE keys.status = 'expired' RETURNING payment_id, generation
		)
		INSERT INTO payments (id, tenant, customer_id, amount_cents, currency, payment_method, status)
		SELECT payment_id, $1, $5, $6, $7, $8, 'processing' FROM key RETURNING (SELECT generation FROM key)`,
		p.tenant, p.key, p.ID, p.fingerprint(), p.CustomerID, p.AmountCents, p.Currency, p.PaymentMethod, lease).
		Scan(&generation)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	return generation, err
}

// retake takes that right once more: failed_retryable → in_progress. Of several requests, one gets it. The new attempt
// number takes the right away from all that had it before. A lookup that a webhook has asked for comes first.
func (s store) retake(ctx context.Context, p payment, lease time.Duration) (bool, error) {
	tag, err := s.Exec(ctx, `
		UPDATE keys SET status = 'in_progress', attempt = attempt + 1, locked_until = clock_timestamp() + $2::interval
		WHERE payment_id = $1 AND attempt = $3 AND status = 'failed_retryable' AND lookup_at IS NULL`,
		p.ID, lease, p.attempt)
	return tag.RowsAffected() == 1, err
}

// complete stores the outcome and the answer: in_progress, unknown, failed_retryable → completed. It returns
// false if the lease is lost: another attempt was begun, or the key is completed.
func (s store) complete(ctx context.Context, p payment, c charge, a answer) (bool, error) {
	tag, err := s.Exec(ctx, `
		WITH key AS (
			UPDATE keys SET status = 'completed', response_status = $2, response = $3, lookup_at = NULL,
				ended_at = clock_timestamp()
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
		UPDATE keys SET status = 'unknown', unknown_since = clock_timestamp(), lookup_at = clock_timestamp(), lookups = 0
		WHERE payment_id = $1 AND attempt = $2 AND status = 'in_progress'`, p.ID, p.attempt)
	return err
}

// release gives the key back, proven not executed: in_progress, unknown → failed_retryable. It does nothing if the
// lease is lost.
func (s store) release(ctx context.Context, p payment) error {
	_, err := s.Exec(ctx, `
		UPDATE keys SET status = 'failed_retryable', lookup_at = NULL, ended_at = clock_timestamp()
		WHERE payment_id = $1 AND attempt = $2 AND status <> 'completed'`, p.ID, p.attempt)
	return err
}

// endLeases finds the keys whose owner has not come back: in_progress → unknown. Two processes do not wait for each
// other: each skips the rows that the other one has locked.
func (s store) endLeases(ctx context.Context) error {
	_, err := s.Exec(ctx, `
		WITH over AS (
			SELECT payment_id FROM keys WHERE status = 'in_progress' AND locked_until <= clock_timestamp()
			ORDER BY locked_until LIMIT 100 FOR UPDATE SKIP LOCKED
		)
		UPDATE keys k SET status = 'unknown', unknown_since = clock_timestamp(), lookup_at = clock_timestamp(), lookups = 0
		FROM over WHERE k.payment_id = over.payment_id`)
	return err
}

// claimDue takes keys to look up at the PSP. At the same time it sets when each is due again, after a growing time: so
// the key is looked up again if this process dies. Proof says whether "not found" proves that nothing was executed.
func (s store) claimDue(ctx context.Context, grace time.Duration) ([]row, error) {
	rows, err := s.Query(ctx, `
		WITH due AS (
			SELECT payment_id FROM keys WHERE lookup_at <= clock_timestamp()
			ORDER BY lookup_at LIMIT 20 FOR UPDATE SKIP LOCKED
		)
		UPDATE keys k SET lookups = lookups + 1,
			lookup_at = clock_timestamp() + least('2s'::interval, '200ms'::interval * 2 ^ least(lookups, 9))
		FROM due JOIN payments p ON p.id = due.payment_id WHERE k.payment_id = due.payment_id
		RETURNING p.id, k.tenant, k.key, k.attempt, k.generation, p.customer_id, p.amount_cents, p.currency,
			p.payment_method, coalesce(k.unknown_since + $1::interval <= clock_timestamp(), true)`, grace)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(found pgx.CollectableRow) (r row, err error) {
		return r, found.Scan(&r.ID, &r.tenant, &r.key, &r.attempt, &r.generation, &r.CustomerID, &r.AmountCents,
			&r.Currency, &r.PaymentMethod, &r.proof)
	})
}

// makeDue has a key looked up now.
func (s store) makeDue(ctx context.Context, tenant, key string) error {
	_, err := s.Exec(ctx, `
		UPDATE keys SET lookup_at = clock_timestamp()
		WHERE tenant = $1 AND key = $2 AND status IN ('unknown', 'failed_retryable')`, tenant, key)
	return err
}

// expire ends the lives of old keys: completed, failed_retryable → expired. A key without a known outcome never expires.
//
// The row stays, without the answer. It holds the generation: if it were deleted, the next life would use the PSP key of
// the first. The PSP forgets its keys after a day, but not its ledger: a lookup would find the charge of the first life.
func (s store) expire(ctx context.Context, retention time.Duration) error {
	_, err := s.Exec(ctx, `
		WITH old AS (
			SELECT payment_id FROM keys WHERE status IN ('completed', 'failed_retryable')
				AND ended_at <= clock_timestamp() - $1::interval AND lookup_at IS NULL
			ORDER BY ended_at LIMIT 100 FOR UPDATE SKIP LOCKED
		)
		UPDATE keys k SET status = 'expired', response_status = NULL, response = NULL
		FROM old WHERE k.payment_id = old.payment_id`, retention)
	return err
}
