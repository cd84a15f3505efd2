-- The key's state machine. Each query is headed by the edge that it makes and the writer that it competes with.
-- The walks of the sweeper, the claimer and the pruner take two statements: one looks at all tenants for what is due, oldest first, and locks nothing; the
-- other takes what was found of one tenant, and asks again whether it is due. So it is everywhere, though only where tenants lie on several servers
-- (docs/scaling.md) one statement cannot do both.
--
-- Time is payonce_now() throughout: now() is the start of the transaction, which may be long past when a
-- statement has waited for a lock. What a wait does to a condition on the time is in docs/adr/0029-one-clock.md.
--
-- A step of many keys at once is one statement over arrays, with an element for each key. The caller gives each key once, and in the order in which all
-- callers lock: that of their bytes. The rows are joined by index one after the other, in that order. `key = key || ''` is always true, and has the planner
-- expect one row of the arrays. Expecting one for each element, it would read a small table as a whole, in the table's order (plans_test.go).
--
-- only_tenant is NULL on one server. Where tables are distributed it is the tenant that all rows of the arrays are of: Citus, which cannot see that in an array, sends the
-- statement to one worker, and not to all. It does so where the planner concludes from the join what k.tenant_id is, which needs the column's own
-- collation (docs/adr/0033-citus.md).
--
-- What the open dead letters about a key forbid stands in its own row, as dead_letter_hold: none < expiry < release < decline (docs/adr/0031-hold-on-the-row.md). Whoever
-- opens a dead letter has the row locked. A statement that has waited for the lock is held against the row as it is then. The table dead_letters of package
-- deadletters is read by FindLettered alone.

-- name: ReserveKeys :many
-- none -> in_progress, or the row that is in the way, of each key. Competes with every other request that carries the same key:
-- the loser of the INSERT waits for the winner's commit. No row at all of a key means that the winner committed
-- after this statement's snapshot: run it again. A row that the snapshot shows is read and not tried against: a replay is nothing but a
-- look, and an INSERT that comes to nothing costs as much as one that comes to something. A key that was deleted goes on from the generation in its
-- tombstone: it is there before the row goes, so this statement sees the row, or the tombstone, or neither.
WITH asked AS MATERIALIZED (
    SELECT a.*, payonce_now() AS at FROM (
        SELECT unnest(@tenant_ids::text[]) AS tenant_id, unnest(@operations::text[]) AS operation, unnest(@keys::text[]) AS key,
               unnest(@fingerprints::bytea[]) AS fingerprint, unnest(@lease_ids::uuid[]) AS lease_id, unnest(@subjects::uuid[]) AS subject
    ) AS a WHERE a.key = a.key || ''
), seen AS MATERIALIZED (
    SELECT k.* FROM asked AS a JOIN idempotency_keys AS k ON k.tenant_id = a.tenant_id AND k.operation = a.operation AND k.key = a.key
    WHERE (sqlc.narg(only_tenant)::text IS NULL OR a.tenant_id COLLATE "C" = sqlc.narg(only_tenant))
), buried AS MATERIALIZED (
    SELECT t.* FROM asked AS a JOIN idempotency_key_tombstones AS t ON t.tenant_id = a.tenant_id AND t.operation = a.operation AND t.key = a.key
    WHERE (sqlc.narg(only_tenant)::text IS NULL OR a.tenant_id COLLATE "C" = sqlc.narg(only_tenant))
), reserved AS (
    INSERT INTO idempotency_keys (
        tenant_id, operation, key, status, fingerprint, attempt, generation, lease_id, subject,
        created_at, reserved_at, locked_until, expires_at)
    SELECT a.tenant_id, a.operation, a.key, 'in_progress', a.fingerprint, 1,
           1 + coalesce((SELECT t.generation FROM buried AS t WHERE t.tenant_id = a.tenant_id AND t.operation = a.operation AND t.key = a.key), 0),
           a.lease_id, a.subject,
           a.at, a.at, a.at + sqlc.arg(lease)::interval, a.at + sqlc.arg(retention)::interval
    FROM asked AS a
    WHERE NOT EXISTS (SELECT FROM seen AS s WHERE s.tenant_id = a.tenant_id AND s.operation = a.operation AND s.key = a.key)
    ON CONFLICT (tenant_id, operation, key) DO NOTHING
    RETURNING *
)
SELECT false AS lease_over, r.* FROM reserved AS r
UNION ALL
SELECT coalesce(s.locked_until <= payonce_now(), false), s.* FROM seen AS s;

