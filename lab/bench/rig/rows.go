package rig

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// What the keys begin with that are made here.
const (
	AbandonedMark = "abandoned-" // in progress, and the lease is over
	OverMark      = "over-"      // completed, and the retention is over
	GoneMark      = "gone-"      // expired, and the audit window is over
)

// Existing is a database of somebody else's server, as tests have it: to be filled, and not to run programs on.
func Existing(url string, admin *pgx.Conn) *Database {
	return &Database{URL: url, Admin: admin, rig: &Rig{say: func(string) {}}}
}

// chunk is how many rows are loaded at once, so that progress can be told.
const chunk = 250_000

// Load writes completed payments, as copies of one that the API has made: the same request, the same answer, keys in
// the order of time (see pgbench.LoadedKey). A replay of any of them is answered by the stored bytes.
func (d *Database) Load(ctx context.Context, rows int) error {
	for from := 1; from <= rows; from += chunk {
		to := min(from+chunk-1, rows)
		if _, err := d.behindTheGuard(ctx, "load rows", loadRows, from, to); err != nil {
			return err
		}
		d.rig.say(fmt.Sprintf("loaded %d of %d rows", to, rows))
	}
	return nil
}

// Lost is a payment of which nobody knows what became: its key, and itself.
type Lost struct {
	Key     string
	Payment uuid.UUID
}

// LoadedMark is what the keys of loaded payments begin with. Those that pgbench has made stand for another request.
const LoadedMark = "load-"

