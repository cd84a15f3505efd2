-- Payments and refunds. The statements of the request path run in one pipeline behind a statement of package idempotency and
-- say so in their WHERE EXISTS: without the key's transition nothing is written. Those over arrays are as in idempotency.sql.

-- name: BeginPayments :many
-- Writes the payments that reservations stand for, behind ReserveKeys. A claim that is sent again finds its payment written.
INSERT INTO payments (
    tenant_id, id, idempotency_key, generation, customer_id, amount_minor, currency,
    payment_method, description, metadata, status)
SELECT k.tenant_id, b.id, b.key, k.generation, b.customer_id, b.amount_minor, b.currency,
       b.payment_method, nullif(b.description, ''), b.metadata, 'processing'
FROM (
    SELECT unnest(@ids::uuid[]) AS id, unnest(@tenant_ids::text[]) AS tenant_id, unnest(@operations::text[]) AS operation,
           unnest(@keys::text[]) AS key, unnest(@lease_ids::uuid[]) AS lease_id,
           unnest(@customer_ids::text[]) AS customer_id, unnest(@amounts_minor::bigint[]) AS amount_minor,
           unnest(@currencies::text[]) AS currency, unnest(@payment_methods::text[]) AS payment_method,
           unnest(@descriptions::text[]) AS description, unnest(@metadata::jsonb[]) AS metadata
) AS b JOIN idempotency_keys AS k ON k.tenant_id = b.tenant_id AND k.operation = b.operation AND k.key = b.key
WHERE b.key = b.key || '' AND k.lease_id = b.lease_id AND k.subject = b.id AND k.status = 'in_progress'
  AND (sqlc.narg(only_tenant)::text IS NULL OR b.tenant_id COLLATE "C" = sqlc.narg(only_tenant))
ON CONFLICT (tenant_id, id) DO NOTHING
RETURNING *;

-- name: ResumePayment :one
-- failed -> processing, behind a retake of the key.
UPDATE payments AS p SET status = 'processing'
WHERE p.tenant_id = @tenant_id AND p.id = @id AND p.status = 'failed'
  AND EXISTS (SELECT FROM idempotency_keys AS k
              WHERE k.tenant_id = @tenant_id AND k.operation = @operation AND k.key = @key AND k.lease_id = @lease_id
                AND k.subject = @id AND k.status = 'in_progress')
RETURNING *;

-- name: RecordPayments :many
-- processing | failed -> succeeded | declined | failed: writes outcomes, behind the keys' own transitions. Without a row, nothing was written to that payment.
UPDATE payments AS p
SET status = o.status, psp_charge_id = nullif(o.psp_charge_id, ''), decline_code = nullif(o.decline_code, '')
FROM (
    SELECT unnest(@ids::uuid[]) AS id, unnest(@statuses::text[]) AS status, unnest(@psp_charge_ids::text[]) AS psp_charge_id,
           unnest(@decline_codes::text[]) AS decline_code, unnest(@tenant_ids::text[]) AS tenant_id,
           unnest(@operations::text[]) AS operation, unnest(@keys::text[]) AS key,
           unnest(@generations::integer[]) AS generation, unnest(@attempts::integer[]) AS attempt, unnest(@key_statuses::text[]) AS key_status
) AS o
WHERE o.key = o.key || '' AND p.tenant_id = o.tenant_id AND p.id = o.id AND p.status IN ('processing', 'failed') AND p.status <> o.status
  AND EXISTS (SELECT FROM idempotency_keys AS k
              WHERE k.tenant_id = o.tenant_id AND k.operation = o.operation AND k.key = o.key AND k.subject = o.id
                AND k.generation = o.generation AND k.attempt = o.attempt AND k.status = o.key_status)
  AND (sqlc.narg(only_tenant)::text IS NULL OR o.tenant_id COLLATE "C" = sqlc.narg(only_tenant))
RETURNING p.id;

-- name: GetPayment :one
SELECT * FROM payments WHERE tenant_id = @tenant_id AND id = @id;

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
WHERE p.tenant_id = @tenant_id AND p.id = @id
  AND EXISTS (SELECT FROM idempotency_keys AS k
              WHERE k.tenant_id = @tenant_id AND k.operation = @operation AND k.key = @key AND k.lease_id = @lease_id)