-- name: FindKey :one
-- Reads only: an inspection, a check before the PSP is known to be there, the truth after a lost acknowledgement.
SELECT coalesce(k.locked_until <= payonce_now(), false)::boolean AS lease_over, k.*
FROM idempotency_keys AS k WHERE k.tenant_id = @tenant_id AND k.operation = @operation AND k.key = @key;

-- name: ListInFlight :many
-- Reads only: which of these keys a request executes now, under a lease that is not over. IS TRUE as in ExpireLease.
SELECT k.tenant_id, k.operation, k.key
FROM (SELECT unnest(@tenant_ids::text[]) AS tenant_id, unnest(@operations::text[]) AS operation, unnest(@keys::text[]) AS key) AS asked
JOIN idempotency_keys AS k ON k.tenant_id = asked.tenant_id AND k.operation = asked.operation AND k.key = asked.key
WHERE k.status = 'in_progress' AND (k.locked_until > payonce_now()) IS TRUE;

-- name: RetakeKey :one
-- failed_retryable -> in_progress. Competes with other retries (the attempt decides) and with late evidence of a charge.
-- The PSP must still remember the key: beyond its memory a repeated send could charge twice. What this attempt comes to is kept
-- for a whole retention again: a success that expired moments later would be charged once more by the client's next retry.
WITH taken AS (
    UPDATE idempotency_keys AS k
    SET status = 'in_progress', attempt = k.attempt + 1, lease_id = @lease_id, finished_at = NULL,
        locked_until = payonce_now() + sqlc.arg(lease)::interval,
        expires_at = greatest(k.expires_at, payonce_now() + sqlc.arg(retention)::interval)
    WHERE k.tenant_id = @tenant_id AND k.operation = @operation AND k.key = @key AND k.status = 'failed_retryable' AND k.fingerprint = @fingerprint
      AND k.attempt = @attempt AND k.generation = @generation
      AND k.reserved_at > payonce_now() - sqlc.arg(psp_memory)::interval
    RETURNING k.*
), noted AS (
    INSERT INTO idempotency_key_events (tenant_id, operation, key, generation, attempt, actor, from_status, to_status, reason)
    SELECT n.tenant_id, n.operation, n.key, n.generation, n.attempt, 'request', 'failed_retryable', 'in_progress', 'retried' FROM taken AS n
)
SELECT false AS lease_over, t.* FROM taken AS t;

-- name: RenewKey :one
-- expired -> in_progress, as a new generation. Competes with other requests and with the pruner's DELETE.
WITH taken AS (
    UPDATE idempotency_keys AS k
    SET status = 'in_progress', attempt = 1, generation = k.generation + 1, fingerprint = @fingerprint,
        lease_id = @lease_id, subject = @subject, dead_letter_hold = 'none', finished_at = NULL, reserved_at = payonce_now(),
        locked_until = payonce_now() + sqlc.arg(lease)::interval,
        expires_at = payonce_now() + sqlc.arg(retention)::interval, delete_after = NULL,
        response_status = NULL, response_content_type = NULL, response_location = NULL,
        response_schema_version = NULL, response_body = NULL
    WHERE k.tenant_id = @tenant_id AND k.operation = @operation AND k.key = @key AND k.status = 'expired' AND k.generation = @generation
    RETURNING k.*
), noted AS (
    INSERT INTO idempotency_key_events (tenant_id, operation, key, generation, attempt, actor, from_status, to_status, reason)
    SELECT n.tenant_id, n.operation, n.key, n.generation, n.attempt, 'request', 'expired', 'in_progress', 'taken anew' FROM taken AS n
)
SELECT false AS lease_over, t.* FROM taken AS t;

