-- What package operator reads from the tables of other packages. It writes to none of them. ListUndecided
-- (idempotency.sql) explains DISTINCT ON.

-- name: FindSubjects :many
-- What these dead letters are about: the status of the key, if it still has the generation and subject of its dead
-- letter, and the status of the payment or refund, if it exists. The zero UUID is any subject.
SELECT asked.dead_letter_id::uuid AS dead_letter_id, 'key'::text AS object, k.status
FROM (SELECT unnest(@dead_letter_ids::uuid[]) AS dead_letter_id, unnest(@tenant_ids::text[]) AS tenant_id,
             unnest(@operations::text[]) AS operation, unnest(@keys::text[]) AS key,
             unnest(@generations::integer[]) AS generation, unnest(@subjects::uuid[]) AS subject) AS asked
CROSS JOIN LATERAL (SELECT DISTINCT ON (i.tenant_id) * FROM idempotency_keys AS i WHERE i.tenant_id = asked.tenant_id
                    AND i.operation = asked.operation AND i.key = asked.key) AS k
WHERE k.generation = asked.generation
  AND (asked.subject = '00000000-0000-0000-0000-000000000000' OR k.subject = asked.subject)
UNION ALL
SELECT asked.dead_letter_id::uuid, 'payment'::text, p.status
FROM (SELECT unnest(@dead_letter_ids::uuid[]) AS dead_letter_id, unnest(@tenant_ids::text[]) AS tenant_id,
             unnest(@subjects::uuid[]) AS id) AS asked
CROSS JOIN LATERAL (SELECT DISTINCT ON (i.tenant_id) * FROM payments AS i
                    WHERE i.tenant_id = asked.tenant_id AND i.id = asked.id) AS p
UNION ALL
SELECT asked.dead_letter_id::uuid, 'refund'::text, r.status
FROM (SELECT unnest(@dead_letter_ids::uuid[]) AS dead_letter_id, unnest(@tenant_ids::text[]) AS tenant_id,
             unnest(@subjects::uuid[]) AS id) AS asked
CROSS JOIN LATERAL (SELECT DISTINCT ON (i.tenant_id) * FROM refunds AS i
                    WHERE i.tenant_id = asked.tenant_id AND i.id = asked.id) AS r;

-- name: AnsweredDeadLetters :many
-- The open dead letters whose kind and key's status are one of these pairs, if the key still has the generation and
-- subject of its dead letter. The open dead letters of a kind are found by dead_letters_one_open_per_finding.
SELECT d.id FROM (SELECT unnest(@kinds::text[]) AS kind, unnest(@statuses::text[]) AS status) AS asked
JOIN dead_letters AS d ON d.kind = asked.kind AND d.finding IS NOT NULL AND d.status = 'open'
JOIN idempotency_keys AS k ON k.tenant_id = d.tenant_id AND k.operation = d.operation AND k.key = d.key
    AND k.generation = d.generation AND (d.subject IS NULL OR k.subject = d.subject) AND k.status = asked.status
ORDER BY d.opened_at, d.id LIMIT @max_rows;

-- name: Backlog :many
-- What waits: webhooks that are not processed, unknown keys whose next lookup should have begun (a few such keys are
-- normal: their jobs are about to be made), events without a place in the feed, deliveries that are due at endpoints
-- that do not rest after a failure, and jobs that are not finished, by state. Events and deliveries are not counted.
-- oldest_seconds is how long the oldest one has waited. The index of the lookups is idempotency_keys_reconcile_after.
-- As FindDueEndpoints, it looks at each endpoint once. The version of an event is a time, and what waited for an
-- endpoint is due when it is enabled, or has rested.
SELECT 'webhooks'::text AS what, ''::text AS state, count(*) AS waiting,
       coalesce(extract(epoch FROM payonce_now() - min(received_at)), 0)::float8 AS oldest_seconds
FROM webhook_events WHERE processed_at IS NULL
UNION ALL
SELECT 'lookups', '', count(*), coalesce(extract(epoch FROM payonce_now() - min(reconcile_after)), 0)::float8
FROM idempotency_keys WHERE reconcile_after <= payonce_now()
UNION ALL
SELECT 'events', '', 0, coalesce(extract(epoch FROM payonce_now()) - min(e.version) / 1000000.0, 0)::float8
FROM events AS e WHERE e.position IS NULL
UNION ALL
SELECT 'deliveries', '', 0, coalesce(extract(epoch FROM payonce_now() - min(
           greatest(due.at, w.enabled_at, CASE WHEN w.failures > 0 THEN w.rest_until END))), 0)::float8
