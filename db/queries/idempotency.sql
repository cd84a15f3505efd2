-- The key's state machine. Each query is headed by the edge that it makes and the writer that it competes with.
-- Time is clock_timestamp() throughout: now() is the start of the transaction, which may be long past when a
-- statement has waited for a lock.

-- name: ReserveKey :one
-- none -> in_progress, or the row that is in the way. Competes with every other request that carries the same key:
-- the loser of the INSERT waits for the winner's commit. No row at all means that the winner committed
-- after this statement's snapshot: run it again.
WITH reserved AS (
    INSERT INTO idempotency_keys (
        scope, key, status, fingerprint, attempt, generation, lease_id, subject,
        created_at, reserved_at, locked_until, expires_at)
    SELECT @scope, @key, 'in_progress', @fingerprint, 1, 1, @lease_id, @subject,
           clock.at, clock.at, clock.at + sqlc.arg(lease)::interval, clock.at + sqlc.arg(retention)::interval
    FROM (SELECT clock_timestamp() AS at) AS clock
    ON CONFLICT (scope, key) DO NOTHING
    RETURNING *
)
SELECT true AS reserved, false AS lease_over, r.* FROM reserved AS r
UNION ALL
SELECT false, coalesce(k.locked_until <= clock_timestamp(), false), k.*
FROM idempotency_keys AS k WHERE k.scope = @scope AND k.key = @key;

-- name: FindKey :one
-- Reads only: an inspection, a check before the PSP is known to be there, the truth after a lost acknowledgement.
SELECT false AS reserved, coalesce(k.locked_until <= clock_timestamp(), false)::boolean AS lease_over, k.*
FROM idempotency_keys AS k WHERE k.scope = @scope AND k.key = @key;

-- name: RetakeKey :one
-- failed_retryable -> in_progress. Competes with other retries (the attempt decides) and with late evidence of a charge.
-- The PSP must still remember the key: beyond its memory a repeated send could charge twice.
WITH taken AS (
    UPDATE idempotency_keys AS k
    SET status = 'in_progress', attempt = k.attempt + 1, lease_id = @lease_id, finished_at = NULL,
        locked_until = clock_timestamp() + sqlc.arg(lease)::interval
    WHERE k.scope = @scope AND k.key = @key AND k.status = 'failed_retryable' AND k.fingerprint = @fingerprint
      AND k.attempt = @attempt AND k.generation = @generation
      AND k.reserved_at + sqlc.arg(psp_memory)::interval > clock_timestamp()
    RETURNING k.*
), noted AS (
    INSERT INTO idempotency_key_events (scope, key, generation, attempt, actor, from_status, to_status, reason)
    SELECT n.scope, n.key, n.generation, n.attempt, 'request', 'failed_retryable', 'in_progress', 'retried' FROM taken AS n
)
SELECT true AS reserved, false AS lease_over, t.* FROM taken AS t;

-- name: RenewKey :one
-- expired -> in_progress, as a new generation. Competes with other requests and with the pruner's DELETE.
WITH taken AS (
    UPDATE idempotency_keys AS k
    SET status = 'in_progress', attempt = 1, generation = k.generation + 1, fingerprint = @fingerprint,
        lease_id = @lease_id, subject = @subject, finished_at = NULL, reserved_at = clock_timestamp(),
        locked_until = clock_timestamp() + sqlc.arg(lease)::interval,
        expires_at = clock_timestamp() + sqlc.arg(retention)::interval,
        response_status = NULL, response_content_type = NULL, response_location = NULL,
        response_schema_version = NULL, response_body = NULL
    WHERE k.scope = @scope AND k.key = @key AND k.status = 'expired' AND k.generation = @generation
    RETURNING k.*
), noted AS (
    INSERT INTO idempotency_key_events (scope, key, generation, attempt, actor, from_status, to_status, reason)
    SELECT n.scope, n.key, n.generation, n.attempt, 'request', 'expired', 'in_progress', 'taken anew' FROM taken AS n
)
SELECT true AS reserved, false AS lease_over, t.* FROM taken AS t;

