-- Payments and refunds. A statement of the request path follows a statement of package idempotency in one transaction,
-- and joins the key or checks it by EXISTS: without the key's transition nothing is written. idempotency.sql explains
-- arrays and key || '', and ListUndecided there DISTINCT ON. An id from a subquery has the same reason.

-- name: BeginPayments :many
-- none -> processing: writes the payments of the keys that were just reserved, after ReserveKeys or RenewKey. For a
-- reservation that is sent again, the payment exists already: nothing is written, and no row is returned.
INSERT INTO payments (
    tenant_id, id, idempotency_key, generation, customer_id, amount_minor, currency,
    payment_method, description, metadata, reference, status)
SELECT k.tenant_id, b.id, b.key, k.generation, b.customer_id, b.amount_minor, b.currency,
       b.payment_method, nullif(b.description, ''), b.metadata, nullif(b.reference, ''), 'processing'
FROM (
    SELECT unnest(@ids::uuid[]) AS id, unnest(@tenant_ids::text[]) AS tenant_id,
           unnest(@operations::text[]) AS operation, unnest(@keys::text[]) AS key,
           unnest(@lease_ids::uuid[]) AS lease_id,
           unnest(@customer_ids::text[]) AS customer_id, unnest(@amounts_minor::bigint[]) AS amount_minor,
           unnest(@currencies::text[]) AS currency, unnest(@payment_methods::text[]) AS payment_method,
           unnest(@descriptions::text[]) AS description, unnest(@metadata::jsonb[]) AS metadata,
           unnest(sqlc.arg('references')::text[]) AS reference
) AS b JOIN idempotency_keys AS k ON k.tenant_id = b.tenant_id AND k.operation = b.operation AND k.key = b.key
WHERE b.key = b.key || '' AND k.lease_id = b.lease_id AND k.subject = b.id AND k.status = 'in_progress'
ON CONFLICT (tenant_id, id) DO NOTHING
RETURNING *;

-- name: ResumePayment :one
-- failed -> processing, after RetakeKey. The PSP's object of the failed attempt is cleared: this attempt makes its own.
UPDATE payments AS p SET status = 'processing', psp_object_id = NULL, updated_at = payonce_now()
WHERE p.tenant_id = @tenant_id AND p.id = @id AND p.status = 'failed'
  AND EXISTS (SELECT FROM idempotency_keys AS k
              WHERE k.tenant_id = @tenant_id AND k.operation = @operation AND k.key = @key AND k.lease_id = @lease_id
                AND k.subject = @id AND k.status = 'in_progress')
RETURNING *;

-- name: RememberObject :execrows
-- processing -> processing: stores the id of the PSP's object, after the object was made and before it is executed, by
-- the owner of the lease. Competes with the sweeper, ExpireLease and evidence: they move the key, and a key that has
-- moved is no longer in progress. A statement that is sent again after a lost acknowledgement finds its own id and
-- passes. Another id is never replaced. If no row is written, the owner must not execute the object.
UPDATE payments AS p SET psp_object_id = sqlc.arg(object_id)::text
WHERE p.tenant_id = @tenant_id AND p.id = @id AND p.status = 'processing'
  AND (p.psp_object_id IS NULL OR p.psp_object_id = sqlc.arg(object_id)::text)
  AND EXISTS (SELECT FROM idempotency_keys AS k
              WHERE k.tenant_id = @tenant_id AND k.operation = @operation AND k.key = @key AND k.lease_id = @lease_id
                AND k.subject = @id AND k.status = 'in_progress');

-- name: RecordPayments :many
-- processing | failed -> succeeded | declined | failed: writes the outcomes, after the transitions of the keys. A
-- payment that is not returned was not written. updated_at is written only for an outcome that comes a second after the
-- payment, or later: it outlives the key, which has the time of each outcome. Both times come with the outcomes.
UPDATE payments AS p
SET status = o.status, psp_charge_id = nullif(o.psp_charge_id, ''), decline_code = nullif(o.decline_code, ''),
    updated_at = CASE WHEN p.created_at < o.late THEN greatest(p.updated_at, o.at) ELSE p.updated_at END