-- name: CompleteKeys :many
-- in_progress -> completed, by the owners of the attempts. Competes with the sweeper, webhooks and the scan. The lease may
-- be over: an answer in hand is better than none, as long as nobody has acted on its end. A decline (unless_charged) does not pass while an open
-- dead letter of the key says that money moved, as in ResolveKeys. Without a row, the key has moved, or such a letter has been opened.
UPDATE idempotency_keys AS k
SET status = 'completed', locked_until = NULL, finished_at = payonce_now(),
    response_status = c.response_status, response_content_type = c.response_content_type,
    response_location = c.response_location, response_schema_version = c.response_schema_version,
    response_body = c.response_body
FROM (
    SELECT unnest(@tenant_ids::text[]) AS tenant_id, unnest(@operations::text[]) AS operation, unnest(@keys::text[]) AS key,
           unnest(@generations::integer[]) AS generation, unnest(@attempts::integer[]) AS attempt,
           unnest(@unless_charged::boolean[]) AS unless_charged,
           unnest(@response_statuses::smallint[]) AS response_status, unnest(@response_content_types::text[]) AS response_content_type,
           unnest(@response_locations::text[]) AS response_location, unnest(@response_schema_versions::smallint[]) AS response_schema_version,
           unnest(@response_bodies::bytea[]) AS response_body
) AS c
WHERE c.key = c.key || '' AND k.tenant_id = c.tenant_id AND k.operation = c.operation AND k.key = c.key AND k.generation = c.generation AND k.attempt = c.attempt
  AND k.status = 'in_progress' AND NOT (c.unless_charged AND k.dead_letter_hold >= 'decline')
  AND (sqlc.narg(only_tenant)::text IS NULL OR c.tenant_id COLLATE "C" = sqlc.narg(only_tenant))
RETURNING k.tenant_id, k.operation, k.key, k.expires_at;

-- name: ResolveKeys :many
-- in_progress | unknown | failed_retryable -> completed, by evidence of what the PSP did. Competes with every other writer: the
-- edge starts from the state that the caller has seen, so whoever moves the key first makes the others look again. A
-- completion this late keeps the key for a whole retention from now: pruned at once, the client's next retry would be a new
-- generation, and a second charge. A decline (unless_charged) does not pass while an open dead letter of the key says that money moved: nobody may be
-- told of a refusal then.
WITH completed AS (
    UPDATE idempotency_keys AS k
    SET status = 'completed', locked_until = NULL, reconcile_after = NULL, unknown_since = NULL,
        finished_at = payonce_now(),
        expires_at = greatest(k.expires_at, payonce_now() + sqlc.arg(retention)::interval),
        response_status = r.response_status, response_content_type = r.response_content_type,
        response_location = r.response_location, response_schema_version = r.response_schema_version,
        response_body = r.response_body
    FROM (
        SELECT unnest(@tenant_ids::text[]) AS tenant_id, unnest(@operations::text[]) AS operation, unnest(@keys::text[]) AS key,
               unnest(@subjects::uuid[]) AS subject,
               unnest(@generations::integer[]) AS generation, unnest(@attempts::integer[]) AS attempt,
               unnest(@seen::text[]) AS seen, unnest(@unless_charged::boolean[]) AS unless_charged,
               unnest(@actors::text[]) AS actor, unnest(@reasons::text[]) AS reason, unnest(@evidence::jsonb[]) AS evidence,
               unnest(@response_statuses::smallint[]) AS response_status, unnest(@response_content_types::text[]) AS response_content_type,
               unnest(@response_locations::text[]) AS response_location, unnest(@response_schema_versions::smallint[]) AS response_schema_version,
               unnest(@response_bodies::bytea[]) AS response_body
    ) AS r
    WHERE r.key = r.key || '' AND k.tenant_id = r.tenant_id AND k.operation = r.operation AND k.key = r.key AND k.subject = r.subject
      AND k.generation = r.generation AND k.attempt = r.attempt AND k.status = r.seen
      AND k.status IN ('in_progress', 'unknown', 'failed_retryable') AND NOT (r.unless_charged AND k.dead_letter_hold >= 'decline')
      AND (sqlc.narg(only_tenant)::text IS NULL OR r.tenant_id COLLATE "C" = sqlc.narg(only_tenant))
    RETURNING k.tenant_id, k.operation, k.key, k.generation, k.attempt, k.expires_at, r.actor, r.seen, r.reason, r.evidence
), noted AS (
    INSERT INTO idempotency_key_events (tenant_id, operation, key, generation, attempt, actor, from_status, to_status, reason, evidence)
    SELECT n.tenant_id, n.operation, n.key, n.generation, n.attempt, n.actor, n.seen, 'completed', n.reason, n.evidence
    FROM completed AS n
)
SELECT tenant_id, operation, key, expires_at FROM completed;

