-- Written by make generate. DO NOT EDIT.

-- name: ReserveKeys :many

WITH asked AS MATERIALIZED (
    SELECT a.tenant_id, a.operation, a.key, a.fingerprint, a.lease_id, a.subject, payonce_now() AS at FROM (
        SELECT unnest($1::text[]) AS tenant_id, unnest($2::text[]) AS operation,
               unnest($3::text[]) AS key, unnest($4::bytea[]) AS fingerprint,
               unnest($5::uuid[]) AS lease_id, unnest($6::uuid[]) AS subject
    ) AS a WHERE a.key = a.key || ''
), seen AS MATERIALIZED (
    SELECT k.tenant_id, k.operation, k.key, k.status, k.fingerprint, k.attempt, k.generation, k.lease_id, k.subject, k.dead_letter_hold, k.created_at, k.reserved_at, k.locked_until, k.reconcile_after, k.unknown_since, k.lookup_failures, k.finished_at, k.expires_at, k.delete_after, k.response_status, k.response_content_type, k.response_location, k.response_schema_version, k.response_body FROM asked AS a
    JOIN idempotency_keys AS k ON k.tenant_id = a.tenant_id AND k.operation = a.operation AND k.key = a.key
), tombstones AS MATERIALIZED (
    SELECT t.tenant_id, t.operation, t.key, t.generation, t.dead_letter_hold FROM asked AS a
    JOIN idempotency_key_tombstones AS t ON t.tenant_id = a.tenant_id AND t.operation = a.operation AND t.key = a.key
), reserved AS (
    INSERT INTO idempotency_keys (
        tenant_id, operation, key, status, fingerprint, attempt, generation, lease_id, subject,
        created_at, reserved_at, locked_until, expires_at)
    SELECT a.tenant_id, a.operation, a.key, 'in_progress', a.fingerprint, 1,
           1 + coalesce((SELECT t.generation FROM tombstones AS t
                         WHERE t.tenant_id = a.tenant_id AND t.operation = a.operation AND t.key = a.key), 0),
           a.lease_id, a.subject, a.at, a.at, a.at + $7::interval, a.at + $8::interval
    FROM asked AS a
    WHERE NOT EXISTS (SELECT FROM seen AS s
                      WHERE s.tenant_id = a.tenant_id AND s.operation = a.operation AND s.key = a.key)
      AND NOT EXISTS (SELECT FROM tombstones AS t WHERE t.tenant_id = a.tenant_id AND t.operation = a.operation
                        AND t.key = a.key AND t.dead_letter_hold = 'decline')
    ON CONFLICT (tenant_id, operation, key) DO NOTHING
    RETURNING tenant_id, operation, key, status, fingerprint, attempt, generation, lease_id, subject, dead_letter_hold, created_at, reserved_at, locked_until, reconcile_after, unknown_since, lookup_failures, finished_at, expires_at, delete_after, response_status, response_content_type, response_location, response_schema_version, response_body
)
SELECT payonce_now()::timestamptz AS read_at, r.tenant_id, r.operation, r.key, r.status, r.fingerprint, r.attempt, r.generation, r.lease_id, r.subject, r.dead_letter_hold, r.created_at, r.reserved_at, r.locked_until, r.reconcile_after, r.unknown_since, r.lookup_failures, r.finished_at, r.expires_at, r.delete_after, r.response_status, r.response_content_type, r.response_location, r.response_schema_version, r.response_body FROM reserved AS r
UNION ALL
SELECT payonce_now(), s.tenant_id, s.operation, s.key, s.status, s.fingerprint, s.attempt, s.generation, s.lease_id, s.subject, s.dead_letter_hold, s.created_at, s.reserved_at, s.locked_until, s.reconcile_after, s.unknown_since, s.lookup_failures, s.finished_at, s.expires_at, s.delete_after, s.response_status, s.response_content_type, s.response_location, s.response_schema_version, s.response_body FROM seen AS s

-- name: BeginPayments :many

INSERT INTO payments (
    tenant_id, id, idempotency_key, generation, customer_id, amount_minor, currency,
    payment_method, description, metadata, reference, status)
SELECT k.tenant_id, b.id, b.key, k.generation, b.customer_id, b.amount_minor, b.currency,
       b.payment_method, nullif(b.description, ''), b.metadata, nullif(b.reference, ''), 'processing'