FROM (
    SELECT unnest(@ids::uuid[]) AS id, unnest(@statuses::text[]) AS status,
           unnest(@psp_charge_ids::text[]) AS psp_charge_id, unnest(@decline_codes::text[]) AS decline_code,
           unnest(@tenant_ids::text[]) AS tenant_id, unnest(@operations::text[]) AS operation,
           unnest(@keys::text[]) AS key, unnest(@generations::integer[]) AS generation,
           unnest(@attempts::integer[]) AS attempt, unnest(@key_statuses::text[]) AS key_status,
           payonce_now() AS at, payonce_now() - interval '1 second' AS late
) AS o
WHERE o.key = o.key || '' AND p.tenant_id = o.tenant_id AND p.id = o.id
  AND p.status IN ('processing', 'failed') AND p.status <> o.status
  AND EXISTS (SELECT FROM idempotency_keys AS k
              WHERE k.tenant_id = o.tenant_id AND k.operation = o.operation AND k.key = o.key AND k.subject = o.id
                AND k.generation = o.generation AND k.attempt = o.attempt AND k.status = o.key_status)
RETURNING p.id;

-- name: RecordAndTell :many
-- RecordPayments for the path of a payment, where each lookup counts: the owners of keys have completed payments, of
-- which some belong to tenants that want events. What WriteEvents tells of these is told by the statement that writes
-- it. A payment that nothing has changed before has neither an earlier event nor a dispute.
WITH recorded AS (
    UPDATE payments AS p
    SET status = o.status, psp_charge_id = nullif(o.psp_charge_id, ''), decline_code = nullif(o.decline_code, ''),
        updated_at = CASE WHEN p.created_at < o.late THEN greatest(p.updated_at, o.at) ELSE p.updated_at END
    FROM (
        SELECT unnest(@ids::uuid[]) AS id, unnest(@statuses::text[]) AS status,
               unnest(@psp_charge_ids::text[]) AS psp_charge_id, unnest(@decline_codes::text[]) AS decline_code,
               unnest(@tenant_ids::text[]) AS tenant_id, unnest(@operations::text[]) AS operation,
               unnest(@keys::text[]) AS key, unnest(@generations::integer[]) AS generation,
               unnest(@attempts::integer[]) AS attempt, unnest(@key_statuses::text[]) AS key_status,
               unnest(@tells::boolean[]) AS tells, payonce_now() AS at, payonce_now() - interval '1 second' AS late
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
SELECT id FROM recorded;

-- name: WriteEvents :exec
-- Tells what has become of movements, after the statements of a step, in their transaction: for tenants that want
-- events, one row for each payment, with what can change of it. What is told is read from the rows and never taken from
-- the caller, so nothing is told that the transaction does not commit. If the step did not pass, or is sent again, an
-- earlier event has told what the rows say, and nothing is written. A movement that is processing is told only when
-- its key is unknown, and once more if a dispute has come meanwhile.
--
-- The payment's row must be locked by this transaction, so that a greater version is never older. CompleteKeys explains
-- the comparison of object. OFFSET 0 and the subselects keep PostgreSQL from reading all events, or all payments of a
-- tenant, to join them.
INSERT INTO events (
    tenant_id, payment_id, version, type, status, psp_charge_id, decline_code, refunded_minor, changed_at, disputes,
    refund, dispute_id)
SELECT p.tenant_id, p.id, greatest((SELECT max(i.version) + 1 FROM events AS i
                                    WHERE i.tenant_id = p.tenant_id AND i.payment_id = p.id),
                                   (extract(epoch FROM payonce_now()) * 1000000)::bigint), n.type, p.status,
       p.psp_charge_id, p.decline_code, p.refunded_minor, n.changed_at, d.disputes, r.refund, n.dispute_id
FROM (SELECT unnest(@tenant_ids::text[]) AS tenant_id, unnest(@payment_ids::uuid[]) AS payment_id,
             unnest(@objects::text[]) AS object, unnest(@refund_ids::uuid[]) AS refund_id,
             unnest(@psp_ids::text[]) AS psp_id) AS e
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
                  OFFSET 0);

-- name: ReadEvents :many
-- Events, with what never changes of their payments.
SELECT sqlc.embed(p), e.version, e.type, e.status, e.psp_charge_id, e.decline_code, e.refunded_minor, e.changed_at,
       e.disputes, e.refund, e.dispute_id
FROM (SELECT unnest(@payment_ids::uuid[]) AS payment_id, unnest(@versions::bigint[]) AS version) AS asked
CROSS JOIN LATERAL (SELECT DISTINCT ON (i.tenant_id) * FROM events AS i
                    WHERE i.tenant_id = @tenant_id AND i.payment_id = asked.payment_id
                      AND i.version = asked.version) AS e
JOIN payments AS p ON p.tenant_id = e.tenant_id AND p.id = e.payment_id
WHERE asked.version + 0 = asked.version;

-- name: LockLost :many
-- The payments of keys that this transaction has made unknown, if their tenants want events. Their rows are locked. A
-- row that another transaction has locked is left out: the sweep has locked many keys, and must not wait while it holds
-- them. The first lookup that does not resolve the key tells of it.
WITH lost AS MATERIALIZED (
    SELECT e.tenant_id, CASE WHEN e.refund THEN e.subject ELSE '00000000-0000-0000-0000-000000000000' END AS refund_id,
           CASE WHEN e.refund THEN r.payment_id ELSE e.subject END AS payment_id
    FROM (SELECT unnest(@tenant_ids::text[]) AS tenant_id, unnest(@refunds::boolean[]) AS refund,
                 unnest(@subjects::uuid[]) AS subject) AS e
    JOIN tenants AS t ON t.id = e.tenant_id AND t.tells
    LEFT JOIN LATERAL (SELECT DISTINCT ON (i.tenant_id) * FROM refunds AS i
                       WHERE i.tenant_id = e.tenant_id AND i.id = e.subject) AS r ON true
)
SELECT p.tenant_id, p.id, l.refund_id::uuid AS refund_id
FROM lost AS l JOIN payments AS p ON p.tenant_id = l.tenant_id AND p.id = l.payment_id
ORDER BY p.tenant_id, p.id, l.refund_id FOR NO KEY UPDATE OF p SKIP LOCKED;

-- name: GetPayment :one
SELECT * FROM payments WHERE tenant_id = @tenant_id AND id = @id;

-- name: ReadLives :many
-- What became of payments after their charge, and when their keys were finished.
SELECT asked.id::uuid AS id,
       coalesce((SELECT jsonb_agg(d ORDER BY d.opened_at, d.psp_id) FROM disputes AS d
                 WHERE d.tenant_id = @tenant_id AND d.payment_id = asked.id), '[]')::jsonb AS disputes,
       coalesce((SELECT k.finished_at FROM idempotency_keys AS k
                 WHERE k.tenant_id = @tenant_id AND k.operation = 'POST /payments' AND k.key = asked.key
                   AND k.subject = asked.id), 'epoch')::timestamptz AS finished_at
FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@keys::text[]) AS key) AS asked;