-- name: ReleaseKey :one
-- in_progress -> failed_retryable, by the owner, who can prove that nothing was executed. Competes with the sweeper. What an operator has to decide
-- about is not released, as in ReleaseUnknownKey.
WITH released AS (
    UPDATE idempotency_keys AS k
    SET status = 'failed_retryable', locked_until = NULL, finished_at = payonce_now()
    WHERE k.tenant_id = @tenant_id AND k.operation = @operation AND k.key = @key AND k.generation = @generation AND k.attempt = @attempt
      AND k.status = 'in_progress' AND k.dead_letter_hold < 'release'
    RETURNING k.*
), noted AS (
    INSERT INTO idempotency_key_events (tenant_id, operation, key, generation, attempt, actor, from_status, to_status, reason)
    SELECT n.tenant_id, n.operation, n.key, n.generation, n.attempt, 'owner', 'in_progress', 'failed_retryable', @reason FROM released AS n
)
SELECT expires_at FROM released;

-- name: LoseKey :one
-- in_progress -> unknown, by the owner, whose send may or may not have executed. Competes with the sweeper.
WITH lost AS (
    UPDATE idempotency_keys AS k
    SET status = 'unknown', locked_until = NULL, unknown_since = payonce_now(), lookup_failures = 0,
        reconcile_after = payonce_now() + sqlc.arg(first_lookup)::interval
    WHERE k.tenant_id = @tenant_id AND k.operation = @operation AND k.key = @key AND k.generation = @generation AND k.attempt = @attempt
      AND k.status = 'in_progress'
    RETURNING k.*
), noted AS (
    INSERT INTO idempotency_key_events (tenant_id, operation, key, generation, attempt, actor, from_status, to_status, reason, evidence)
    SELECT n.tenant_id, n.operation, n.key, n.generation, n.attempt, 'owner', 'in_progress', 'unknown', @reason, sqlc.narg(evidence)::jsonb FROM lost AS n
)
SELECT expires_at FROM lost;