FOR UPDATE OF p;

-- name: BeginRefund :one
-- Writes the refund that a reservation stands for; without an amount, of all that no refund has claimed. Nothing left makes
-- it zero, which refunds_amount_positive refuses. A claim that is sent again finds it written, and must not come to look
-- for what is left once more: ON CONFLICT is judged after the CHECK.
INSERT INTO refunds (
    tenant_id, id, payment_id, idempotency_key, generation, amount_minor, currency, reason, status)
SELECT p.tenant_id, @id, p.id, @idempotency_key, k.generation,
       coalesce(sqlc.narg(amount_minor)::bigint, p.amount_minor - p.refund_held_minor), p.currency,
       sqlc.narg(reason), 'processing'
FROM payments AS p, idempotency_keys AS k
WHERE p.tenant_id = @tenant_id AND p.id = @payment_id AND p.status = 'succeeded'
  AND k.tenant_id = @tenant_id AND k.operation = @operation AND k.key = @idempotency_key AND k.lease_id = @lease_id
  AND k.subject = @id AND k.status = 'in_progress'
  AND NOT EXISTS (SELECT FROM refunds AS r WHERE r.tenant_id = @tenant_id AND r.id = @id)
ON CONFLICT (tenant_id, id) DO NOTHING
RETURNING *;

-- name: ResumeRefund :one
-- failed -> processing, behind a retake of the key.
UPDATE refunds AS r SET status = 'processing'
WHERE r.tenant_id = @tenant_id AND r.id = @id AND r.status = 'failed'
  AND EXISTS (SELECT FROM idempotency_keys AS k
              WHERE k.tenant_id = @tenant_id AND k.operation = @operation AND k.key = @key AND k.lease_id = @lease_id
                AND k.subject = @id AND k.status = 'in_progress')
RETURNING *;

-- name: RecordRefund :execrows
-- processing | failed -> succeeded | declined | failed: writes the outcome, behind the key's own transition.
UPDATE refunds AS r
SET status = @status, psp_refund_id = sqlc.narg(psp_refund_id), decline_code = sqlc.narg(decline_code)
WHERE r.tenant_id = @tenant_id AND r.id = @id AND r.status IN ('processing', 'failed') AND r.status <> @status
  AND EXISTS (SELECT FROM idempotency_keys AS k
              WHERE k.tenant_id = @tenant_id AND k.operation = @operation AND k.key = @key AND k.subject = @id
                AND k.generation = @generation AND k.attempt = @attempt AND k.status = @key_status);

-- name: TallyRefunds :exec
-- Brings the payment's totals up to date with its refunds, behind a statement that changed one of them. Computed from the rows,
-- not added to, so that running it twice does no harm. payments_refunds_within_amount refuses an excess, and with it the
-- whole transaction. The payment's row must be locked before.
UPDATE payments AS p
SET refund_held_minor = t.held, refunded_minor = t.confirmed
FROM (SELECT coalesce(sum(amount_minor) FILTER (WHERE status IN ('processing', 'succeeded')), 0)::bigint AS held,
             coalesce(sum(amount_minor) FILTER (WHERE status = 'succeeded'), 0)::bigint AS confirmed
      FROM refunds WHERE tenant_id = @tenant_id AND payment_id = @payment_id) AS t
WHERE p.tenant_id = @tenant_id AND p.id = @payment_id AND (p.refund_held_minor, p.refunded_minor) IS DISTINCT FROM (t.held, t.confirmed);

-- name: GetRefund :one
SELECT * FROM refunds WHERE tenant_id = @tenant_id AND id = @id;

-- name: NamePayment :exec
-- The PSP tells the id of a charge for which an operator has vouched. Competes with other evidence: the first name stays.
UPDATE payments SET psp_charge_id = @psp_charge_id WHERE tenant_id = @tenant_id AND id = @id AND starts_with(psp_charge_id, 'operator:');

-- name: NameRefund :exec
-- The same of a refund.
UPDATE refunds SET psp_refund_id = @psp_refund_id WHERE tenant_id = @tenant_id AND id = @id AND starts_with(psp_refund_id, 'operator:');