-- name: ListPayments :many
-- Newest first: ids are UUIDv7. created_at is compared exactly. oldest and before only bound the part of the index that
-- is read. One of the three parts reads: all payments of a tenant by the primary key, those of one customer by
-- payments_by_customer, or those with one reference by payments_by_reference. In one part, a plan that does not know
-- the parameters would read the whole tenant.
(SELECT p.* FROM payments AS p
 WHERE p.tenant_id = @tenant_id AND p.id < @before AND p.id >= @oldest
   AND (sqlc.narg(created_after)::timestamptz IS NULL OR p.created_at >= sqlc.narg(created_after))
   AND (sqlc.narg(created_before)::timestamptz IS NULL OR p.created_at < sqlc.narg(created_before))
   AND (sqlc.narg(status)::text IS NULL OR p.status = sqlc.narg(status))
   AND sqlc.narg(customer_id)::text IS NULL AND sqlc.narg(reference)::text IS NULL
 ORDER BY p.id DESC LIMIT @max_rows)
UNION ALL
(SELECT c.* FROM payments AS c
 WHERE c.tenant_id = @tenant_id AND c.id < @before AND c.id >= @oldest
   AND (sqlc.narg(created_after)::timestamptz IS NULL OR c.created_at >= sqlc.narg(created_after))
   AND (sqlc.narg(created_before)::timestamptz IS NULL OR c.created_at < sqlc.narg(created_before))
   AND (sqlc.narg(status)::text IS NULL OR c.status = sqlc.narg(status))
   AND c.customer_id = sqlc.narg(customer_id) AND sqlc.narg(reference)::text IS NULL
 ORDER BY c.id DESC LIMIT @max_rows)
UNION ALL
(SELECT r.* FROM payments AS r
 WHERE r.tenant_id = @tenant_id AND r.id < @before AND r.id >= @oldest
   AND (sqlc.narg(created_after)::timestamptz IS NULL OR r.created_at >= sqlc.narg(created_after))
   AND (sqlc.narg(created_before)::timestamptz IS NULL OR r.created_at < sqlc.narg(created_before))
   AND (sqlc.narg(status)::text IS NULL OR r.status = sqlc.narg(status))
   AND (sqlc.narg(customer_id)::text IS NULL OR r.customer_id = sqlc.narg(customer_id))
   AND r.reference = sqlc.narg(reference)
 ORDER BY r.id DESC LIMIT @max_rows)