FROM webhook_endpoints AS w
CROSS JOIN LATERAL (SELECT d.due_at AS at FROM event_deliveries AS d
                    WHERE d.tenant_id = w.tenant_id AND d.endpoint_id = w.id AND d.due_at <= payonce_now()
                    ORDER BY d.due_at LIMIT 1) AS due
WHERE w.disabled_at IS NULL AND w.deleted_at IS NULL AND (w.failures = 0 OR w.rest_until <= payonce_now())
UNION ALL
SELECT 'jobs', state::text, count(*), 0::float8
FROM river_job WHERE state IN ('available', 'pending', 'retryable', 'running', 'scheduled')
GROUP BY river_job.state;

-- name: ListWatermarks :many
-- How far each tenant's ledger has been scanned, and how long ago it was last read to its end. The oldest is first. A
-- ledger that was never read to its end counts from the creation of the tenant.
SELECT t.psp_account AS account, o.object::text AS object, w.scanned_to,
       extract(epoch FROM payonce_now() - coalesce(w.updated_at, t.created_at))::float8 AS age_seconds
FROM tenants AS t CROSS JOIN (VALUES ('charge'), ('refund')) AS o (object)
LEFT JOIN ledger_watermarks AS w ON w.account = t.psp_account AND w.object = o.object
ORDER BY coalesce(w.updated_at, t.created_at), t.psp_account, o.object LIMIT @max_rows;

-- name: ShowKey :one
-- Reads only: the rows of a key and of its payment or refund, as they are, for a page that shows them. The stored
-- response is shown as the text that was sent.
SELECT (to_jsonb(k) - 'response_body')::text AS key_row,
       coalesce(convert_from(k.response_body, 'UTF8'), '')::text AS response_body,
       coalesce(to_jsonb(p), to_jsonb(r), 'null'::jsonb)::text AS movement_row
FROM idempotency_keys AS k
LEFT JOIN LATERAL (SELECT DISTINCT ON (i.tenant_id) * FROM payments AS i
                    WHERE i.tenant_id = k.tenant_id AND i.id = k.subject) AS p
    ON true
LEFT JOIN LATERAL (SELECT DISTINCT ON (i.tenant_id) * FROM refunds AS i
                    WHERE i.tenant_id = k.tenant_id AND i.id = k.subject) AS r
    ON true
WHERE k.tenant_id = @tenant_id AND k.operation = @operation AND k.key = @key;

-- name: StampKeys :many
-- Reads only: a text for each of these keys that changes with its row, its timeline, and the row of its payment. A
-- refund changes the payment of another key.
SELECT k.tenant_id, k.operation, k.key,
       concat_ws(' ', k.status, k.attempt, k.generation, k.reconcile_after, k.dead_letter_hold, k.expires_at,
           (SELECT max(e.id) FROM idempotency_key_events AS e
            WHERE e.tenant_id = k.tenant_id AND e.operation = k.operation AND e.key = k.key),
           (SELECT concat_ws(' ', p.status, p.refunded_minor, p.refund_held_minor, p.moved_outside_minor)
            FROM payments AS p WHERE p.tenant_id = k.tenant_id AND p.id = k.subject))::text AS stamp
FROM (SELECT unnest(@tenant_ids::text[]) AS tenant_id, unnest(@operations::text[]) AS operation,
             unnest(@keys::text[]) AS key) AS asked
CROSS JOIN LATERAL (SELECT DISTINCT ON (i.tenant_id) * FROM idempotency_keys AS i WHERE i.tenant_id = asked.tenant_id
                    AND i.operation = asked.operation AND i.key = asked.key) AS k;

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