-- name: CompleteKey :one
-- in_progress -> completed, by the owner of the attempt. Competes with the sweeper, webhooks and the scan. The lease may
-- be over: an answer in hand is better than none, as long as nobody has acted on its end.
UPDATE idempotency_keys
SET status = 'completed', locked_until = NULL, finished_at = clock_timestamp(),
    response_status = @response_status, response_content_type = @response_content_type,
    response_location = @response_location, response_schema_version = @response_schema_version,
    response_body = @response_body
WHERE scope = @scope AND key = @key AND generation = @generation AND attempt = @attempt
  AND status = 'in_progress'
RETURNING expires_at;

-- name: CompleteLostKey :one
-- unknown -> completed, by the late owner, who holds the PSP's success. Competes with every resolver. Only for
-- a success: what a late owner says about a refusal is left to the poll, which asks the PSP.
WITH completed AS (
    UPDATE idempotency_keys AS k
    SET status = 'completed', reconcile_after = NULL, finished_at = clock_timestamp(),
        response_status = @response_status, response_content_type = @response_content_type,
        response_location = @response_location, response_schema_version = @response_schema_version,
        response_body = @response_body
    WHERE k.scope = @scope AND k.key = @key AND k.generation = @generation AND k.attempt = @attempt
      AND k.status = 'unknown'
    RETURNING k.*
), noted AS (
    INSERT INTO idempotency_key_events (scope, key, generation, attempt, actor, from_status, to_status, reason)
    SELECT n.scope, n.key, n.generation, n.attempt, 'owner', 'unknown', 'completed', 'late success' FROM completed AS n
)
SELECT expires_at FROM completed;

-- name: ReleaseKey :one
-- in_progress -> failed_retryable, by the owner, who can prove that nothing was executed. Competes with the sweeper.
WITH released AS (
    UPDATE idempotency_keys AS k
    SET status = 'failed_retryable', locked_until = NULL, finished_at = clock_timestamp()
    WHERE k.scope = @scope AND k.key = @key AND k.generation = @generation AND k.attempt = @attempt
      AND k.status = 'in_progress'
    RETURNING k.*
), noted AS (
    INSERT INTO idempotency_key_events (scope, key, generation, attempt, actor, from_status, to_status, reason)
    SELECT n.scope, n.key, n.generation, n.attempt, 'owner', 'in_progress', 'failed_retryable', @reason FROM released AS n
)
SELECT expires_at FROM released;

-- name: LoseKey :one
-- in_progress -> unknown, by the owner, whose send may or may not have executed. Competes with the sweeper.
WITH lost AS (
    UPDATE idempotency_keys AS k
    SET status = 'unknown', locked_until = NULL, reconcile_after = clock_timestamp()
    WHERE k.scope = @scope AND k.key = @key AND k.generation = @generation AND k.attempt = @attempt
      AND k.status = 'in_progress'
    RETURNING k.*
), noted AS (
    INSERT INTO idempotency_key_events (scope, key, generation, attempt, actor, from_status, to_status, reason, evidence)
    SELECT n.scope, n.key, n.generation, n.attempt, 'owner', 'in_progress', 'unknown', @reason, sqlc.narg(evidence)::jsonb FROM lost AS n
)
SELECT expires_at FROM lost;

-- name: ExpireLease :execrows
-- in_progress -> unknown, by a request that meets a lease that is over. Competes with the owner's completion, the sweeper
-- and other requests: the loser finds no row, and reads again. Without coalesce, PostgreSQL would look for the key through all
-- leases there are (idempotency_keys_locked_until), with the dead ones, and not by the primary key.
WITH lost AS (
    UPDATE idempotency_keys AS k
    SET status = 'unknown', locked_until = NULL, reconcile_after = clock_timestamp()
    WHERE k.scope = @scope AND k.key = @key AND k.generation = @generation AND k.attempt = @attempt
      AND k.status = 'in_progress' AND coalesce(k.locked_until <= clock_timestamp(), false)
    RETURNING k.*
)
INSERT INTO idempotency_key_events (scope, key, generation, attempt, actor, from_status, to_status, reason)
SELECT n.scope, n.key, n.generation, n.attempt, 'request', 'in_progress', 'unknown', 'lease over' FROM lost AS n;

-- name: ListEvents :many
-- The key's timeline, oldest first, bounded.
SELECT id, generation, attempt, at, actor, from_status, to_status, reason, evidence
FROM idempotency_key_events
WHERE scope = @scope AND key = @key
ORDER BY id
LIMIT @max_events;