ORDER BY id DESC;

-- name: LockPayment :exec
-- Locks the payment, so that its totals change one after the other. With a lease, only the owner of the key takes the
-- lock: a replay does not. Without a lease, it is about what others have done to the payment.
SELECT p.id FROM payments AS p
WHERE p.tenant_id = @tenant_id AND p.id = @id
  AND (sqlc.narg(lease_id)::uuid IS NULL
       OR EXISTS (SELECT FROM idempotency_keys AS k
                  WHERE k.tenant_id = @tenant_id AND k.operation = @operation AND k.key = @key
                    AND k.lease_id = sqlc.narg(lease_id)))
FOR UPDATE OF p;

-- name: BeginRefund :one
-- none -> processing: writes the refund of the key that was just reserved. Without an amount, it refunds all that other
-- refunds do not hold and others have not moved. If nothing is left, the amount is not positive, and
-- refunds_amount_positive refuses it.
--
-- For a reservation that is sent again, the refund exists already. Then nothing may be left for a second row, and the
-- CHECK would fail before ON CONFLICT is reached. NOT EXISTS prevents this.
INSERT INTO refunds (
    tenant_id, id, payment_id, idempotency_key, generation, amount_minor, currency, reason, status)
SELECT p.tenant_id, @id, p.id, @idempotency_key, k.generation,
       coalesce(sqlc.narg(amount_minor)::bigint, p.amount_minor - p.refund_held_minor - p.moved_outside_minor),
       p.currency, sqlc.narg(reason), 'processing'
FROM payments AS p, idempotency_keys AS k
WHERE p.tenant_id = @tenant_id AND p.id = @payment_id AND p.status = 'succeeded'
  AND k.tenant_id = @tenant_id AND k.operation = @operation AND k.key = @idempotency_key AND k.lease_id = @lease_id
  AND k.subject = @id AND k.status = 'in_progress'
  AND NOT EXISTS (SELECT FROM refunds AS r WHERE r.tenant_id = @tenant_id AND r.id = @id)
ON CONFLICT (tenant_id, id) DO NOTHING
RETURNING *;

-- name: ResumeRefund :one
-- failed -> processing, after RetakeKey.
UPDATE refunds AS r SET status = 'processing', updated_at = payonce_now()
WHERE r.tenant_id = @tenant_id AND r.id = @id AND r.status = 'failed'
  AND EXISTS (SELECT FROM idempotency_keys AS k
              WHERE k.tenant_id = @tenant_id AND k.operation = @operation AND k.key = @key AND k.lease_id = @lease_id
                AND k.subject = @id AND k.status = 'in_progress')
RETURNING *;

-- name: RecordRefund :one
-- processing | failed -> succeeded | declined | failed: writes the outcome, after the transition of the key. What was
-- told without our marks, before we knew the PSP's id, seemed to be a refund of others. If ours is declined, that one
-- ends, too. IS TRUE keeps PostgreSQL from the index by payments: it would read all refunds of the tenant.
WITH recorded AS (
    UPDATE refunds AS r
    SET status = @status, psp_refund_id = sqlc.narg(psp_refund_id), decline_code = sqlc.narg(decline_code),
        updated_at = payonce_now()
    WHERE r.tenant_id = @tenant_id AND r.id = @id AND r.status IN ('processing', 'failed') AND r.status <> @status
      AND EXISTS (SELECT FROM idempotency_keys AS k
                  WHERE k.tenant_id = @tenant_id AND k.operation = @operation AND k.key = @key AND k.subject = @id
                    AND k.generation = @generation AND k.attempt = @attempt AND k.status = @key_status)
    RETURNING r.tenant_id, r.payment_id, r.status
), seemed_of_others AS (
    UPDATE refunds AS o SET status = 'reversed', updated_at = payonce_now()
    FROM recorded AS r
    WHERE r.status = 'declined' AND o.tenant_id = @tenant_id AND o.tenant_id = r.tenant_id
      AND o.psp_refund_id = sqlc.narg(psp_refund_id)::text AND o.origin = 'provider' AND o.status <> 'reversed'
      AND (o.payment_id = r.payment_id) IS TRUE
)
SELECT count(*) FROM recorded;