FROM (
    SELECT unnest($1::uuid[]) AS id, unnest($2::text[]) AS tenant_id,
           unnest($3::text[]) AS operation, unnest($4::text[]) AS key,
           unnest($5::uuid[]) AS lease_id,
           unnest($6::text[]) AS customer_id, unnest($7::bigint[]) AS amount_minor,
           unnest($8::text[]) AS currency, unnest($9::text[]) AS payment_method,
           unnest($10::text[]) AS description, unnest($11::jsonb[]) AS metadata,
           unnest($12::text[]) AS reference
) AS b JOIN idempotency_keys AS k ON k.tenant_id = b.tenant_id AND k.operation = b.operation AND k.key = b.key
WHERE b.key = b.key || '' AND k.lease_id = b.lease_id AND k.subject = b.id AND k.status = 'in_progress'
ON CONFLICT (tenant_id, id) DO NOTHING
RETURNING tenant_id, id, idempotency_key, generation, customer_id, amount_minor, currency, payment_method, description, metadata, reference, status, psp_object_id, psp_charge_id, decline_code, refund_held_minor, refunded_minor, moved_outside_minor, updated_at, created_at

-- name: Durable :exec
SELECT pg_logical_emit_message(true, 'payonce', '')

-- name: RememberObject :execrows
UPDATE payments AS p SET psp_object_id = $1::text
WHERE p.tenant_id = $2 AND p.id = $3 AND p.status = 'processing'
  AND (p.psp_object_id IS NULL OR p.psp_object_id = $1::text)
  AND EXISTS (SELECT FROM idempotency_keys AS k
              WHERE k.tenant_id = $2 AND k.operation = $4 AND k.key = $5 AND k.lease_id = $6
                AND k.subject = $3 AND k.status = 'in_progress')

-- name: CompleteKeys :many
UPDATE idempotency_keys AS k
SET status = 'completed', locked_until = NULL, finished_at = payonce_now(),
    response_status = c.response_status, response_content_type = c.response_content_type,
    response_location = c.response_location, response_schema_version = c.response_schema_version,
    response_body = c.response_body
FROM (
    SELECT unnest($1::text[]) AS tenant_id, unnest($2::text[]) AS operation,
           unnest($3::text[]) AS key, unnest($4::integer[]) AS generation,
           unnest($5::integer[]) AS attempt, unnest($6::boolean[]) AS unless_charged,
           unnest($7::boolean[]) AS tells,
           unnest($8::smallint[]) AS response_status,
           unnest($9::text[]) AS response_content_type,
           unnest($10::text[]) AS response_location,
           unnest($11::smallint[]) AS response_schema_version,
           unnest($12::bytea[]) AS response_body
) AS c
WHERE c.key = c.key || '' AND k.tenant_id = c.tenant_id AND k.operation = c.operation AND k.key = c.key
  AND k.generation = c.generation AND k.attempt = c.attempt
  AND k.status = 'in_progress' AND NOT (c.unless_charged AND k.dead_letter_hold >= 'decline')
  AND (c.tells OR coalesce((SELECT NOT t.tells FROM tenants AS t WHERE t.id = c.tenant_id), true))
RETURNING k.tenant_id, k.operation, k.key, k.expires_at

-- name: RecordPayments :many
UPDATE payments AS p
SET status = o.status, psp_charge_id = nullif(o.psp_charge_id, ''), decline_code = nullif(o.decline_code, ''),
    updated_at = CASE WHEN p.created_at < o.late THEN greatest(p.updated_at, o.at) ELSE p.updated_at END
FROM (
    SELECT unnest($1::uuid[]) AS id, unnest($2::text[]) AS status,
           unnest($3::text[]) AS psp_charge_id, unnest($4::text[]) AS decline_code,
           unnest($5::text[]) AS tenant_id, unnest($6::text[]) AS operation,
           unnest($7::text[]) AS key, unnest($8::integer[]) AS generation,
           unnest($9::integer[]) AS attempt, unnest($10::text[]) AS key_status,
           payonce_now() AS at, payonce_now() - interval '1 second' AS late
) AS o
WHERE o.key = o.key || '' AND p.tenant_id = o.tenant_id AND p.id = o.id
  AND p.status IN ('processing', 'failed') AND p.status <> o.status
  AND EXISTS (SELECT FROM idempotency_keys AS k
              WHERE k.tenant_id = o.tenant_id AND k.operation = o.operation AND k.key = o.key AND k.subject = o.id
                AND k.generation = o.generation AND k.attempt = o.attempt AND k.status = o.key_status)
RETURNING p.id