-- name: ListKeys :many
-- Reads only: keys, the end of whose retention is last, and the expired ones after them. No index has the time of the
-- reservation. expires_at counts from it, unless the key was resolved late or executed again. Each part has
-- an index of its own, and begins at its own cursor. The open keys are few, and are sorted. A part that cannot have the
-- status is not read: each part first says which statuses it has. WITH TIES needs no order but that of the index, so no
-- part is sorted as a whole.
SELECT (l.delete_after IS NOT NULL)::boolean AS expired, coalesce(l.delete_after, l.expires_at)::timestamptz AS at,
       l.tenant_id, l.operation, l.key, l.status, l.attempt, l.generation, l.subject, l.reserved_at, l.expires_at,
       l.unknown_since, l.reconcile_after, l.response_status, l.dead_letter_hold::text AS hold
FROM (
    (SELECT a.* FROM (SELECT i.* FROM idempotency_keys AS i WHERE i.locked_until IS NOT NULL
                      UNION ALL SELECT u.* FROM idempotency_keys AS u WHERE u.reconcile_after IS NOT NULL) AS a
     WHERE coalesce(sqlc.narg(status)::text, 'unknown') IN ('in_progress', 'unknown')
       AND (sqlc.narg(tenant)::text IS NULL OR a.tenant_id = sqlc.narg(tenant))
       AND (sqlc.narg(status)::text IS NULL OR a.status = sqlc.narg(status))
       AND (a.expires_at, a.tenant_id, a.operation, a.key)
           < (sqlc.arg(live_before)::timestamptz, sqlc.arg(before_tenant)::text, sqlc.arg(before_operation)::text,
              sqlc.arg(before_key)::text)
     ORDER BY a.expires_at DESC, a.tenant_id DESC, a.operation DESC, a.key DESC LIMIT sqlc.arg(max_rows)::int)
    UNION ALL
    (SELECT b.* FROM idempotency_keys AS b
     WHERE coalesce(sqlc.narg(status)::text, 'completed') IN ('completed', 'failed_retryable')
       AND b.finished_at IS NOT NULL AND b.delete_after IS NULL
       AND (sqlc.narg(tenant)::text IS NULL OR b.tenant_id = sqlc.narg(tenant))
       AND (sqlc.narg(status)::text IS NULL OR b.status = sqlc.narg(status))
       AND (b.expires_at, b.tenant_id, b.operation, b.key)
           < (sqlc.arg(live_before)::timestamptz, sqlc.arg(before_tenant)::text, sqlc.arg(before_operation)::text,
              sqlc.arg(before_key)::text)
     ORDER BY b.expires_at DESC FETCH FIRST (sqlc.arg(max_rows)::int) ROWS WITH TIES)
    UNION ALL
    (SELECT c.* FROM idempotency_keys AS c
     WHERE coalesce(sqlc.narg(status)::text, 'expired') = 'expired' AND c.delete_after IS NOT NULL
       AND (sqlc.narg(tenant)::text IS NULL OR c.tenant_id = sqlc.narg(tenant))
       AND (c.delete_after, c.tenant_id, c.operation, c.key)
           < (sqlc.arg(expired_before)::timestamptz, sqlc.arg(before_tenant)::text, sqlc.arg(before_operation)::text,
              sqlc.arg(before_key)::text)
     ORDER BY c.delete_after DESC FETCH FIRST (sqlc.arg(max_rows)::int) ROWS WITH TIES)
) AS l
ORDER BY 1, 2 DESC, l.tenant_id DESC, l.operation DESC, l.key DESC
LIMIT sqlc.arg(max_rows)::int;

-- name: ListWebhooks :many
-- Reads only: the webhooks that wait, newest first, and then those that were processed, by the time of that.
SELECT (l.processed_at IS NULL)::boolean AS waiting, coalesce(l.processed_at, l.received_at)::timestamptz AS at,
       l.id, l.sent_at, l.received_at, l.processed_at, coalesce(l.result, '')::text AS result, l.body
FROM (
    (SELECT a.* FROM webhook_events AS a
     WHERE a.processed_at IS NULL AND coalesce(sqlc.narg(status)::text, 'waiting') = 'waiting'
       AND (a.received_at, a.id) < (sqlc.arg(waiting_before)::timestamptz, sqlc.arg(before_id)::text)
     ORDER BY a.received_at DESC, a.id DESC LIMIT sqlc.arg(max_rows)::int)
    UNION ALL
    (SELECT b.* FROM webhook_events AS b
     WHERE coalesce(sqlc.narg(status)::text, 'resolved') <> 'waiting' AND b.processed_at IS NOT NULL
       AND (sqlc.narg(status)::text IS NULL OR b.result = sqlc.narg(status))
       AND (b.processed_at, b.id) < (sqlc.arg(processed_before)::timestamptz, sqlc.arg(before_id)::text)
     ORDER BY b.processed_at DESC, b.id DESC LIMIT sqlc.arg(max_rows)::int)
) AS l
ORDER BY 1 DESC, 2 DESC, l.id DESC
LIMIT sqlc.arg(max_rows)::int;