-- name: TallyRefunds :exec
-- Computes the payment's totals from its refunds and disputes, after a statement that changed one of them. The totals
-- are computed and not added to, so running it twice does no harm. If refunds of ours exceed what is left of the
-- payment, payments_refunds_within_amount ends the whole transaction. A refund of others that turns out to be one of
-- ours counts as ours alone. What has moved in another currency counts as the whole payment, because nobody can convert
-- it here. A payment without an outcome has updated_at then, if only an inquiry has changed it: RecordAndTell asks for
-- that. The payment's row must be locked before.
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
          WHERE i.tenant_id = @tenant_id AND i.payment_id = charged.id AND i.status IN ('processing', 'succeeded')
            AND (i.origin = 'api' OR
                 (SELECT own.id FROM refunds AS own
                  WHERE own.tenant_id = @tenant_id AND own.psp_refund_id = i.psp_refund_id AND own.origin = 'api'
                    AND own.status IN ('succeeded', 'reversed')) IS NULL AND
                 (SELECT own.id FROM refunds AS own
                  WHERE own.tenant_id = @tenant_id AND own.psp_refund_id = 'operator:' || i.psp_refund_id
                    AND own.origin = 'api') IS NULL)
      ) AS r
      CROSS JOIN LATERAL (
          SELECT coalesce(sum(CASE WHEN i.currency = charged.currency THEN i.amount_minor
                                   ELSE charged.amount_minor END), 0) AS disputed
          FROM disputes AS i
          WHERE i.tenant_id = @tenant_id AND i.payment_id = charged.id
            AND i.status IN ('needs_response', 'under_review', 'lost')
      ) AS d
      WHERE charged.tenant_id = @tenant_id AND charged.id = @payment_id) AS t
WHERE p.tenant_id = @tenant_id AND p.id = @payment_id
  AND ((p.refund_held_minor, p.refunded_minor, p.moved_outside_minor) IS DISTINCT FROM (t.held, t.refunded, t.outside)
       OR p.updated_at IS NULL AND p.status <> 'succeeded');

-- name: RecordRefundElsewhere :exec
-- none | processing | succeeded -> processing | succeeded | reversed: stores a refund that others have made at the PSP.
-- Competes with other evidence of the same object, which may be older: the later status wins. What seems to be of
-- others may have turned out, since it was judged, to be a refund of ours that is declined.
INSERT INTO refunds AS r (
    tenant_id, id, payment_id, origin, amount_minor, currency, status, psp_refund_id, decline_code, created_at,
    updated_at)
SELECT p.tenant_id, @id, p.id, 'provider', @amount_minor, @currency,
       CASE WHEN @seems_of_others::boolean AND EXISTS (
                     SELECT FROM refunds AS own
                     WHERE own.tenant_id = p.tenant_id AND own.psp_refund_id = @psp_refund_id::text
                       AND own.origin = 'api' AND own.status = 'declined')
            THEN 'reversed' ELSE @status::text END,
       @psp_refund_id::text, sqlc.narg(decline_code), @created_at, payonce_now()
FROM payments AS p WHERE p.tenant_id = @tenant_id AND p.id = @payment_id
ON CONFLICT (tenant_id, psp_refund_id, origin) WHERE psp_refund_id IS NOT NULL DO UPDATE
SET status = excluded.status, decline_code = excluded.decline_code, updated_at = excluded.updated_at
WHERE r.payment_id = excluded.payment_id
  AND array_position(ARRAY['processing', 'succeeded', 'reversed'], excluded.status)
    > array_position(ARRAY['processing', 'succeeded', 'reversed'], r.status);

-- name: ReverseRefund :exec
-- succeeded -> reversed: the money of a refund of ours has come back. The payment's row must be locked before. IS TRUE
-- as in NameMovement.
UPDATE refunds AS r
SET status = 'reversed', psp_refund_id = @psp_refund_id::text, decline_code = sqlc.narg(decline_code),
    updated_at = payonce_now()
WHERE r.tenant_id = @tenant_id AND r.id = @id AND r.status = 'succeeded'
  AND (r.psp_refund_id IN (@psp_refund_id::text, 'operator:' || @psp_refund_id::text)) IS TRUE;

-- name: RecordDispute :exec
-- Stores a dispute. Competes with other evidence of the same object, which may be older: the later status wins, unless
-- an operator has found out which of two ends is true (overrules). Of the same status, what the PSP tells of the
-- dispute itself is taken; a line of a statement has neither reason nor dates.
INSERT INTO disputes AS d (
    tenant_id, payment_id, psp_id, amount_minor, currency, reason, status, evidence_due_by, opened_at, updated_at)
