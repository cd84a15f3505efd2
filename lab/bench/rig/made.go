package rig

import (
	"context"
	"fmt"

	"github.com/google/uuid"
)

// What the keys begin with that are made here, beside those that look like a client's own.
const (
	AbandonedMark = "abandoned-" // in progress, and the lease is over
	OverMark      = "over-"      // completed, and the retention is over
	GoneMark      = "gone-"      // expired, and the audit window is over
)

// Lost is a payment of which nobody knows what became: its key, and itself.
type Lost struct {
	Key     string
	Payment uuid.UUID
}

// MakeUnknown writes n unknown keys with their payments, whose next lookup is due. They are as the API leaves them
// whose answer from the PSP was lost, and of the same request as the sample.
func (d *Database) MakeUnknown(ctx context.Context, n int) ([]Lost, error) {
	lost := make([]Lost, n)
	keys, ids := make([]string, n), make([]uuid.UUID, n)
	for i := range lost {
		id, err := uuid.NewV7()
		if err != nil {
			return nil, err
		}
		lost[i] = Lost{Key: id.String(), Payment: id}
		keys[i], ids[i] = lost[i].Key, id
	}
	return lost, d.behindTheGuard(ctx, "make unknown keys", makeUnknown, keys, ids)
}

// MakeAbandoned writes n keys, with their payments, whose owners are gone.
func (d *Database) MakeAbandoned(ctx context.Context, n int) error {
	return d.behindTheGuard(ctx, "make abandoned keys", makeAbandoned, n)
}

// MakePrunable writes n keys for each of the pruner's two walks: such as are to be marked as expired, and such as were
// marked a month ago. Payments are not the pruner's business: there are none for these.
func (d *Database) MakePrunable(ctx context.Context, n int) error {
	for from := 1; from <= n; from += chunk {
		if err := d.behindTheGuard(ctx, "make prunable keys", makePrunable, from, min(from+chunk-1, n)); err != nil {
			return err
		}
	}
	return nil
}

// Forget removes the keys that were made under a mark, with their timelines, their payments and the jobs that came of
// them.
func (d *Database) Forget(ctx context.Context, mark string) error {
	return d.behindTheGuard(ctx, "forget keys", `
WITH gone AS (DELETE FROM idempotency_keys WHERE key ^@ $1::text RETURNING tenant_id, operation, key, subject),
     lines AS (DELETE FROM idempotency_key_events AS e USING gone AS g WHERE e.tenant_id = g.tenant_id AND e.operation = g.operation AND e.key = g.key),
     moved AS (DELETE FROM payments AS p USING gone AS g WHERE p.tenant_id = g.tenant_id AND p.id = g.subject)
DELETE FROM river_job WHERE kind = 'resolve' AND args ->> 'key' ^@ $1::text`, mark)
}

// behindTheGuard writes what no program of ours writes so: a key begins in progress and nothing else, and history
// stays.
func (d *Database) behindTheGuard(ctx context.Context, what, sql string, args ...any) error {
	if _, err := d.Admin.Exec(ctx, "SET session_replication_role = replica"); err != nil {
		return err
	}
	defer func() { _, _ = d.Admin.Exec(ctx, "RESET session_replication_role") }()
	if _, err := d.Admin.Exec(ctx, sql, args...); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

const makeUnknown = `
WITH sample AS MATERIALIZED (
    SELECT k.operation, k.fingerprint, p.tenant_id, p.customer_id, p.amount_minor, p.currency, p.payment_method
    FROM idempotency_keys AS k JOIN payments AS p ON p.tenant_id = k.tenant_id AND p.id = k.subject
    WHERE k.status = 'completed' LIMIT 1
), made AS MATERIALIZED (
    SELECT m.key, m.id, clock_timestamp() AS at FROM unnest($1::text[], $2::uuid[]) AS m (key, id)
), keys AS (
    INSERT INTO idempotency_keys (tenant_id, operation, key, status, fingerprint, attempt, generation, lease_id, subject, created_at, reserved_at,
        unknown_since, reconcile_after, expires_at)
    SELECT s.tenant_id, s.operation, m.key, 'unknown', s.fingerprint, 1, 1, m.id, m.id, m.at, m.at, m.at, m.at, m.at + interval '48 hours'
    FROM made AS m, sample AS s
)
INSERT INTO payments (id, tenant_id, idempotency_key, generation, customer_id, amount_minor, currency, payment_method, status, created_at)
SELECT m.id, s.tenant_id, m.key, 1, s.customer_id, s.amount_minor, s.currency, s.payment_method, 'processing', m.at
FROM made AS m, sample AS s`

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