-- name: ListRuns :many
-- Reads only: the runs that have compared a settlement file with our books, the latest one first.
SELECT r.id, r.account, r.day, r.started_at, r.finished_at, r.status, r.lines, r.breaks, r.pending
FROM statement_runs AS r
WHERE (sqlc.narg(account)::text IS NULL OR r.account = sqlc.narg(account))
  AND (r.started_at, r.id) < (sqlc.arg(before_started)::timestamptz, sqlc.arg(before_id)::uuid)
ORDER BY r.started_at DESC, r.id DESC
LIMIT sqlc.arg(max_rows)::int;

-- name: ListBreaks :many
-- Reads only: the differences between the settlement files and our books, the latest first. Only one of the two parts
-- is read. The open breaks have an index of their own.
SELECT l.id, l.account, l.day, l.object, l.kind, l.psp_id, l.subject, l.reference, l.other_tenant, l.lines,
       l.their_amount_minor, l.their_currency, l.our_amount_minor, l.our_currency, l.our_status, l.our_psp_id,
       l.moved_at, l.first_seen, l.last_seen, l.gone_at
FROM (
    (SELECT a.* FROM statement_breaks AS a
     WHERE sqlc.arg(open)::boolean AND a.gone_at IS NULL
       AND (sqlc.narg(account)::text IS NULL OR a.account = sqlc.narg(account))
       AND (sqlc.narg(kind)::text IS NULL OR a.kind = sqlc.narg(kind)) AND a.id < sqlc.arg(before)::bigint
     ORDER BY a.id DESC LIMIT sqlc.arg(max_rows)::int)
    UNION ALL
    (SELECT b.* FROM statement_breaks AS b
     WHERE NOT sqlc.arg(open)::boolean AND b.gone_at IS NOT NULL
       AND (sqlc.narg(account)::text IS NULL OR b.account = sqlc.narg(account))
       AND (sqlc.narg(kind)::text IS NULL OR b.kind = sqlc.narg(kind)) AND b.id < sqlc.arg(before)::bigint
     ORDER BY b.id DESC LIMIT sqlc.arg(max_rows)::int)
) AS l
ORDER BY l.id DESC
LIMIT sqlc.arg(max_rows)::int;

-- name: SearchKeys :many
-- Reads only: keys of all tenants and operations that are from @key to @key_end, with their payments or refunds. The
-- joins with the tenants let each search use an index that begins with the tenant. Here and below nothing is sorted:
-- the search ends with the last row that it may return, however many have the beginning that somebody types.
SELECT k.tenant_id, k.operation, k.key, k.status, k.reserved_at, coalesce(p.id, r.payment_id, k.subject) AS payment_id,
       k.subject AS movement_id, coalesce(p.status, r.status, '')::text AS movement_status,
       coalesce(p.amount_minor, r.amount_minor, 0)::bigint AS amount_minor,
       coalesce(p.currency, r.currency, '')::text AS currency
FROM tenants AS t
CROSS JOIN (VALUES ('POST /payments'), ('POST /payments/{id}/refunds')) AS o (operation)
CROSS JOIN LATERAL (SELECT DISTINCT ON (i.tenant_id, i.operation, i.key) * FROM idempotency_keys AS i
                    WHERE i.tenant_id = t.id AND i.operation = o.operation
                      AND i.key >= @key::text AND i.key <= @key_end::text) AS k
LEFT JOIN LATERAL (SELECT DISTINCT ON (i.tenant_id) * FROM payments AS i
                    WHERE i.tenant_id = k.tenant_id AND i.id = k.subject) AS p ON true
LEFT JOIN LATERAL (SELECT DISTINCT ON (i.tenant_id) * FROM refunds AS i
                    WHERE i.tenant_id = k.tenant_id AND i.id = k.subject) AS r ON true
LIMIT @max_rows;