VALUES (@tenant_id, @payment_id, @psp_id, @amount_minor, @currency, sqlc.narg(reason), @status,
        sqlc.narg(evidence_due_by), @opened_at, payonce_now())
ON CONFLICT (tenant_id, payment_id, psp_id) DO UPDATE
SET amount_minor = excluded.amount_minor, currency = excluded.currency, reason = coalesce(excluded.reason, d.reason),
    status = excluded.status, evidence_due_by = coalesce(excluded.evidence_due_by, d.evidence_due_by),
    opened_at = least(excluded.opened_at, d.opened_at), updated_at = excluded.updated_at
WHERE array_position(ARRAY['inquiry', 'needs_response', 'under_review', 'won', 'closed', 'lost'], excluded.status)
    > array_position(ARRAY['inquiry', 'needs_response', 'under_review', 'won', 'closed', 'lost'], d.status)
   OR @overrules::boolean
   OR excluded.status = d.status AND excluded.reason IS NOT NULL
      AND (excluded.amount_minor, excluded.currency, excluded.reason,
           coalesce(excluded.evidence_due_by, d.evidence_due_by), least(excluded.opened_at, d.opened_at))
          IS DISTINCT FROM (d.amount_minor, d.currency, d.reason, d.evidence_due_by, d.opened_at);

-- name: ListRefunds :many
-- The refunds of one payment, newest first. A refund of others that turned out to be one of ours is listed as ours,
-- unless ours is declined, and that one holds its share.
SELECT r.* FROM refunds AS r
WHERE r.tenant_id = @tenant_id AND r.payment_id = @payment_id AND r.id < @before
  AND (r.origin = 'api' OR
       (SELECT own.id FROM refunds AS own
        WHERE own.tenant_id = @tenant_id AND own.psp_refund_id = r.psp_refund_id AND own.origin = 'api'
          AND (own.status <> 'declined' OR r.status = 'reversed')) IS NULL AND
       (SELECT own.id FROM refunds AS own
        WHERE own.tenant_id = @tenant_id AND own.psp_refund_id = 'operator:' || r.psp_refund_id
          AND own.origin = 'api') IS NULL)
ORDER BY r.id DESC
LIMIT @max_rows;

-- name: NameMovement :exec
-- Stores the PSP's id of a charge or refund that an operator has confirmed without knowing the id. Competes with other
-- evidence: the first id stays. IS TRUE keeps PostgreSQL from the index of the PSP's ids: it would read all ids of the
-- tenant. The object is asked in a subquery, so each of the two statements finds its row by id, or none.
WITH charge AS (
    UPDATE payments AS p SET psp_charge_id = @psp_id::text
    WHERE p.tenant_id = @tenant_id AND p.id = (SELECT @id::uuid WHERE sqlc.arg(object)::text = 'charge')
      AND starts_with(p.psp_charge_id, 'operator:') IS TRUE
    RETURNING p.id
), refund AS (
    UPDATE refunds AS r SET psp_refund_id = @psp_id::text
    WHERE r.tenant_id = @tenant_id AND r.id = (SELECT @id::uuid WHERE sqlc.arg(object)::text = 'refund')
      AND starts_with(r.psp_refund_id, 'operator:') IS TRUE
    RETURNING r.id
)
SELECT id FROM charge UNION ALL SELECT id FROM refund;

-- name: FindPayment :one
-- The payment that evidence is about, with its tenant's provider and account there. Without an id, it is the payment
-- that the key stands for now, for a pipeline that also reads the key.
SELECT sqlc.embed(p), t.psp, t.psp_account, t.tells
FROM payments AS p JOIN tenants AS t ON t.id = p.tenant_id
WHERE p.tenant_id = @tenant_id
  AND p.id = coalesce(sqlc.narg(id)::uuid, (SELECT k.subject FROM idempotency_keys AS k
      WHERE k.tenant_id = @tenant_id AND k.operation = @operation AND k.key = @key));