-- name: ExpireLease :one
-- in_progress -> unknown, by a request that meets a lease that is over. Competes with the owner's completion, the sweeper
-- and other requests: the loser finds no row, and reads again. Without IS TRUE, PostgreSQL would look for the key through all
-- leases there are (idempotency_keys_locked_until), with the dead ones, and not by the primary key.
WITH lost AS (
    UPDATE idempotency_keys AS k
    SET status = 'unknown', locked_until = NULL, unknown_since = payonce_now(), lookup_failures = 0,
        reconcile_after = payonce_now()
    WHERE k.tenant_id = @tenant_id AND k.operation = @operation AND k.key = @key AND k.generation = @generation AND k.attempt = @attempt
      AND k.status = 'in_progress' AND (k.locked_until <= payonce_now()) IS TRUE
    RETURNING k.*
), noted AS (
    INSERT INTO idempotency_key_events (tenant_id, operation, key, generation, attempt, actor, from_status, to_status, reason)
    SELECT n.tenant_id, n.operation, n.key, n.generation, n.attempt, 'request', 'in_progress', 'unknown', 'lease over' FROM lost AS n
)
SELECT count(*) FROM lost;

-- name: FindOverdueLeases :many
-- Reads only: the keys whose leases are over, oldest first. The time is asked once for each walk along an index, so the walk along
-- idempotency_keys_locked_until ends where the living leases begin.
SELECT k.tenant_id, k.operation, k.key FROM idempotency_keys AS k
WHERE k.locked_until <= payonce_now()
ORDER BY k.locked_until
LIMIT @max_rows;

-- name: SweepLeases :many
-- in_progress -> unknown, for those of a tenant's keys whose leases are over. Competes with owners, webhooks, requests and other sweepers:
-- a row that one of them has locked is left to it. IS TRUE keeps the rows from being looked for through all leases there are. They are found again by where
-- they lie: for a join by key, of a number that the planner can only guess, it would read the whole table. One that has moved since the statement began
-- stays for the next.
WITH lost AS (
    UPDATE idempotency_keys AS k
    SET status = 'unknown', locked_until = NULL, unknown_since = payonce_now(), lookup_failures = 0,
        reconcile_after = payonce_now() + sqlc.arg(visibility)::interval
    WHERE k.tenant_id = @tenant_id AND k.ctid = ANY (ARRAY(
        SELECT o.ctid
        FROM (SELECT unnest(@operations::text[]) AS operation, unnest(@keys::text[]) AS key) AS a
        JOIN idempotency_keys AS o ON o.operation = a.operation AND o.key = a.key
        WHERE a.key = a.key || '' AND o.tenant_id = @tenant_id AND (o.locked_until <= payonce_now()) IS TRUE
        FOR UPDATE OF o SKIP LOCKED
    ))
    RETURNING k.tenant_id, k.operation, k.key, k.generation, k.attempt, k.subject
), noted AS (
    INSERT INTO idempotency_key_events (tenant_id, operation, key, generation, attempt, actor, from_status, to_status, reason)
    SELECT n.tenant_id, n.operation, n.key, n.generation, n.attempt, 'sweeper', 'in_progress', 'unknown', 'lease over' FROM lost AS n
)
SELECT tenant_id, operation, key, generation, subject FROM lost;

-- name: FindDue :many
-- Reads only: the unknown keys whose next lookup is due, oldest first.
SELECT k.tenant_id, k.operation, k.key FROM idempotency_keys AS k
WHERE k.reconcile_after <= payonce_now()
ORDER BY k.reconcile_after
LIMIT @max_rows;

-- name: ClaimDue :many
-- unknown -> unknown: takes those of a tenant's keys whose next lookup is due, and puts them out of sight of other claimers for a
-- while: if the job that follows is lost, they come back. Competes with other claimers and with everything that resolves a key. As to ctid
-- and IS TRUE, see SweepLeases.
UPDATE idempotency_keys AS k
SET reconcile_after = payonce_now() + sqlc.arg(visibility)::interval
WHERE k.tenant_id = @tenant_id AND k.ctid = ANY (ARRAY(
    SELECT d.ctid
    FROM (SELECT unnest(@operations::text[]) AS operation, unnest(@keys::text[]) AS key) AS a
    JOIN idempotency_keys AS d ON d.operation = a.operation AND d.key = a.key
    WHERE a.key = a.key || '' AND d.tenant_id = @tenant_id AND (d.reconcile_after <= payonce_now()) IS TRUE
    FOR UPDATE OF d SKIP LOCKED
))
RETURNING k.tenant_id, k.operation, k.key, k.generation, k.subject;

