-- What the operator's desk reads across the tables of others. It writes to none of them.

-- name: HoldKey :one
-- Keeps a key where it is for the rest of an operator's transaction, and tells where that is. No row: the key is gone, or stands for something else
-- than the letter's payment by now. Competes with everything that moves the
-- key. Locked before the letter, as everybody does who opens letters about a key: in the other order two of them could wait for each
-- other.
SELECT status FROM idempotency_keys
WHERE tenant_id = @tenant_id AND operation = @operation AND key = @key AND generation = @generation AND (sqlc.narg(subject)::uuid IS NULL OR subject = sqlc.narg(subject)::uuid)
FOR UPDATE;

-- name: FindMovements :many
-- The payments and refunds among these, and where they stand: the tenant and the id of each.
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
-- Unknown keys whose next lookup should have begun, along idempotency_keys_reconcile_after. A few are always on their way.
SELECT count(*) AS keys, coalesce(extract(epoch FROM payonce_now() - min(reconcile_after)), 0)::float8 AS oldest_seconds
FROM idempotency_keys WHERE reconcile_after <= payonce_now();

-- name: ListWatermarks :many
-- How far each tenant's ledger has been compared, and how long ago it was last read to its end: the one furthest behind first. One that never
-- was counts from the tenant's creation.
SELECT t.psp_account AS account, o.object::text AS object, w.scanned_to,
       extract(epoch FROM payonce_now() - coalesce(w.updated_at, t.created_at))::float8 AS age_seconds
FROM tenants AS t CROSS JOIN (VALUES ('charge'), ('refund')) AS o (object)
LEFT JOIN ledger_watermarks AS w ON w.account = t.psp_account AND w.object = o.object
ORDER BY coalesce(w.updated_at, t.created_at), t.psp_account, o.object LIMIT @max_rows;

-- name: CountJobs :many
-- Jobs that are still to be done or to be finished.
SELECT state::text AS state, count(*) AS jobs
FROM river_job WHERE state IN ('available', 'pending', 'retryable', 'running', 'scheduled')
GROUP BY river_job.state;