-- name: RecordAndTell :many
WITH recorded AS (
    UPDATE payments AS p
    SET status = o.status, psp_charge_id = nullif(o.psp_charge_id, ''), decline_code = nullif(o.decline_code, ''),
        updated_at = CASE WHEN p.created_at < o.late THEN greatest(p.updated_at, o.at) ELSE p.updated_at END
    FROM (
        SELECT unnest($1::uuid[]) AS id, unnest($2::text[]) AS status,
               unnest($3::text[]) AS psp_charge_id, unnest($4::text[]) AS decline_code,
               unnest($5::text[]) AS tenant_id, unnest($6::text[]) AS operation,
               unnest($7::text[]) AS key, unnest($8::integer[]) AS generation,
               unnest($9::integer[]) AS attempt, unnest($10::text[]) AS key_status,
               unnest($11::boolean[]) AS tells, payonce_now() AS at, payonce_now() - interval '1 second' AS late
    ) AS o, idempotency_keys AS k
    WHERE o.key = o.key || '' AND p.tenant_id = o.tenant_id AND p.id = o.id
      AND p.status IN ('processing', 'failed') AND p.status <> o.status
      AND k.tenant_id = o.tenant_id AND k.operation = o.operation AND k.key = o.key AND k.subject = o.id
      AND k.generation = o.generation AND k.attempt = o.attempt AND k.status = o.key_status
    RETURNING p.tenant_id, p.id, p.status, p.psp_charge_id, p.decline_code, p.refunded_minor, p.created_at,
              p.updated_at, o.tells, o.at, k.finished_at
), told AS (
    INSERT INTO events (
        tenant_id, payment_id, version, type, status, psp_charge_id, decline_code, refunded_minor, changed_at, disputes)
    SELECT r.tenant_id, r.id,
           greatest((extract(epoch FROM r.at) * 1000000)::bigint,
                    CASE WHEN r.updated_at IS NOT NULL THEN
                        (SELECT max(i.version) + 1 FROM events AS i
                         WHERE i.tenant_id = r.tenant_id AND i.payment_id = r.id) END),
           'payment.' || r.status, r.status, r.psp_charge_id, r.decline_code, r.refunded_minor,
           greatest(r.created_at, r.updated_at, r.finished_at),
           CASE WHEN r.updated_at IS NOT NULL THEN
               (SELECT jsonb_agg(i ORDER BY i.opened_at, i.psp_id) FROM disputes AS i
                WHERE i.tenant_id = r.tenant_id AND i.payment_id = r.id) END
    FROM recorded AS r
    WHERE r.tells
)
SELECT id FROM recorded

-- name: WriteEvents :exec
INSERT INTO events (
    tenant_id, payment_id, version, type, status, psp_charge_id, decline_code, refunded_minor, changed_at, disputes,
    refund, dispute_id)
SELECT p.tenant_id, p.id, greatest((SELECT max(i.version) + 1 FROM events AS i
                                    WHERE i.tenant_id = p.tenant_id AND i.payment_id = p.id),
                                   (extract(epoch FROM payonce_now()) * 1000000)::bigint), n.type, p.status,
       p.psp_charge_id, p.decline_code, p.refunded_minor, n.changed_at, d.disputes, r.refund, n.dispute_id
FROM (SELECT unnest($1::text[]) AS tenant_id, unnest($2::uuid[]) AS payment_id,
             unnest($3::text[]) AS object, unnest($4::uuid[]) AS refund_id,
             unnest($5::text[]) AS psp_id) AS e
JOIN payments AS p ON p.tenant_id = e.tenant_id AND p.id = e.payment_id
LEFT JOIN LATERAL (
    SELECT i.status, i.finished_at FROM idempotency_keys AS i
    WHERE i.tenant_id = p.tenant_id AND i.operation = 'POST /payments' AND i.key = p.idempotency_key
      AND i.subject = p.id) AS k ON true
LEFT JOIN LATERAL (
    SELECT i.id, i.status, i.origin, i.idempotency_key, to_jsonb(i) AS refund FROM refunds AS i
    WHERE e.object = 'refund' AND e.psp_id = '' AND i.tenant_id = p.tenant_id AND i.id = e.refund_id
      AND i.payment_id = p.id
    UNION ALL
    SELECT i.id, i.status, i.origin, i.idempotency_key, to_jsonb(i) FROM refunds AS i
    WHERE e.object = 'refund' AND e.psp_id <> '' AND i.tenant_id = p.tenant_id AND i.psp_refund_id = e.psp_id
      AND i.origin = 'provider' AND i.payment_id = p.id) AS r ON true
LEFT JOIN LATERAL (
    SELECT jsonb_agg(i ORDER BY i.opened_at, i.psp_id) AS disputes, max(i.updated_at) AS changed_at,
           max(i.status) FILTER (WHERE i.psp_id = e.psp_id) AS status
    FROM disputes AS i WHERE i.tenant_id = p.tenant_id AND i.payment_id = p.id) AS d ON true
