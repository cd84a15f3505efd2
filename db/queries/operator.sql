-- What package operator reads from the tables of other packages. It writes to none of them.

-- name: LockKey :one
-- Locks a key for the rest of an operator's transaction, and returns its status. No row means that the key was deleted,
-- or that it has another generation or subject than the dead letter. Competes with everything that moves the key.
-- Every transaction locks the key before the dead letter: in the other order two of them could deadlock.
SELECT status FROM idempotency_keys
WHERE tenant_id = @tenant_id AND operation = @operation AND key = @key AND generation = @generation
  AND (sqlc.narg(subject)::uuid IS NULL OR subject = sqlc.narg(subject)::uuid)
FOR UPDATE;

-- name: FindMovements :many
-- The status of each payment or refund that exists among these pairs of tenant and id.
SELECT p.id, 'payment'::text AS object, p.status
FROM (SELECT unnest(@tenant_ids::text[]) AS tenant_id, unnest(@ids::uuid[]) AS id) AS asked
JOIN payments AS p ON p.tenant_id = asked.tenant_id AND p.id = asked.id
UNION ALL
SELECT r.id, 'refund'::text, r.status
FROM (SELECT unnest(@tenant_ids::text[]) AS tenant_id, unnest(@ids::uuid[]) AS id) AS asked
JOIN refunds AS r ON r.tenant_id = asked.tenant_id AND r.id = asked.id;

-- name: UnprocessedWebhooks :one
SELECT count(*) AS events, coalesce(extract(epoch FROM payonce_now() - min(received_at)), 0)::float8 AS oldest_seconds
FROM webhook_events WHERE processed_at IS NULL;

-- name: OverdueLookups :one
-- The unknown keys whose next lookup should have begun, by the index idempotency_keys_reconcile_after. A few such keys
-- are normal: their jobs are about to be made.
SELECT count(*) AS keys, coalesce(extract(epoch FROM payonce_now() - min(reconcile_after)), 0)::float8 AS oldest_seconds
FROM idempotency_keys WHERE reconcile_after <= payonce_now();

-- name: ListWatermarks :many
-- How far each tenant's ledger has been scanned, and how long ago it was last read to its end. The oldest is first. A
-- ledger that was never read to its end counts from the creation of the tenant.
SELECT t.psp_account AS account, o.object::text AS object, w.scanned_to,
       extract(epoch FROM payonce_now() - coalesce(w.updated_at, t.created_at))::float8 AS age_seconds
FROM tenants AS t CROSS JOIN (VALUES ('charge'), ('refund')) AS o (object)
LEFT JOIN ledger_watermarks AS w ON w.account = t.psp_account AND w.object = o.object
ORDER BY coalesce(w.updated_at, t.created_at), t.psp_account, o.object LIMIT @max_rows;

-- name: CountJobs :many
-- The jobs that are not finished.
SELECT state::text AS state, count(*) AS jobs
FROM river_job WHERE state IN ('available', 'pending', 'retryable', 'running', 'scheduled')
GROUP BY river_job.state;