-- name: LookAtKey :one
-- What a resolver has to know before it asks the PSP. What the answer proves depends on when it was asked for: the settle
-- window must have been over, and the PSP's memory of the key not, before the question.
SELECT k.status, k.subject, k.generation, k.attempt, k.lease_id, k.lookup_failures,
       payonce_now()::timestamptz AS asked_at,
       k.reconcile_after,
       coalesce(extract(epoch FROM k.unknown_since + sqlc.arg(settle_window)::interval - payonce_now()), 0)::float8 AS window_left,
       (k.reserved_at + sqlc.arg(psp_memory)::interval <= payonce_now())::boolean AS memory_over,
       (k.dead_letter_hold >= 'release')::boolean AS dead_lettered, (k.dead_letter_hold >= 'decline')::boolean AS charged
FROM idempotency_keys AS k WHERE k.tenant_id = @tenant_id AND k.operation = @operation AND k.key = @key;

-- name: ReleaseUnknownKey :one
-- unknown -> failed_retryable, by a lookup that found nothing. Competes with webhooks, the scan, the late owner and operators. The
-- question must have been asked after the settle window, within the PSP's memory of the key, and no operator may have the case. That a job
-- has failed is no case of the key's: another job has come to this.
WITH released AS (
    UPDATE idempotency_keys AS k
    SET status = 'failed_retryable', reconcile_after = NULL, unknown_since = NULL, finished_at = payonce_now(),
        expires_at = greatest(k.expires_at, payonce_now() + sqlc.arg(retention)::interval)
    WHERE k.tenant_id = @tenant_id AND k.operation = @operation AND k.key = @key AND k.subject = @subject
      AND k.generation = @generation AND k.attempt = @attempt AND k.status = 'unknown'
      AND k.unknown_since <= sqlc.arg(asked_at)::timestamptz - sqlc.arg(settle_window)::interval
      AND (k.reserved_at > sqlc.arg(asked_at)::timestamptz - sqlc.arg(psp_memory)::interval OR sqlc.arg(by_operator)::boolean)
      AND k.dead_letter_hold < 'release'
    RETURNING k.tenant_id, k.operation, k.key, k.generation, k.attempt, k.expires_at
), noted AS (
    INSERT INTO idempotency_key_events (tenant_id, operation, key, generation, attempt, actor, from_status, to_status, reason)
    SELECT n.tenant_id, n.operation, n.key, n.generation, n.attempt, @actor, 'unknown', 'failed_retryable', @reason FROM released AS n
)
SELECT expires_at FROM released;

-- name: PostponeKey :one
-- unknown -> unknown: a lookup decided nothing. Competes with everything that resolves the key: no row says that somebody has. It competes with an operator,
-- too, who has the key looked up at once while a lookup is under way: whoever changes reconcile_after keeps the others from passing (coalesce for the same reason as IS TRUE in
-- ExpireLease). While an
-- operator has the case, it goes on for days: what it finds is written down when it changes.
WITH postponed AS (
    UPDATE idempotency_keys AS k
    SET reconcile_after = payonce_now() + sqlc.arg(after)::interval, lookup_failures = @lookup_failures
    WHERE k.tenant_id = @tenant_id AND k.operation = @operation AND k.key = @key AND k.generation = @generation AND k.attempt = @attempt
      AND k.status = 'unknown' AND coalesce(k.reconcile_after = sqlc.arg(seen_due)::timestamptz, false)
    RETURNING k.tenant_id, k.operation, k.key, k.generation, k.attempt, k.expires_at, k.dead_letter_hold
), latest AS MATERIALIZED (
    SELECT e.actor || ' ' || e.reason AS line FROM idempotency_key_events AS e
    WHERE e.tenant_id = @tenant_id AND e.operation = @operation AND e.key = @key ORDER BY e.id DESC LIMIT 1
), noted AS (
    INSERT INTO idempotency_key_events (tenant_id, operation, key, generation, attempt, actor, from_status, to_status, reason)
    SELECT n.tenant_id, n.operation, n.key, n.generation, n.attempt, @actor, 'unknown', 'unknown', @reason FROM postponed AS n
    WHERE n.dead_letter_hold = 'none' OR @actor || ' ' || @reason IS DISTINCT FROM (SELECT l.line FROM latest AS l)
)
SELECT expires_at FROM postponed;