CROSS JOIN LATERAL (
    SELECT CASE
           WHEN e.object = 'charge' THEN 'payment.' || CASE
               WHEN p.status <> 'processing' THEN p.status WHEN k.status = 'unknown' THEN 'unknown' END
           WHEN e.object = 'refund' THEN 'refund.' || CASE
               WHEN r.status = 'reversed' THEN 'failed'
               WHEN r.status <> 'processing' OR r.origin = 'provider' THEN r.status
               WHEN (SELECT i.status FROM idempotency_keys AS i
                     WHERE i.tenant_id = p.tenant_id AND i.operation = 'POST /payments/{id}/refunds'
                       AND i.key = r.idempotency_key AND i.subject = r.id) = 'unknown'
                   THEN 'unknown' END
           WHEN e.object = 'dispute' THEN 'dispute.' || d.status END AS type,
           CASE WHEN e.object = 'dispute' THEN e.psp_id END AS dispute_id,
           greatest(p.created_at, p.updated_at, d.changed_at,
                    CASE WHEN p.status <> 'processing' THEN k.finished_at END) AS changed_at) AS n
WHERE e.object = e.object || '' AND (SELECT t.tells FROM tenants AS t WHERE t.id = e.tenant_id) AND n.type IS NOT NULL
  AND NOT EXISTS (SELECT FROM events AS i
                  WHERE i.tenant_id = p.tenant_id AND i.payment_id = p.id AND i.type = n.type
                    AND (i.psp_charge_id, i.decline_code, i.refund, i.dispute_id)
                        IS NOT DISTINCT FROM (p.psp_charge_id, p.decline_code, r.refund, n.dispute_id)
                    AND (e.object <> 'dispute' OR i.disputes IS NOT DISTINCT FROM d.disputes)
                    AND (p.status IN ('succeeded', 'declined') OR i.changed_at = n.changed_at)
                  OFFSET 0)

-- name: LockPayment :exec
SELECT p.id FROM payments AS p
WHERE p.tenant_id = $1 AND p.id = $2
  AND ($3::uuid IS NULL
       OR EXISTS (SELECT FROM idempotency_keys AS k
                  WHERE k.tenant_id = $1 AND k.operation = $4 AND k.key = $5
                    AND k.lease_id = $3))
FOR UPDATE OF p

-- name: BeginRefund :one
INSERT INTO refunds (
    tenant_id, id, payment_id, idempotency_key, generation, amount_minor, currency, reason, status)
SELECT p.tenant_id, $1, p.id, $2, k.generation,
       coalesce($3::bigint, p.amount_minor - p.refund_held_minor - p.moved_outside_minor),
       p.currency, $4, 'processing'
FROM payments AS p, idempotency_keys AS k
WHERE p.tenant_id = $5 AND p.id = $6 AND p.status = 'succeeded'
  AND k.tenant_id = $5 AND k.operation = $7 AND k.key = $2 AND k.lease_id = $8
  AND k.subject = $1 AND k.status = 'in_progress'
  AND NOT EXISTS (SELECT FROM refunds AS r WHERE r.tenant_id = $5 AND r.id = $1)
ON CONFLICT (tenant_id, id) DO NOTHING
RETURNING tenant_id, id, payment_id, origin, idempotency_key, generation, amount_minor, currency, reason, status, psp_refund_id, decline_code, created_at, updated_at

-- name: TallyRefunds :exec
UPDATE payments AS p
SET refund_held_minor = t.held, refunded_minor = t.refunded, moved_outside_minor = t.outside, updated_at = payonce_now()
FROM (SELECT r.held::bigint AS held, least(r.refunded, 1000000000000000000)::bigint AS refunded,
             least(r.elsewhere + d.disputed, 1000000000000000000)::bigint AS outside
      FROM payments AS charged
      CROSS JOIN LATERAL (
          SELECT coalesce(sum(s.amount) FILTER (WHERE i.origin = 'api'), 0) AS held,
                 coalesce(sum(s.amount) FILTER (WHERE i.status = 'succeeded'), 0) AS refunded,
                 coalesce(sum(s.amount) FILTER (WHERE i.origin = 'provider'), 0) AS elsewhere
          FROM refunds AS i
          CROSS JOIN LATERAL (SELECT CASE WHEN i.currency = charged.currency THEN i.amount_minor
                                          ELSE charged.amount_minor END AS amount) AS s
          WHERE i.tenant_id = $1 AND i.payment_id = charged.id AND i.status IN ('processing', 'succeeded')
            AND (i.origin = 'api' OR
                 (SELECT own.id FROM refunds AS own
                  WHERE own.tenant_id = $1 AND own.psp_refund_id = i.psp_refund_id AND own.origin = 'api'
                    AND own.status IN ('succeeded', 'reversed')) IS NULL AND
                 (SELECT own.id FROM refunds AS own
                  WHERE own.tenant_id = $1 AND own.psp_refund_id = 'operator:' || i.psp_refund_id
                    AND own.origin = 'api') IS NULL)
      ) AS r
      CROSS JOIN LATERAL (
          SELECT coalesce(sum(CASE WHEN i.currency = charged.currency THEN i.amount_minor
                                   ELSE charged.amount_minor END), 0) AS disputed
          FROM disputes AS i
          WHERE i.tenant_id = $1 AND i.payment_id = charged.id
            AND i.status IN ('needs_response', 'under_review', 'lost')
      ) AS d
      WHERE charged.tenant_id = $1 AND charged.id = $2) AS t