// Keys are up to n keys of completed payments, drawn at random over all that begin with the mark.
func (d *Database) Keys(ctx context.Context, mark string, n int) ([]string, error) {
	rows, err := d.Admin.Query(ctx,
		"SELECT key FROM idempotency_keys WHERE status = 'completed' AND key ^@ $1 ORDER BY random() LIMIT $2", mark, n)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// Lose makes n completed payments such as the API leaves whose answer from the PSP was lost. It names columns that the
// schemas of different commits have in common.
func (d *Database) Lose(ctx context.Context, n int) ([]Lost, error) {
	return d.behindTheGuard(ctx, "lose keys", loseKeys, n)
}

// MakeAbandoned writes n keys, with their payments, whose owners are gone.
func (d *Database) MakeAbandoned(ctx context.Context, n int) error {
	_, err := d.behindTheGuard(ctx, "make abandoned keys", makeAbandoned, n)
	return err
}

// MakePrunable writes n keys for each of the pruner's two walks: such as are to be marked as expired, and such as were
// marked a month ago. Payments are not the pruner's business: there are none for these.
func (d *Database) MakePrunable(ctx context.Context, n int) error {
	for from := 1; from <= n; from += chunk {
		if _, err := d.behindTheGuard(ctx, "make prunable keys", makePrunable, from, min(from+chunk-1, n)); err != nil {
			return err
		}
	}
	return nil
}

// Forget removes the keys that were made under a mark, with their timelines, their payments and the jobs that came of
// them.
func (d *Database) Forget(ctx context.Context, mark string) error {
	_, err := d.behindTheGuard(ctx, "forget keys", forgetKeys, mark)
	return err
}

// behindTheGuard writes what no program of ours writes so: a key begins in progress and nothing else, and history
// stays. It returns the rows of the statement, if it has any.
func (d *Database) behindTheGuard(ctx context.Context, what, sql string, args ...any) (lost []Lost, err error) {
	err = pgx.BeginFunc(ctx, d.Admin, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL session_replication_role = replica"); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		lost, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Lost])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return lost, nil
}

const forgetKeys = `
WITH gone AS (DELETE FROM idempotency_keys WHERE key ^@ $1::text RETURNING tenant_id, operation, key, subject),
     lines AS (DELETE FROM idempotency_key_events AS e USING gone AS g WHERE e.tenant_id = g.tenant_id AND e.operation = g.operation AND e.key = g.key),
     moved AS (DELETE FROM payments AS p USING gone AS g WHERE p.tenant_id = g.tenant_id AND p.id = g.subject)
DELETE FROM river_job WHERE kind = 'resolve' AND args ->> 'key' ^@ $1::text`

const loseKeys = `
WITH lost AS (
    UPDATE idempotency_keys AS k SET status = 'unknown', unknown_since = clock_timestamp(), reconcile_after = clock_timestamp(), finished_at = NULL,
        response_status = NULL, response_content_type = NULL, response_location = NULL, response_schema_version = NULL, response_body = NULL
    FROM (SELECT tenant_id, operation, key FROM idempotency_keys WHERE status = 'completed' AND attempt = 1 LIMIT $1) AS c
    WHERE k.tenant_id = c.tenant_id AND k.operation = c.operation AND k.key = c.key
    RETURNING k.tenant_id, k.key, k.subject
), moved AS (
    UPDATE payments AS p SET status = 'processing', psp_charge_id = NULL FROM lost AS l WHERE p.tenant_id = l.tenant_id AND p.id = l.subject
)
SELECT key, subject FROM lost`

const makeAbandoned = `
WITH sample AS MATERIALIZED (
    SELECT k.operation, k.fingerprint, p.tenant_id, p.customer_id, p.amount_minor, p.currency, p.payment_method
    FROM idempotency_keys AS k JOIN payments AS p ON p.tenant_id = k.tenant_id AND p.id = k.subject
    WHERE k.status = 'completed' LIMIT 1
), made AS MATERIALIZED (
    SELECT gen_random_uuid() AS id, clock_timestamp() - interval '1 minute' AS at FROM generate_series(1, $1::int)
), keys AS (
    INSERT INTO idempotency_keys (tenant_id, operation, key, status, fingerprint, attempt, generation, lease_id, subject, created_at, reserved_at,
        locked_until, expires_at)
    SELECT s.tenant_id, s.operation, '` + AbandonedMark + `' || m.id, 'in_progress', s.fingerprint, 1, 1, m.id, m.id, m.at, m.at,
           m.at + interval '30 seconds', m.at + interval '48 hours'
    FROM made AS m, sample AS s
)
INSERT INTO payments (id, tenant_id, idempotency_key, generation, customer_id, amount_minor, currency, payment_method, status, created_at)
SELECT m.id, s.tenant_id, '` + AbandonedMark + `' || m.id, 1, s.customer_id, s.amount_minor, s.currency, s.payment_method, 'processing', m.at
FROM made AS m, sample AS s`

const makePrunable = `
WITH sample AS MATERIALIZED (SELECT * FROM idempotency_keys WHERE status = 'completed' LIMIT 1),
made AS MATERIALIZED (
    SELECT lpad(n::text, 20, '0') AS number, gen_random_uuid() AS id, clock_timestamp() - interval '32 days' + n * interval '1 millisecond' AS at
    FROM generate_series($1::bigint, $2::bigint) AS n
), keys AS (
    INSERT INTO idempotency_keys (tenant_id, operation, key, status, fingerprint, attempt, generation, lease_id, subject, created_at, reserved_at,
        finished_at, expires_at, delete_after, response_status, response_content_type, response_location, response_schema_version, response_body)
    SELECT s.tenant_id, s.operation, w.mark || m.number, w.status, s.fingerprint, 1, 1, m.id, m.id, m.at, m.at, m.at, m.at + interval '48 hours', w.delete_after,
           s.response_status, s.response_content_type, s.response_location, s.response_schema_version, s.response_body
    FROM sample AS s, made AS m,
         LATERAL (VALUES ('` + OverMark + `', 'completed', NULL), ('` + GoneMark + `', 'expired', m.at + interval '31 days')) AS w (mark, status, delete_after)
)
INSERT INTO idempotency_key_events (tenant_id, operation, key, generation, attempt, at, actor, from_status, to_status, reason)
SELECT s.tenant_id, s.operation, '` + GoneMark + `' || m.number, 1, 1, m.at, 'pruner', 'completed', 'expired', 'retention over' FROM made AS m, sample AS s`

// loadRows makes rows of the last half an hour, so that none is due, and the PSP remembers all.
const loadRows = `
WITH sample AS MATERIALIZED (
    SELECT k.*, p.customer_id, p.amount_minor, p.currency, p.payment_method
    FROM idempotency_keys AS k JOIN payments AS p ON p.tenant_id = k.tenant_id AND p.id = k.subject
    WHERE k.status = 'completed' LIMIT 1
), made AS MATERIALIZED (
    SELECT n, '` + LoadedMark + `' || lpad(n::text, 20, '0') AS key, lpad(to_hex(n), 32, '0')::uuid AS id, clock_timestamp() - interval '30 minutes' AS at
    FROM generate_series($1::bigint, $2::bigint) AS n
), keys AS (
    INSERT INTO idempotency_keys (tenant_id, operation, key, status, fingerprint, attempt, generation, lease_id, subject, created_at, reserved_at,
        finished_at, expires_at, response_status, response_content_type, response_location, response_schema_version, response_body)
    SELECT s.tenant_id, s.operation, m.key, 'completed', s.fingerprint, 1, 1, m.id, m.id, m.at, m.at, m.at, m.at + interval '48 hours',
           s.response_status, s.response_content_type, s.response_location, s.response_schema_version, s.response_body
    FROM made AS m, sample AS s
)
INSERT INTO payments (id, tenant_id, idempotency_key, generation, customer_id, amount_minor, currency, payment_method, status, psp_charge_id, created_at)
SELECT m.id, s.tenant_id, m.key, 1, s.customer_id, s.amount_minor, s.currency, s.payment_method, 'succeeded', 'ch_' || m.id, m.at
FROM made AS m, sample AS s`