-- name: NoteEvent :exec
-- A line of the timeline without a transition: evidence that confirms what is known, as long as the key stands for the same. Competes with the pruner: the lock
-- keeps the line from being written behind that of the key's expiry, as if the key were still completed. The line is written
-- by a step of its own, as all lines are: so they are numbered by one server where timelines lie on several, and a timeline is read by those numbers.
WITH seen AS (
    SELECT k.* FROM idempotency_keys AS k
    WHERE k.tenant_id = @tenant_id AND k.operation = @operation AND k.key = @key AND k.generation = @generation
    FOR SHARE
), noted AS (
    INSERT INTO idempotency_key_events (tenant_id, operation, key, generation, attempt, actor, from_status, to_status, reason, evidence)
    SELECT n.tenant_id, n.operation, n.key, n.generation, n.attempt, @actor, n.status, n.status, @reason, sqlc.narg(evidence)::jsonb FROM seen AS n
)
SELECT count(*) FROM seen;

-- name: HoldKey :exec
-- Locks a key before a dead letter about it is opened, where no step of the key has done so. Competes with everything that moves the key: the lock
-- is released by the commit of the dead letter, and with it the others find the hold in the row.
SELECT k.key FROM idempotency_keys AS k WHERE k.tenant_id = @tenant_id AND k.operation = @operation AND k.key = @key FOR NO KEY UPDATE;

-- name: FindExpired :many
-- Reads only: the finished keys whose retention is over, oldest first. What an operator has still to decide about stays.
SELECT k.tenant_id, k.operation, k.key FROM idempotency_keys AS k
WHERE k.finished_at IS NOT NULL AND k.delete_after IS NULL AND k.expires_at <= payonce_now() AND k.dead_letter_hold = 'none'
ORDER BY k.expires_at
LIMIT @max_rows;

-- name: ExpireKeys :one
-- completed | failed_retryable -> expired, once the retention is over, for some of a tenant's keys. Competes with a retry of a failed_retryable key and with
-- late evidence. Whatever becomes of the key's row now, its tombstone says which generation it was. As to ctid and IS TRUE, see SweepLeases.
WITH expired AS (
    UPDATE idempotency_keys AS k
    SET status = 'expired', delete_after = payonce_now() + sqlc.arg(audit)::interval
    WHERE k.tenant_id = @tenant_id AND k.status IN ('completed', 'failed_retryable') AND k.ctid = ANY (ARRAY(
        SELECT o.ctid
        FROM (SELECT unnest(@operations::text[]) AS operation, unnest(@keys::text[]) AS key) AS a
        JOIN idempotency_keys AS o ON o.operation = a.operation AND o.key = a.key
        WHERE a.key = a.key || '' AND o.tenant_id = @tenant_id AND o.finished_at IS NOT NULL AND o.delete_after IS NULL AND o.dead_letter_hold = 'none'
          AND (o.expires_at <= payonce_now()) IS TRUE
        FOR UPDATE OF o SKIP LOCKED
    ))
    RETURNING k.tenant_id, k.operation, k.key, k.generation, k.attempt, (k.response_body IS NOT NULL) AS had_response
), buried AS (
    INSERT INTO idempotency_key_tombstones AS t (tenant_id, operation, key, generation)
    SELECT e.tenant_id, e.operation, e.key, e.generation FROM expired AS e
    ON CONFLICT (tenant_id, operation, key) DO UPDATE SET generation = excluded.generation WHERE t.generation < excluded.generation
), noted AS (
    INSERT INTO idempotency_key_events (tenant_id, operation, key, generation, attempt, actor, from_status, to_status, reason)
    SELECT e.tenant_id, e.operation, e.key, e.generation, e.attempt, 'pruner',
           CASE WHEN e.had_response THEN 'completed' ELSE 'failed_retryable' END, 'expired', 'retention over'
    FROM expired AS e
)
SELECT count(*) FROM expired;