-- name: SearchMovements :many
-- Reads only: payments and refunds of all tenants whose id, or id at the PSP, or that of a dispute, is between two
-- others, and payments with a reference.
SELECT 'payment'::text AS object, p.tenant_id, p.id, p.status, p.idempotency_key, p.created_at, p.id AS payment_id,
       p.amount_minor, p.currency
FROM tenants AS t CROSS JOIN LATERAL (
    SELECT DISTINCT ON (i.tenant_id, i.id) * FROM payments AS i
    WHERE i.tenant_id = t.id AND i.id >= sqlc.narg(payment_id)::uuid AND i.id <= sqlc.narg(payment_id_end)::uuid) AS p
UNION ALL
SELECT 'payment', p.tenant_id, p.id, p.status, p.idempotency_key, p.created_at, p.id, p.amount_minor, p.currency
FROM tenants AS t CROSS JOIN LATERAL (
    SELECT DISTINCT ON (i.tenant_id, i.psp_charge_id) * FROM payments AS i
    WHERE i.tenant_id = t.id AND i.psp_charge_id >= @psp_id::text AND i.psp_charge_id <= @psp_id_end::text) AS p
UNION ALL
SELECT 'payment', p.tenant_id, p.id, p.status, p.idempotency_key, p.created_at, p.id, p.amount_minor, p.currency
FROM tenants AS t CROSS JOIN LATERAL (
    SELECT DISTINCT ON (i.tenant_id, i.id) * FROM payments AS i
    WHERE i.tenant_id = t.id AND i.reference = @reference::text) AS p
UNION ALL
SELECT 'payment', p.tenant_id, p.id, p.status, p.idempotency_key, p.created_at, p.id, p.amount_minor, p.currency
FROM tenants AS t CROSS JOIN LATERAL (
    SELECT DISTINCT ON (i.tenant_id, i.psp_id) * FROM disputes AS i
    WHERE i.tenant_id = t.id AND i.psp_id >= @psp_id::text AND i.psp_id <= @psp_id_end::text) AS d
CROSS JOIN LATERAL (SELECT DISTINCT ON (i.tenant_id) * FROM payments AS i
                    WHERE i.tenant_id = d.tenant_id AND i.id = d.payment_id) AS p
UNION ALL
SELECT 'refund', r.tenant_id, r.id, r.status, r.idempotency_key, r.created_at, r.payment_id, r.amount_minor,
       r.currency
FROM tenants AS t CROSS JOIN LATERAL (
    SELECT DISTINCT ON (i.tenant_id, i.id) * FROM refunds AS i
    WHERE i.tenant_id = t.id AND i.id >= sqlc.narg(refund_id)::uuid AND i.id <= sqlc.narg(refund_id_end)::uuid) AS r
UNION ALL
SELECT 'refund', r.tenant_id, r.id, r.status, r.idempotency_key, r.created_at, r.payment_id, r.amount_minor,
       r.currency
FROM tenants AS t CROSS JOIN LATERAL (
    SELECT DISTINCT ON (i.tenant_id, i.psp_refund_id) * FROM refunds AS i
    WHERE i.tenant_id = t.id AND i.psp_refund_id >= @psp_id::text AND i.psp_refund_id <= @psp_id_end::text) AS r
LIMIT @max_rows;

-- name: SearchDeadLetters :many
-- Reads only: dead letters whose id is between two others, and open ones about such a key. The index is that of the
-- open dead letters of a key.
SELECT d.id, d.kind, d.status, coalesce(d.tenant_id, '')::text AS tenant_id,
       coalesce(d.operation, '')::text AS operation, coalesce(d.key, '')::text AS key, d.opened_at
FROM dead_letters AS d WHERE d.id >= sqlc.narg(id)::uuid AND d.id <= sqlc.narg(id_end)::uuid
UNION ALL
SELECT d.id, d.kind, d.status, d.tenant_id, d.operation, d.key, d.opened_at
FROM tenants AS t
CROSS JOIN (VALUES ('POST /payments'), ('POST /payments/{id}/refunds')) AS o (operation)
CROSS JOIN LATERAL (SELECT * FROM dead_letters AS i WHERE i.tenant_id = t.id AND i.operation = o.operation
                    AND i.key >= @key::text AND i.key <= @key_end::text AND i.status = 'open' OFFSET 0) AS d
LIMIT @max_rows;
