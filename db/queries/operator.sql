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

-- name: ShowKey :one
-- Reads only: the rows of a key and of its payment or refund, as they are, for a page that shows them. The stored
-- response is shown as the text that was sent.
SELECT (to_jsonb(k) - 'response_body')::text AS key_row,
       coalesce(convert_from(k.response_body, 'UTF8'), '')::text AS response_body,
       coalesce(to_jsonb(p), to_jsonb(r), 'null'::jsonb)::text AS movement_row
FROM idempotency_keys AS k
LEFT JOIN payments AS p ON p.tenant_id = k.tenant_id AND p.id = k.subject
LEFT JOIN refunds AS r ON r.tenant_id = k.tenant_id AND r.id = k.subject
WHERE k.tenant_id = @tenant_id AND k.operation = @operation AND k.key = @key;

-- name: StampKeys :many
-- Reads only: a text for each of these keys that changes with its row, its timeline, and the row of its payment. A
-- refund changes the payment of another key.
SELECT k.tenant_id, k.operation, k.key,
       concat_ws(' ', k.status, k.attempt, k.generation, k.reconcile_after, k.dead_letter_hold, k.expires_at,
           (SELECT max(e.id) FROM idempotency_key_events AS e
            WHERE e.tenant_id = k.tenant_id AND e.operation = k.operation AND e.key = k.key),
           (SELECT concat_ws(' ', p.status, p.refunded_minor, p.refund_held_minor) FROM payments AS p
            WHERE p.tenant_id = k.tenant_id AND p.id = k.subject))::text AS stamp
FROM (SELECT unnest(@tenant_ids::text[]) AS tenant_id, unnest(@operations::text[]) AS operation,
             unnest(@keys::text[]) AS key) AS asked
JOIN idempotency_keys AS k ON k.tenant_id = asked.tenant_id AND k.operation = asked.operation AND k.key = asked.key;

-- name: LatestKeys :many
-- Reads only: the keys that were reserved last, newest first. No index has the time of the reservation, so this takes
-- the last entries of three other indexes: the keys in flight, the unknown ones, and those that expire last. Of the
-- unknown keys it takes more, because those whose next lookup is furthest away are the oldest. If there are still more
-- of them, new ones may be missing.
SELECT l.tenant_id, l.operation, l.key, l.status, l.reserved_at, l.response_status
FROM (
    (SELECT a.tenant_id, a.operation, a.key, a.status, a.reserved_at, a.response_status
     FROM idempotency_keys AS a WHERE a.locked_until IS NOT NULL
     ORDER BY a.locked_until DESC LIMIT sqlc.arg(max_rows)::int)
    UNION ALL
    (SELECT b.tenant_id, b.operation, b.key, b.status, b.reserved_at, b.response_status
     FROM idempotency_keys AS b WHERE b.reconcile_after IS NOT NULL
     ORDER BY b.reconcile_after LIMIT 20 * sqlc.arg(max_rows)::int)
    UNION ALL
    (SELECT c.tenant_id, c.operation, c.key, c.status, c.reserved_at, c.response_status
     FROM idempotency_keys AS c WHERE c.finished_at IS NOT NULL AND c.delete_after IS NULL
     ORDER BY c.expires_at DESC LIMIT sqlc.arg(max_rows)::int)
) AS l
ORDER BY l.reserved_at DESC, l.tenant_id, l.operation, l.key
LIMIT sqlc.arg(max_rows)::int;