WHERE p.tenant_id = $1 AND p.id = $2
  AND ((p.refund_held_minor, p.refunded_minor, p.moved_outside_minor) IS DISTINCT FROM (t.held, t.refunded, t.outside)
       OR p.updated_at IS NULL AND p.status <> 'succeeded')

-- name: RecordRefund :one
WITH recorded AS (
    UPDATE refunds AS r
    SET status = $1, psp_refund_id = $2, decline_code = $3,
        updated_at = payonce_now()
    WHERE r.tenant_id = $4 AND r.id = $5 AND r.status IN ('processing', 'failed') AND r.status <> $1
      AND EXISTS (SELECT FROM idempotency_keys AS k
                  WHERE k.tenant_id = $4 AND k.operation = $6 AND k.key = $7 AND k.subject = $5
                    AND k.generation = $8 AND k.attempt = $9 AND k.status = $10)
    RETURNING r.tenant_id, r.payment_id, r.status
), seemed_of_others AS (
    UPDATE refunds AS o SET status = 'reversed', updated_at = payonce_now()
    FROM recorded AS r
    WHERE r.status = 'declined' AND o.tenant_id = $4 AND o.tenant_id = r.tenant_id
      AND o.psp_refund_id = $2::text AND o.origin = 'provider' AND o.status <> 'reversed'
      AND (o.payment_id = r.payment_id) IS TRUE
)
SELECT count(*) FROM recorded

-- name: FindKey :one
SELECT payonce_now()::timestamptz AS read_at, k.tenant_id, k.operation, k.key, k.status, k.fingerprint, k.attempt, k.generation, k.lease_id, k.subject, k.dead_letter_hold, k.created_at, k.reserved_at, k.locked_until, k.reconcile_after, k.unknown_since, k.lookup_failures, k.finished_at, k.expires_at, k.delete_after, k.response_status, k.response_content_type, k.response_location, k.response_schema_version, k.response_body
FROM idempotency_keys AS k WHERE k.tenant_id = $1 AND k.operation = $2 AND k.key = $3

-- name: GetPayment :one
SELECT tenant_id, id, idempotency_key, generation, customer_id, amount_minor, currency, payment_method, description, metadata, reference, status, psp_object_id, psp_charge_id, decline_code, refund_held_minor, refunded_minor, moved_outside_minor, updated_at, created_at FROM payments WHERE tenant_id = $1 AND id = $2

-- name: FindRefund :one
SELECT r.tenant_id, r.id, r.payment_id, r.origin, r.idempotency_key, r.generation, r.amount_minor, r.currency, r.reason, r.status, r.psp_refund_id, r.decline_code, r.created_at, r.updated_at, p.tenant_id, p.id, p.idempotency_key, p.generation, p.customer_id, p.amount_minor, p.currency, p.payment_method, p.description, p.metadata, p.reference, p.status, p.psp_object_id, p.psp_charge_id, p.decline_code, p.refund_held_minor, p.refunded_minor, p.moved_outside_minor, p.updated_at, p.created_at, t.psp, t.psp_account, t.tells
FROM refunds AS r JOIN payments AS p ON p.tenant_id = r.tenant_id JOIN tenants AS t ON t.id = r.tenant_id
WHERE r.tenant_id = $1
  AND r.id = coalesce($2::uuid, (SELECT k.subject FROM idempotency_keys AS k
      WHERE k.tenant_id = $1 AND k.operation = $3 AND k.key = $4))
  AND p.id = (SELECT i.payment_id FROM refunds AS i WHERE i.tenant_id = $1
      AND i.id = coalesce($2::uuid, (SELECT k.subject FROM idempotency_keys AS k
          WHERE k.tenant_id = $1 AND k.operation = $3 AND k.key = $4)))