-- name: FindRefund :one
-- FindPayment for a refund, with its payment.
SELECT sqlc.embed(r), sqlc.embed(p), t.psp, t.psp_account, t.tells
FROM refunds AS r JOIN payments AS p ON p.tenant_id = r.tenant_id JOIN tenants AS t ON t.id = r.tenant_id
WHERE r.tenant_id = @tenant_id
  AND r.id = coalesce(sqlc.narg(id)::uuid, (SELECT k.subject FROM idempotency_keys AS k
      WHERE k.tenant_id = @tenant_id AND k.operation = @operation AND k.key = @key))
  AND p.id = (SELECT i.payment_id FROM refunds AS i WHERE i.tenant_id = @tenant_id
      AND i.id = coalesce(sqlc.narg(id)::uuid, (SELECT k.subject FROM idempotency_keys AS k
          WHERE k.tenant_id = @tenant_id AND k.operation = @operation AND k.key = @key)));

-- name: OtherMovementsOfKey :many
-- Which of these payments or refunds have this key and generation, but are not the payment or refund that the key
-- stands for now (subject). booked: our books say that it was executed.
SELECT p.id, (p.status = 'succeeded')::boolean AS booked FROM (SELECT unnest(@ids::uuid[]) AS id) AS asked
CROSS JOIN LATERAL (SELECT DISTINCT ON (i.tenant_id) * FROM payments AS i
                    WHERE i.tenant_id = @tenant_id AND i.id = asked.id) AS p
WHERE sqlc.arg(object)::text = 'charge' AND p.id <> @subject::uuid
  AND p.idempotency_key = @key::text AND p.generation = @generation::integer
UNION ALL
SELECT r.id, (r.status = 'succeeded')::boolean FROM (SELECT unnest(@ids::uuid[]) AS id) AS asked
CROSS JOIN LATERAL (SELECT DISTINCT ON (i.tenant_id) * FROM refunds AS i
                    WHERE i.tenant_id = @tenant_id AND i.id = asked.id) AS r
WHERE sqlc.arg(object)::text = 'refund' AND r.id <> @subject::uuid
  AND r.idempotency_key = @key::text AND r.generation = @generation::integer;

-- name: PSPIDTaken :one
-- Whether a payment or refund of the tenant has this id of the PSP's.
SELECT (sqlc.arg(object)::text = 'charge' AND EXISTS (
           SELECT FROM payments AS p WHERE p.tenant_id = @tenant_id AND p.psp_charge_id = @psp_id::text)
        OR sqlc.arg(object)::text = 'refund' AND EXISTS (
           SELECT FROM refunds AS r
           WHERE r.tenant_id = @tenant_id AND r.psp_refund_id = @psp_id::text AND r.origin = 'api')
       )::boolean AS taken;

-- name: BookedMovements :many
-- What our books say about the payments or refunds with these ids that belong to the tenant of the account.
SELECT p.tenant_id, p.id, p.idempotency_key, p.generation, ''::text AS charge_id, p.amount_minor, p.currency, p.status,
       coalesce(p.psp_charge_id, '')::text AS psp_id
FROM tenants AS t CROSS JOIN (SELECT unnest(@ids::uuid[]) AS id) AS asked
CROSS JOIN LATERAL (SELECT DISTINCT ON (i.tenant_id) * FROM payments AS i
                    WHERE i.tenant_id = t.id AND i.id = asked.id) AS p
WHERE t.psp_account = @account AND sqlc.arg(object)::text = 'charge'
UNION ALL
SELECT r.tenant_id, r.id, r.idempotency_key, r.generation, coalesce(p.psp_charge_id, ''), r.amount_minor, r.currency,
       r.status, coalesce(r.psp_refund_id, '')
FROM tenants AS t CROSS JOIN (SELECT unnest(@ids::uuid[]) AS id) AS asked
CROSS JOIN LATERAL (SELECT DISTINCT ON (i.tenant_id) * FROM refunds AS i
                    WHERE i.tenant_id = t.id AND i.id = asked.id) AS r
CROSS JOIN LATERAL (SELECT DISTINCT ON (i.tenant_id) * FROM payments AS i
                    WHERE i.tenant_id = r.tenant_id AND i.id = r.payment_id) AS p
WHERE t.psp_account = @account AND sqlc.arg(object)::text = 'refund';

-- name: ExecutionOfAnybody :one
-- The tenant, key and generation of a payment or refund of any tenant. It is asked only when BookedMovements has found
-- nothing. It searches each tenant by the primary key, so no index on the id alone is needed.
SELECT p.tenant_id, p.idempotency_key, p.generation
FROM tenants AS t
CROSS JOIN LATERAL (SELECT DISTINCT ON (i.tenant_id) * FROM payments AS i
                    WHERE i.tenant_id = t.id AND i.id = @id) AS p