-- name: FindDeletable :many
-- Reads only: the expired keys whose audit window is over, oldest first. A dead letter may have been opened after the expiry, about a movement that came to
-- light too late: then the key stays.
SELECT k.tenant_id, k.operation, k.key FROM idempotency_keys AS k
WHERE k.delete_after <= payonce_now() AND k.dead_letter_hold = 'none'
ORDER BY k.delete_after
LIMIT @max_rows;

-- name: FindLettered :many
-- Reads only: those of a tenant's keys about which a dead letter is open, whatever generation it is about. What the letter of an earlier generation forbids does not stand in
-- the key's row, and its lines are in the same timeline: the key stays. This looks into the table of package deadletters.
SELECT a.operation::text AS operation, a.key::text AS key
FROM (SELECT unnest(@operations::text[]) AS operation, unnest(@keys::text[]) AS key) AS a
WHERE EXISTS (SELECT FROM dead_letters AS d WHERE d.tenant_id = @tenant_id::text AND d.operation = a.operation AND d.key = a.key AND d.status = 'open');

-- name: DeleteKeys :one
-- Deletes some of a tenant's expired keys with their timelines, once the audit window is over. The tombstone of each is there since it expired. Competes
-- with requests that renew one of them.
WITH deleted AS (
    DELETE FROM idempotency_keys AS k
    WHERE k.tenant_id = @tenant_id AND k.status = 'expired' AND k.ctid = ANY (ARRAY(
        SELECT o.ctid
        FROM (SELECT unnest(@operations::text[]) AS operation, unnest(@keys::text[]) AS key) AS a
        JOIN idempotency_keys AS o ON o.operation = a.operation AND o.key = a.key
        WHERE a.key = a.key || '' AND o.tenant_id = @tenant_id AND o.dead_letter_hold = 'none' AND (o.delete_after <= payonce_now()) IS TRUE
        FOR UPDATE OF o SKIP LOCKED
    ))
    RETURNING k.tenant_id, k.operation, k.key
), forgotten AS (
    DELETE FROM idempotency_key_events AS e USING deleted AS d
    WHERE e.tenant_id = @tenant_id AND e.tenant_id = d.tenant_id AND e.operation = d.operation AND e.key = d.key
)
SELECT count(*) FROM deleted;

-- name: CountKeys :many
-- How many keys stand where: exactly while the table is small, and for the open ones; a big table's finished ones by estimate.
SELECT c.status::text AS status, c.keys::bigint AS keys FROM count_idempotency_keys() AS c;

-- name: OldestUnknown :one
-- The age of the oldest unknown key, in seconds; 0 when there is none.
SELECT coalesce(extract(epoch FROM payonce_now() - min(unknown_since)), 0)::float8 AS seconds
FROM idempotency_keys WHERE reconcile_after IS NOT NULL;

-- name: ListEvents :many
-- The end of the key's timeline, newest first, bounded.
SELECT id, generation, attempt, at, actor, from_status, to_status, reason, evidence
FROM idempotency_key_events
WHERE tenant_id = @tenant_id AND operation = @operation AND key = @key
ORDER BY id DESC
LIMIT @max_events;