-- name: FindPayment :one
-- The payment that evidence is about, with its tenant's account at the PSP.
SELECT sqlc.embed(p), t.psp_account
FROM payments AS p JOIN tenants AS t ON t.id = p.tenant_id
WHERE p.tenant_id = @tenant_id AND p.id = @id;

-- name: FindRefund :one
-- The refund that evidence is about, with its payment.
SELECT sqlc.embed(r), sqlc.embed(p), t.psp_account
FROM refunds AS r JOIN payments AS p ON p.tenant_id = r.tenant_id AND p.id = r.payment_id JOIN tenants AS t ON t.id = r.tenant_id
WHERE r.tenant_id = @tenant_id AND r.id = @id;

-- name: PaymentOfKey :one
-- FindPayment by the key that the payment stands behind, for a batch that reads the key as well.
SELECT sqlc.embed(p), t.psp_account
FROM idempotency_keys AS k JOIN payments AS p ON p.tenant_id = k.tenant_id AND p.id = k.subject JOIN tenants AS t ON t.id = p.tenant_id
WHERE k.tenant_id = @tenant_id AND k.operation = @operation AND k.key = @key;

-- name: RefundOfKey :one
-- FindRefund by its key.
SELECT sqlc.embed(r), sqlc.embed(p), t.psp_account
FROM idempotency_keys AS k JOIN refunds AS r ON r.tenant_id = k.tenant_id AND r.id = k.subject
     JOIN payments AS p ON p.tenant_id = r.tenant_id AND p.id = r.payment_id JOIN tenants AS t ON t.id = r.tenant_id
WHERE k.tenant_id = @tenant_id AND k.operation = @operation AND k.key = @key;

-- name: OtherMovementsOfKey :many
-- Which of these payments, or refunds, once had this key in the same generation, and are another one than it stands for now.
SELECT p.id FROM payments AS p
WHERE sqlc.arg(object)::text = 'charge' AND p.tenant_id = @tenant_id AND p.id = ANY (@ids::uuid[]) AND p.id <> @subject
  AND p.idempotency_key = @key AND p.generation = @generation
UNION ALL
SELECT r.id FROM refunds AS r
WHERE sqlc.arg(object)::text = 'refund' AND r.tenant_id = @tenant_id AND r.id = ANY (@ids::uuid[]) AND r.id <> @subject
  AND r.idempotency_key = @key AND r.generation = @generation;

-- name: ExecutionOf :one
-- The key and generation that a payment or refund of an account's tenant was written under.
SELECT p.tenant_id, p.idempotency_key, p.generation FROM tenants AS t JOIN payments AS p ON p.tenant_id = t.id AND p.id = @id
WHERE t.psp_account = @account AND sqlc.arg(object)::text = 'charge'
UNION ALL
SELECT r.tenant_id, r.idempotency_key, r.generation FROM tenants AS t JOIN refunds AS r ON r.tenant_id = t.id AND r.id = @id
WHERE t.psp_account = @account AND sqlc.arg(object)::text = 'refund';

-- name: ExecutionOfAnybody :one
-- The same, whoever's it is: asked only where ExecutionOf has found nothing. Once for each tenant, so that no index on the id alone is needed.
SELECT p.tenant_id, p.idempotency_key, p.generation FROM tenants AS t JOIN payments AS p ON p.tenant_id = t.id AND p.id = @id
WHERE sqlc.arg(object)::text = 'charge'
UNION ALL
SELECT r.tenant_id, r.idempotency_key, r.generation FROM tenants AS t JOIN refunds AS r ON r.tenant_id = t.id AND r.id = @id
WHERE sqlc.arg(object)::text = 'refund';

-- name: TenantOfAccount :one
SELECT id FROM tenants WHERE psp_account = @psp_account;

-- name: ListAccounts :many
-- The PSP accounts of all tenants, in order, in pages.
SELECT psp_account FROM tenants WHERE psp_account > @after ORDER BY psp_account LIMIT @max_rows;

