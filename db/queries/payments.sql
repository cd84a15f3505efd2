-- Payments and refunds. The statements of the request path run in one batch behind a statement of package idempotency and
-- say so in their WHERE EXISTS: without the key's transition nothing is written.

-- name: BeginPayment :one
-- Writes the payment that a reservation stands for. A claim that is sent again finds it written.
INSERT INTO payments (
    id, tenant_id, idempotency_key, generation, customer_id, amount_minor, currency,
    payment_method, description, metadata, status)
SELECT @id, @tenant_id, @idempotency_key, k.generation, @customer_id, @amount_minor, @currency,
       @payment_method, sqlc.narg(description), sqlc.narg(metadata)::jsonb, 'processing'
FROM idempotency_keys AS k
WHERE k.scope = @scope AND k.key = @idempotency_key AND k.lease_id = @lease_id
  AND k.subject = @id AND k.status = 'in_progress'
ON CONFLICT (id) DO NOTHING
RETURNING *;

-- name: ResumePayment :one
-- failed -> processing, behind a retake of the key.
UPDATE payments AS p SET status = 'processing'
WHERE p.id = @id AND p.status = 'failed'
  AND EXISTS (SELECT FROM idempotency_keys AS k
              WHERE k.scope = @scope AND k.key = @key AND k.lease_id = @lease_id
                AND k.subject = @id AND k.status = 'in_progress')
RETURNING *;

-- name: SettlePayment :execrows
-- processing | failed -> succeeded | declined | failed, behind the key's own transition.
UPDATE payments AS p
SET status = @status, psp_charge_id = sqlc.narg(psp_charge_id), decline_code = sqlc.narg(decline_code)
WHERE p.id = @id AND p.status IN ('processing', 'failed') AND p.status <> @status
  AND EXISTS (SELECT FROM idempotency_keys AS k
              WHERE k.scope = @scope AND k.key = @key AND k.subject = @id
                AND k.generation = @generation AND k.attempt = @attempt AND k.status = @key_status);

-- name: GetPayment :one
SELECT * FROM payments WHERE id = @id AND tenant_id = @tenant_id;

-- name: ListPayments :many
-- Newest first: ids are UUIDv7. One index walk for all of a tenant's payments, another for one customer's.
SELECT * FROM payments
WHERE tenant_id = @tenant_id AND id < @before
  AND (sqlc.narg(customer_id)::text IS NULL OR customer_id = sqlc.narg(customer_id))
  AND (sqlc.narg(status)::text IS NULL OR status = sqlc.narg(status))
ORDER BY id DESC
LIMIT @max_rows;

-- name: LockPayment :exec
-- Refunds of one payment claim and return their share one after the other. Only an owner of the key locks: a replay does not.
SELECT p.id FROM payments AS p
WHERE p.id = @id AND p.tenant_id = @tenant_id
  AND EXISTS (SELECT FROM idempotency_keys AS k
              WHERE k.scope = @scope AND k.key = @key AND k.lease_id = @lease_id)
FOR UPDATE OF p;

-- name: BeginRefund :one
-- Writes the refund that a reservation stands for; without an amount, of all that no refund has claimed. Nothing left makes
-- it zero, which refunds_amount_positive refuses. A claim that is sent again finds it written, and must not come to look
-- for what is left once more: ON CONFLICT is judged after the CHECK.
INSERT INTO refunds (
    id, payment_id, tenant_id, idempotency_key, generation, amount_minor, currency, reason, status)
SELECT @id, p.id, p.tenant_id, @idempotency_key, k.generation,
       coalesce(sqlc.narg(amount_minor)::bigint, p.amount_minor - p.refund_held_minor), p.currency,
       sqlc.narg(reason), 'processing'
FROM payments AS p, idempotency_keys AS k
WHERE p.id = @payment_id AND p.tenant_id = @tenant_id AND p.status = 'succeeded'
  AND k.scope = @scope AND k.key = @idempotency_key AND k.lease_id = @lease_id
  AND k.subject = @id AND k.status = 'in_progress'
  AND NOT EXISTS (SELECT FROM refunds AS r WHERE r.id = @id)
ON CONFLICT (id) DO NOTHING
RETURNING *;

-- name: ResumeRefund :one
-- failed -> processing, behind a retake of the key.
UPDATE refunds AS r SET status = 'processing'
WHERE r.id = @id AND r.status = 'failed'
  AND EXISTS (SELECT FROM idempotency_keys AS k
              WHERE k.scope = @scope AND k.key = @key AND k.lease_id = @lease_id
                AND k.subject = @id AND k.status = 'in_progress')
RETURNING *;

-- name: SettleRefund :execrows
-- processing | failed -> succeeded | declined | failed, behind the key's own transition.
UPDATE refunds AS r
SET status = @status, psp_refund_id = sqlc.narg(psp_refund_id), decline_code = sqlc.narg(decline_code)
WHERE r.id = @id AND r.status IN ('processing', 'failed') AND r.status <> @status
  AND EXISTS (SELECT FROM idempotency_keys AS k
              WHERE k.scope = @scope AND k.key = @key AND k.subject = @id
                AND k.generation = @generation AND k.attempt = @attempt AND k.status = @key_status);

-- name: TallyRefunds :exec
-- Brings the payment's totals up to date with its refunds, behind a statement that changed one of them. Computed from the rows,
-- not added to, so that running it twice does no harm. payments_refunds_within_amount refuses an excess, and with it the
-- whole transaction. The payment's row must be locked before.
UPDATE payments AS p
SET refund_held_minor = t.held, refunded_minor = t.confirmed
FROM (SELECT coalesce(sum(amount_minor) FILTER (WHERE status IN ('processing', 'succeeded')), 0)::bigint AS held,
             coalesce(sum(amount_minor) FILTER (WHERE status = 'succeeded'), 0)::bigint AS confirmed
      FROM refunds WHERE payment_id = @payment_id) AS t
WHERE p.id = @payment_id AND (p.refund_held_minor, p.refunded_minor) IS DISTINCT FROM (t.held, t.confirmed);

-- name: GetRefund :one
SELECT * FROM refunds WHERE id = @id AND tenant_id = @tenant_id;