WHERE sqlc.arg(object)::text = 'charge'
UNION ALL
SELECT r.tenant_id, r.idempotency_key, r.generation
FROM tenants AS t
CROSS JOIN LATERAL (SELECT DISTINCT ON (i.tenant_id) * FROM refunds AS i
                    WHERE i.tenant_id = t.id AND i.id = @id) AS r
WHERE sqlc.arg(object)::text = 'refund';

-- name: ChargesByPSPID :many
-- The payments of the account's tenant whose charges have these ids at the PSP. A charge that is not confirmed here yet
-- is known by the id of its object.
SELECT p.psp_charge_id::text AS psp_id, p.tenant_id, p.id, p.idempotency_key, p.generation
FROM tenants AS t CROSS JOIN (SELECT unnest(@psp_ids::text[]) AS psp_id) AS asked
CROSS JOIN LATERAL (SELECT DISTINCT ON (i.tenant_id) * FROM payments AS i
                    WHERE i.tenant_id = t.id AND i.psp_charge_id = asked.psp_id) AS p
WHERE t.psp_account = @account
UNION ALL
SELECT p.psp_object_id::text, p.tenant_id, p.id, p.idempotency_key, p.generation
FROM tenants AS t CROSS JOIN (SELECT unnest(@psp_ids::text[]) AS psp_id) AS asked
CROSS JOIN LATERAL (SELECT DISTINCT ON (i.tenant_id) * FROM payments AS i
                    WHERE i.tenant_id = t.id AND i.psp_object_id = asked.psp_id
                      AND i.psp_charge_id IS DISTINCT FROM i.psp_object_id) AS p
WHERE t.psp_account = @account;

-- name: FindChanged :many
-- What a record of others changes, in the account's tenant: a refund of ours with its id, or else the payment of its
-- charge.
SELECT 'refund'::text AS object, r.tenant_id, r.id, r.idempotency_key, r.generation
FROM tenants AS t
CROSS JOIN LATERAL (SELECT DISTINCT ON (i.tenant_id) * FROM refunds AS i
                    WHERE sqlc.arg(object)::text = 'refund' AND i.tenant_id = t.id
                      AND i.psp_refund_id = @psp_id::text AND i.origin = 'api') AS r
WHERE t.psp_account = @account
UNION ALL
SELECT 'charge', p.tenant_id, p.id, p.idempotency_key, p.generation
FROM tenants AS t
CROSS JOIN LATERAL (SELECT DISTINCT ON (i.tenant_id) * FROM payments AS i
                    WHERE i.tenant_id = t.id AND i.psp_charge_id = @charge_id::text) AS p
WHERE t.psp_account = @account
UNION ALL
SELECT 'charge', p.tenant_id, p.id, p.idempotency_key, p.generation
FROM tenants AS t
CROSS JOIN LATERAL (SELECT DISTINCT ON (i.tenant_id) * FROM payments AS i
                    WHERE i.tenant_id = t.id AND i.psp_object_id = @charge_id::text
                      AND i.psp_charge_id IS DISTINCT FROM i.psp_object_id) AS p
WHERE t.psp_account = @account;

-- name: KnownElsewhere :one
-- What is stored of a refund that others have made, or of a dispute. fresh: it has changed since a scan may have read
-- its page.
SELECT r.status, r.amount_minor, r.currency, ''::text AS reason, 'epoch'::timestamptz AS evidence_due_by,
       (r.payment_id <> @payment_id)::boolean AS of_another,
       (coalesce(r.updated_at, 'epoch') > payonce_now() - interval '2 minutes')::boolean AS fresh
FROM refunds AS r
WHERE sqlc.arg(object)::text = 'refund' AND r.tenant_id = @tenant_id AND r.psp_refund_id = @psp_id::text
  AND r.origin = 'provider'
UNION ALL
SELECT d.status, d.amount_minor, d.currency, coalesce(d.reason, ''), coalesce(d.evidence_due_by, 'epoch'), false, false
FROM disputes AS d
WHERE sqlc.arg(object)::text = 'dispute' AND d.tenant_id = @tenant_id AND d.payment_id = @payment_id
  AND d.psp_id = @psp_id::text
LIMIT 1;

-- name: OldestOpenDispute :one
-- When the oldest dispute was opened that is not over.
SELECT d.opened_at FROM disputes AS d
WHERE d.tenant_id = @tenant_id AND d.status IN ('inquiry', 'needs_response', 'under_review')
ORDER BY d.opened_at LIMIT 1;

-- name: TenantOfAccount :one
SELECT id, psp FROM tenants WHERE psp_account = @psp_account;