-- name: BookedPayments :many
-- What our books say of the payments of an account that a page of its ledger refers to.
SELECT p.id, t.psp_account, p.idempotency_key, p.generation, p.amount_minor, p.currency, p.status, p.psp_charge_id
FROM tenants AS t JOIN payments AS p ON p.tenant_id = t.id AND p.id = ANY (@ids::uuid[])
WHERE t.psp_account = @account;

-- name: BookedRefunds :many
-- The same of refunds.
SELECT r.id, t.psp_account, r.idempotency_key, r.generation, p.psp_charge_id, r.amount_minor, r.currency, r.status, r.psp_refund_id
FROM tenants AS t JOIN refunds AS r ON r.tenant_id = t.id AND r.id = ANY (@ids::uuid[])
     JOIN payments AS p ON p.tenant_id = r.tenant_id AND p.id = r.payment_id
WHERE t.psp_account = @account;

-- name: BeginWalk :one
-- Goes on with the walk that was not finished, or begins one. Of an account's history before it was ours, nothing is read. A new walk reads
-- again what the last one has read since shortly before it began, however long that took: what it left alone must come by once more.
INSERT INTO ledger_watermarks AS w (account, object, scanned_to, updated_at, resume_after, walk_began)
SELECT t.psp_account, @object, '0001-01-01 00:00:00Z', t.created_at, t.created_at - @overlap::interval, payonce_now()
FROM tenants AS t WHERE t.psp_account = @account
ON CONFLICT (account, object) DO UPDATE
SET resume_after = coalesce(w.resume_after, greatest(least(w.scanned_to, w.walk_began) - @overlap::interval, excluded.resume_after)),
    walk_began = CASE WHEN w.resume_after IS NULL OR w.walk_began IS NULL THEN excluded.walk_began ELSE w.walk_began END
RETURNING w.resume_after::timestamptz AS resume_after, w.walk_began::timestamptz AS walk_began;

-- name: AdvanceWalk :exec
-- Everything up to read_to has been read. Forward only: of two scans of one ledger, the slower one takes nothing back, nor does it move a walk
-- that is not its own. The watermark never goes into the future: a single record that the PSP has dated wrongly would have all those after it
-- skipped. The position may: the walk goes along the list.
-- A microsecond is read again: the records of one instant may lie on two pages. A walk that gets on is not failing.
UPDATE ledger_watermarks AS w
SET scanned_to = greatest(w.scanned_to, least(sqlc.arg(read_to)::timestamptz, payonce_now())),
    resume_after = CASE WHEN w.walk_began = sqlc.arg(walk_began)::timestamptz AND w.resume_after IS NOT NULL
                        THEN greatest(w.resume_after, sqlc.arg(read_to)::timestamptz - interval '1 microsecond')
                        ELSE w.resume_after END,
    failed_runs = CASE WHEN w.walk_began = sqlc.arg(walk_began)::timestamptz
                            AND w.resume_after < sqlc.arg(read_to)::timestamptz - interval '1 microsecond'
                       THEN 0 ELSE w.failed_runs END
WHERE w.account = @account AND w.object = @object;

-- name: EndWalk :exec
-- The walk has come to the end of the list.
UPDATE ledger_watermarks AS w SET resume_after = NULL, updated_at = payonce_now(), failed_runs = 0
WHERE w.account = @account AND w.object = @object AND w.walk_began = sqlc.arg(walk_began)::timestamptz;

-- name: LockLedgers :exec
-- Two walks of an account that fail at once see each other's letter.
SELECT FROM ledger_watermarks WHERE account = @account ORDER BY object FOR UPDATE;

-- name: FailWalk :one
-- A run of the walk has neither got on nor come to the end. Of an account there is one open letter of this kind, whatever is wrong with it:
-- this looks into the table of package deadletters.
UPDATE ledger_watermarks AS w SET failed_runs = least(w.failed_runs, 1000000) + 1
WHERE w.account = @account AND w.object = @object AND w.walk_began = sqlc.arg(walk_began)::timestamptz AND w.resume_after IS NOT NULL
RETURNING w.failed_runs, w.resume_after::timestamptz AS resume_after,
          EXISTS (SELECT FROM dead_letters AS d WHERE d.kind = @kind AND d.status = 'open'
                  AND starts_with(d.finding, 'ledger ' || w.account || ' ')) AS is_open;
