-- The statements on keys. Each statement that moves a key names its transition, and the writers that it competes with.
-- The path of a payment comes first, up to FindKey. Reads, lookups, the sweeper and the pruner follow.
--
-- Each statement asks payonce_now() for the time. now() is the start of the transaction, which may be long past after a
-- wait for a lock (docs/adr/0029-one-clock.md).
--
-- A statement for many keys takes arrays with one element for each key. The caller gives each key once, sorted by
-- bytes. All callers lock in this order, so no two of them deadlock. The join must keep this order: it reads the rows
-- by index, one by one. `key = key || ''` is always true, and makes the planner expect one row from the arrays.
-- Otherwise the planner would read a small table as a whole, in the order of the table (plans_test.go).
--
-- dead_letter_hold says what the open dead letters about a key forbid: none < expiry < release < decline. A dead letter
-- is opened under the lock of the key's row, or of its tombstone if it has no row. So a statement that waited for this
-- lock sees the new hold (docs/adr/0031-hold-on-the-row.md).

-- name: ReserveKeys :many
-- none -> in_progress for each key, or the row that is already there. Competes with every request that has the same
-- key: the loser's INSERT waits for the winner's commit. No row at all means that the winner committed after the
-- snapshot of this statement: send it again. For a row in the snapshot no INSERT is tried: the row may be deleted by
-- now, and its tombstone is not in the snapshot. A deleted key continues from the generation in its tombstone. The
-- tombstone is committed before the row is deleted, so no snapshot misses both. No row also comes of a tombstone that
-- holds the key (FindHold).
WITH asked AS MATERIALIZED (
    SELECT a.*, payonce_now() AS at FROM (
        SELECT unnest(@tenant_ids::text[]) AS tenant_id, unnest(@operations::text[]) AS operation,
               unnest(@keys::text[]) AS key, unnest(@fingerprints::bytea[]) AS fingerprint,
               unnest(@lease_ids::uuid[]) AS lease_id, unnest(@subjects::uuid[]) AS subject
    ) AS a WHERE a.key = a.key || ''
), seen AS MATERIALIZED (
    SELECT k.* FROM asked AS a
    JOIN idempotency_keys AS k ON k.tenant_id = a.tenant_id AND k.operation = a.operation AND k.key = a.key
), tombstones AS MATERIALIZED (
    SELECT t.* FROM asked AS a
    JOIN idempotency_key_tombstones AS t ON t.tenant_id = a.tenant_id AND t.operation = a.operation AND t.key = a.key
), reserved AS (
    INSERT INTO idempotency_keys (
        tenant_id, operation, key, status, fingerprint, attempt, generation, lease_id, subject,
        created_at, reserved_at, locked_until, expires_at)
    SELECT a.tenant_id, a.operation, a.key, 'in_progress', a.fingerprint, 1,
           1 + coalesce((SELECT t.generation FROM tombstones AS t
                         WHERE t.tenant_id = a.tenant_id AND t.operation = a.operation AND t.key = a.key), 0),
           a.lease_id, a.subject, a.at, a.at, a.at + sqlc.arg(lease)::interval, a.at + sqlc.arg(retention)::interval
    FROM asked AS a
    WHERE NOT EXISTS (SELECT FROM seen AS s
                      WHERE s.tenant_id = a.tenant_id AND s.operation = a.operation AND s.key = a.key)
      AND NOT EXISTS (SELECT FROM tombstones AS t WHERE t.tenant_id = a.tenant_id AND t.operation = a.operation
                        AND t.key = a.key AND t.dead_letter_hold = 'decline')
    ON CONFLICT (tenant_id, operation, key) DO NOTHING
    RETURNING *
)
SELECT payonce_now()::timestamptz AS read_at, r.* FROM reserved AS r
UNION ALL
SELECT payonce_now(), s.* FROM seen AS s;

-- name: RetakeKey :one
-- failed_retryable -> in_progress. Competes with other retries (the attempt number decides which one passes), with late
-- evidence of a charge, and with the pruner. The PSP must still remember the key, or a second send could charge twice;
-- psp_memory is shorter by a lease here, so that the send fits in. The key is kept for a whole retention again: if it
-- expired moments after the charge, the client's next retry would charge once more. Only a dead letter that says that
-- money moved under the key stops a retry.
WITH taken AS (
    UPDATE idempotency_keys AS k
    SET status = 'in_progress', attempt = k.attempt + 1, lease_id = @lease_id, finished_at = NULL,
        locked_until = payonce_now() + sqlc.arg(lease)::interval,
        expires_at = greatest(k.expires_at, payonce_now() + sqlc.arg(retention)::interval)
    WHERE k.tenant_id = @tenant_id AND k.operation = @operation AND k.key = @key
      AND k.status = 'failed_retryable' AND k.fingerprint = @fingerprint
      AND k.attempt = @attempt AND k.generation = @generation
      AND k.reserved_at > payonce_now() - sqlc.arg(psp_memory)::interval AND k.dead_letter_hold < 'decline'
    RETURNING k.*
), noted AS (
    INSERT INTO idempotency_key_events (
        tenant_id, operation, key, generation, attempt, actor, from_status, to_status, reason)
    SELECT n.tenant_id, n.operation, n.key, n.generation, n.attempt,
           'request', 'failed_retryable', 'in_progress', 'retried' FROM taken AS n
)
SELECT payonce_now()::timestamptz AS read_at, t.* FROM taken AS t;

-- name: RenewKey :one
-- expired -> in_progress, as a new generation. Competes with other requests and with the pruner's DELETE.
WITH taken AS (
    UPDATE idempotency_keys AS k
    SET status = 'in_progress', attempt = 1, generation = k.generation + 1, fingerprint = @fingerprint,
        lease_id = @lease_id, subject = @subject, dead_letter_hold = 'none', finished_at = NULL,
        reserved_at = payonce_now(), locked_until = payonce_now() + sqlc.arg(lease)::interval,
        expires_at = payonce_now() + sqlc.arg(retention)::interval, delete_after = NULL,
        response_status = NULL, response_content_type = NULL, response_location = NULL,
        response_schema_version = NULL, response_body = NULL
    WHERE k.tenant_id = @tenant_id AND k.operation = @operation AND k.key = @key
      AND k.status = 'expired' AND k.generation = @generation AND k.dead_letter_hold < 'decline'
    RETURNING k.*
), noted AS (
    INSERT INTO idempotency_key_events (
        tenant_id, operation, key, generation, attempt, actor, from_status, to_status, reason)
    SELECT n.tenant_id, n.operation, n.key, n.generation, n.attempt,
           'request', 'expired', 'in_progress', 'reserved again' FROM taken AS n
)
SELECT payonce_now()::timestamptz AS read_at, t.* FROM taken AS t;

-- name: CompleteKeys :many
-- in_progress -> completed, by the owners of the leases. Competes with the sweeper, ExpireLease and evidence.
-- generation and attempt are the fence. An owner may complete after the end of its lease, as long as nobody has moved
-- the key. A decline (unless_charged) is not stored while an open dead letter says that money moved. tells: an event
-- follows in this transaction. Without it, no tenant that wants events is served: the caller has not heard of that yet.
-- With NOT EXISTS, PostgreSQL would read all tenants. If a key is not returned, somebody has moved it, such a dead
-- letter is open, or an event is missing.
UPDATE idempotency_keys AS k
SET status = 'completed', locked_until = NULL, finished_at = payonce_now(),
    response_status = c.response_status, response_content_type = c.response_content_type,
    response_location = c.response_location, response_schema_version = c.response_schema_version,
    response_body = c.response_body
FROM (
    SELECT unnest(@tenant_ids::text[]) AS tenant_id, unnest(@operations::text[]) AS operation,
           unnest(@keys::text[]) AS key, unnest(@generations::integer[]) AS generation,
           unnest(@attempts::integer[]) AS attempt, unnest(@unless_charged::boolean[]) AS unless_charged,
           unnest(@tells::boolean[]) AS tells,
           unnest(@response_statuses::smallint[]) AS response_status,
           unnest(@response_content_types::text[]) AS response_content_type,
           unnest(@response_locations::text[]) AS response_location,
           unnest(@response_schema_versions::smallint[]) AS response_schema_version,
           unnest(@response_bodies::bytea[]) AS response_body
) AS c
WHERE c.key = c.key || '' AND k.tenant_id = c.tenant_id AND k.operation = c.operation AND k.key = c.key
  AND k.generation = c.generation AND k.attempt = c.attempt
  AND k.status = 'in_progress' AND NOT (c.unless_charged AND k.dead_letter_hold >= 'decline')
  AND (c.tells OR coalesce((SELECT NOT t.tells FROM tenants AS t WHERE t.id = c.tenant_id), true))
RETURNING k.tenant_id, k.operation, k.key, k.expires_at;

-- name: ReleaseKey :one
-- in_progress -> failed_retryable, by the owner, with proof that nothing was executed. Competes as CompleteKeys does.
-- A key is not released while an operator has to decide about it. tells is as in CompleteKeys.
WITH released AS (
    UPDATE idempotency_keys AS k
    SET status = 'failed_retryable', locked_until = NULL, finished_at = payonce_now()
    WHERE k.tenant_id = @tenant_id AND k.operation = @operation AND k.key = @key
      AND k.generation = @generation AND k.attempt = @attempt
      AND k.status = 'in_progress' AND k.dead_letter_hold < 'release'
      AND (@tells::boolean OR coalesce((SELECT NOT t.tells FROM tenants AS t WHERE t.id = k.tenant_id), true))
    RETURNING k.*
), noted AS (
    INSERT INTO idempotency_key_events (
        tenant_id, operation, key, generation, attempt, actor, from_status, to_status, reason)
    SELECT n.tenant_id, n.operation, n.key, n.generation, n.attempt,
           'owner', 'in_progress', 'failed_retryable', @reason FROM released AS n
)
SELECT expires_at FROM released;

-- name: LoseKey :one
-- in_progress -> unknown, by the owner, whose send may or may not have been executed. Competes as CompleteKeys does.
-- tells is as there.
WITH lost AS (
    UPDATE idempotency_keys AS k
    SET status = 'unknown', locked_until = NULL, unknown_since = payonce_now(), lookup_failures = 0,
        reconcile_after = payonce_now() + sqlc.arg(first_lookup)::interval
    WHERE k.tenant_id = @tenant_id AND k.operation = @operation AND k.key = @key
      AND k.generation = @generation AND k.attempt = @attempt AND k.status = 'in_progress'
      AND (@tells::boolean OR coalesce((SELECT NOT t.tells FROM tenants AS t WHERE t.id = k.tenant_id), true))
    RETURNING k.*
), noted AS (
    INSERT INTO idempotency_key_events (
        tenant_id, operation, key, generation, attempt, actor, from_status, to_status, reason, evidence)
    SELECT n.tenant_id, n.operation, n.key, n.generation, n.attempt,
           'owner', 'in_progress', 'unknown', @reason, sqlc.narg(evidence)::jsonb FROM lost AS n
)
SELECT expires_at FROM lost;

-- name: ResolveKeys :many
-- in_progress | unknown | failed_retryable -> completed, by evidence of what the PSP did. Competes with every other
-- writer. The key must still be in the status that the caller has seen, so only the first writer passes, and the others
-- look again. The key is kept for a whole retention from now: if it expired soon after, the client's next retry would
-- be a new generation, and a second charge. unless_charged is as in CompleteKeys.
WITH completed AS (
    UPDATE idempotency_keys AS k
    SET status = 'completed', locked_until = NULL, reconcile_after = NULL, unknown_since = NULL,
        finished_at = payonce_now(),
        expires_at = greatest(k.expires_at, payonce_now() + sqlc.arg(retention)::interval),
        response_status = r.response_status, response_content_type = r.response_content_type,
        response_location = r.response_location, response_schema_version = r.response_schema_version,
        response_body = r.response_body
    FROM (
        SELECT unnest(@tenant_ids::text[]) AS tenant_id, unnest(@operations::text[]) AS operation,
               unnest(@keys::text[]) AS key, unnest(@subjects::uuid[]) AS subject,
               unnest(@generations::integer[]) AS generation, unnest(@attempts::integer[]) AS attempt,
               unnest(@seen::text[]) AS seen, unnest(@unless_charged::boolean[]) AS unless_charged,
               unnest(@actors::text[]) AS actor, unnest(@reasons::text[]) AS reason,
               unnest(@evidence::jsonb[]) AS evidence, unnest(@response_statuses::smallint[]) AS response_status,
               unnest(@response_content_types::text[]) AS response_content_type,
               unnest(@response_locations::text[]) AS response_location,
               unnest(@response_schema_versions::smallint[]) AS response_schema_version,
               unnest(@response_bodies::bytea[]) AS response_body
    ) AS r
    WHERE r.key = r.key || '' AND k.tenant_id = r.tenant_id AND k.operation = r.operation AND k.key = r.key
      AND k.subject = r.subject AND k.generation = r.generation AND k.attempt = r.attempt AND k.status = r.seen
      AND k.status IN ('in_progress', 'unknown', 'failed_retryable')
      AND NOT (r.unless_charged AND k.dead_letter_hold >= 'decline')
    RETURNING k.tenant_id, k.operation, k.key, k.generation, k.attempt, k.expires_at,
              r.actor, r.seen, r.reason, r.evidence
), noted AS (
    INSERT INTO idempotency_key_events (
        tenant_id, operation, key, generation, attempt, actor, from_status, to_status, reason, evidence)
    SELECT n.tenant_id, n.operation, n.key, n.generation, n.attempt, n.actor, n.seen, 'completed', n.reason, n.evidence
    FROM completed AS n
)
SELECT tenant_id, operation, key, expires_at FROM completed;

-- name: ReleaseUnknownKey :one
-- unknown -> failed_retryable, by a lookup or an operator. Competes with evidence and operators. The PSP has cancelled
-- the request (final), or was asked after the grace period and within its memory of the key; an operator may decide
-- beyond that memory. No open dead letter may wait for a decision. One about a failed job (hold expiry) does not.
WITH released AS (
    UPDATE idempotency_keys AS k
    SET status = 'failed_retryable', reconcile_after = NULL, unknown_since = NULL, finished_at = payonce_now(),
        expires_at = greatest(k.expires_at, payonce_now() + sqlc.arg(retention)::interval)
    WHERE k.tenant_id = @tenant_id AND k.operation = @operation AND k.key = @key AND k.subject = @subject
      AND k.generation = @generation AND k.attempt = @attempt AND k.status = 'unknown'
      AND (sqlc.arg(final)::boolean
           OR k.unknown_since <= sqlc.arg(asked_at)::timestamptz - sqlc.arg(grace_period)::interval
           AND (k.reserved_at > sqlc.arg(asked_at)::timestamptz - sqlc.arg(psp_memory)::interval
                OR sqlc.arg(by_operator)::boolean))
      AND k.dead_letter_hold < 'release'
    RETURNING k.tenant_id, k.operation, k.key, k.generation, k.attempt, k.expires_at
), noted AS (
    INSERT INTO idempotency_key_events (
        tenant_id, operation, key, generation, attempt, actor, from_status, to_status, reason)
    SELECT n.tenant_id, n.operation, n.key, n.generation, n.attempt,
           @actor, 'unknown', 'failed_retryable', @reason FROM released AS n
)
SELECT expires_at FROM released;

-- name: FindKey :one
-- Reads only: for an inspection, for an answer from the key's row, after a lost acknowledgement, and before the PSP is
-- asked. Whether the lease is over depends on read_at. So does what the PSP's answer proves: the grace period must be
-- over by then, and the PSP's memory of the key must not be.
SELECT payonce_now()::timestamptz AS read_at, k.*
FROM idempotency_keys AS k WHERE k.tenant_id = @tenant_id AND k.operation = @operation AND k.key = @key;

-- name: ListUndecided :many
-- Reads only: which of these keys are in progress or unknown, and which of them are in flight, under a lease.
--
-- For each name it searches one key. Without statistics, PostgreSQL may begin a plain join with all keys of a tenant
-- (ADR 0052). DISTINCT ON drops nothing here: it keeps PostgreSQL from the plain join.
SELECT k.tenant_id, k.operation, k.key, coalesce(k.locked_until > payonce_now(), false)::boolean AS in_flight
FROM (SELECT unnest(@tenant_ids::text[]) AS tenant_id, unnest(@operations::text[]) AS operation,
             unnest(@keys::text[]) AS key) AS asked
CROSS JOIN LATERAL (SELECT DISTINCT ON (i.tenant_id) * FROM idempotency_keys AS i WHERE i.tenant_id = asked.tenant_id
                    AND i.operation = asked.operation AND i.key = asked.key) AS k
WHERE k.status IN ('in_progress', 'unknown');

-- name: ExpireLease :one
-- in_progress -> unknown, by a request that finds a lease that is over. Competes with the owner's completion, evidence,
-- the sweeper and other requests. The loser finds no row, and reads the key again. Without IS TRUE, PostgreSQL could
-- search the index idempotency_keys_locked_until, with all leases and many dead entries, and not the primary key.
WITH lost AS (
    UPDATE idempotency_keys AS k
    SET status = 'unknown', locked_until = NULL, unknown_since = payonce_now(), lookup_failures = 0,
        reconcile_after = payonce_now()
    WHERE k.tenant_id = @tenant_id AND k.operation = @operation AND k.key = @key
      AND k.generation = @generation AND k.attempt = @attempt
      AND k.status = 'in_progress' AND (k.locked_until <= payonce_now()) IS TRUE
    RETURNING k.*
), noted AS (
    INSERT INTO idempotency_key_events (
        tenant_id, operation, key, generation, attempt, actor, from_status, to_status, reason)
    SELECT n.tenant_id, n.operation, n.key, n.generation, n.attempt,
           'request', 'in_progress', 'unknown', 'lease over' FROM lost AS n
)
SELECT count(*) FROM lost;

-- name: FindDueKeys :many
-- Reads only: the keys that a walk takes, oldest first. Each part has an index of its own, and only one part is read:
-- the leases that are over, the unknown keys whose next lookup is due, the finished keys whose retention is over, or
-- the expired keys whose audit window is over. A finished or expired key with an open dead letter is not among them: it
-- may have been opened after the expiry, about a charge or refund that was found too late.
--
-- The sweeper, the job that claims due lookups and the pruner need two statements each. The first one reads the keys of
-- all tenants that are due, and locks nothing. The second one takes the keys of one tenant, and checks again that they
-- are due. So a run locks the keys of one tenant at a time.
(SELECT k.tenant_id, k.operation, k.key FROM idempotency_keys AS k
 WHERE sqlc.arg(walk)::text = 'sweep' AND k.locked_until <= payonce_now()
 ORDER BY k.locked_until LIMIT sqlc.arg(max_rows)::int)
UNION ALL
(SELECT k.tenant_id, k.operation, k.key FROM idempotency_keys AS k
 WHERE sqlc.arg(walk)::text = 'claim' AND k.reconcile_after <= payonce_now()
 ORDER BY k.reconcile_after LIMIT sqlc.arg(max_rows)::int)
UNION ALL
(SELECT k.tenant_id, k.operation, k.key FROM idempotency_keys AS k
 WHERE sqlc.arg(walk)::text = 'expire' AND k.finished_at IS NOT NULL AND k.delete_after IS NULL
   AND k.expires_at <= payonce_now() AND k.dead_letter_hold = 'none'
 ORDER BY k.expires_at LIMIT sqlc.arg(max_rows)::int)
UNION ALL
(SELECT k.tenant_id, k.operation, k.key FROM idempotency_keys AS k
 WHERE sqlc.arg(walk)::text = 'delete' AND k.delete_after <= payonce_now() AND k.dead_letter_hold = 'none'
 ORDER BY k.delete_after LIMIT sqlc.arg(max_rows)::int);

-- name: SweepLeases :many
-- in_progress -> unknown, for the keys of one tenant whose leases are over. Competes with owners, evidence, requests
-- and other sweepers. It skips a row that another writer has locked. ExpireLease explains IS TRUE.
--
-- A subquery locks the key of each name, in the order of the names. Then the rows are found again by their place in the
-- table (ctid). A join by key could read all keys of the tenant (ListUndecided, ADR 0052). The comparison of place with
-- itself is always true: as key || '' above, it makes the planner expect one row. A row that has moved since the
-- statement began waits for the next sweep.
WITH lost AS (
    UPDATE idempotency_keys AS k
    SET status = 'unknown', locked_until = NULL, unknown_since = payonce_now(), lookup_failures = 0,
        reconcile_after = payonce_now() + sqlc.arg(visibility)::interval
    FROM (SELECT unnest(ARRAY(
        SELECT (SELECT i.ctid FROM idempotency_keys AS i
                WHERE i.tenant_id = @tenant_id AND i.operation = a.operation AND i.key = a.key
                  AND (i.locked_until <= payonce_now()) IS TRUE
                FOR UPDATE SKIP LOCKED)
        FROM (SELECT unnest(@operations::text[]) AS operation, unnest(@keys::text[]) AS key) AS a
    )) AS place) AS locked
    WHERE locked.place::text = locked.place::text || '' AND k.tenant_id = @tenant_id AND k.ctid = locked.place
    RETURNING k.tenant_id, k.operation, k.key, k.generation, k.attempt, k.subject
), noted AS (
    INSERT INTO idempotency_key_events (
        tenant_id, operation, key, generation, attempt, actor, from_status, to_status, reason)
    SELECT n.tenant_id, n.operation, n.key, n.generation, n.attempt,
           'sweeper', 'in_progress', 'unknown', 'lease over' FROM lost AS n
)
SELECT tenant_id, operation, key, generation, subject FROM lost;

-- name: ClaimDue :many
-- unknown -> unknown: takes the keys of one tenant whose next lookup is due, and hides them from other claimers for the
-- time of visibility. If the job that follows is lost, the keys are due again after it. Competes with other claimers
-- and with everything that resolves a key. SweepLeases explains ctid, and ExpireLease IS TRUE.
UPDATE idempotency_keys AS k
SET reconcile_after = payonce_now() + sqlc.arg(visibility)::interval
FROM (SELECT unnest(ARRAY(
    SELECT (SELECT i.ctid FROM idempotency_keys AS i
            WHERE i.tenant_id = @tenant_id AND i.operation = a.operation AND i.key = a.key
              AND (i.reconcile_after <= payonce_now()) IS TRUE
            FOR UPDATE SKIP LOCKED)
    FROM (SELECT unnest(@operations::text[]) AS operation, unnest(@keys::text[]) AS key) AS a
)) AS place) AS locked
WHERE locked.place::text = locked.place::text || '' AND k.tenant_id = @tenant_id AND k.ctid = locked.place
RETURNING k.tenant_id, k.operation, k.key, k.generation, k.subject;

-- name: PostponeKey :one
-- unknown -> unknown, by a lookup that decided nothing. Competes with everything that resolves the key: no row means
-- that the key was resolved. It also competes with an operator who has the key looked up at once: only the first of two
-- writers that have seen the same reconcile_after passes. coalesce is there for the reason of IS TRUE in ExpireLease.
--
-- While an operator has the case, lookups go on for days. Then a line of the timeline is written only when the result
-- changes.
WITH postponed AS (
    UPDATE idempotency_keys AS k
    SET reconcile_after = payonce_now() + sqlc.arg(after)::interval, lookup_failures = @lookup_failures
    WHERE k.tenant_id = @tenant_id AND k.operation = @operation AND k.key = @key
      AND k.generation = @generation AND k.attempt = @attempt
      AND k.status = 'unknown' AND coalesce(k.reconcile_after = sqlc.arg(seen_due)::timestamptz, false)
    RETURNING k.tenant_id, k.operation, k.key, k.generation, k.attempt, k.expires_at, k.dead_letter_hold
), latest AS MATERIALIZED (
    SELECT e.actor || ' ' || e.reason AS line FROM idempotency_key_events AS e
    WHERE e.tenant_id = @tenant_id AND e.operation = @operation AND e.key = @key ORDER BY e.id DESC LIMIT 1
), noted AS (
    INSERT INTO idempotency_key_events (
        tenant_id, operation, key, generation, attempt, actor, from_status, to_status, reason)
    SELECT n.tenant_id, n.operation, n.key, n.generation, n.attempt,
           @actor, 'unknown', 'unknown', @reason FROM postponed AS n
    WHERE n.dead_letter_hold = 'none' OR @actor || ' ' || @reason IS DISTINCT FROM (SELECT l.line FROM latest AS l)
)
SELECT expires_at FROM postponed;

-- name: NoteEvent :exec
-- Writes a line of the timeline without a transition: evidence confirms what is known, and the key is still of the same
-- generation. Competes with the pruner: without the lock, the line could be written after the line of the expiry, as if
-- the key were still completed. The INSERT is a step of its own, as for all lines: their numbers are their order.
WITH seen AS (
    SELECT k.* FROM idempotency_keys AS k
    WHERE k.tenant_id = @tenant_id AND k.operation = @operation AND k.key = @key AND k.generation = @generation
    FOR SHARE
), noted AS (
    INSERT INTO idempotency_key_events (
        tenant_id, operation, key, generation, attempt, actor, from_status, to_status, reason, evidence)
    SELECT n.tenant_id, n.operation, n.key, n.generation, n.attempt,
           @actor, n.status, n.status, @reason, sqlc.narg(evidence)::jsonb FROM seen AS n
)
SELECT count(*) FROM seen;

-- name: LockKey :exec
-- Locks a key before a dead letter about it is opened or closed, if no step of the key has locked it in this
-- transaction. A key without a row gets a tombstone, which is locked instead: it keeps what the dead letter forbids.
-- Competes with everything that moves the key. The commit of the dead letter ends the lock, and the next writer finds
-- the hold. Nobody waits for a reservation that has not committed: it is as if it had come before the dead letter.
WITH locked AS (
    SELECT k.key FROM idempotency_keys AS k
    WHERE k.tenant_id = @tenant_id AND k.operation = @operation AND k.key = @key FOR NO KEY UPDATE
)
INSERT INTO idempotency_key_tombstones AS t (tenant_id, operation, key, generation)
SELECT @tenant_id, @operation, @key, @generation WHERE NOT EXISTS (SELECT FROM locked)
ON CONFLICT (tenant_id, operation, key) DO UPDATE SET generation = greatest(t.generation, excluded.generation);

-- name: FindHold :one
-- Reads only: whether an open dead letter says that money moved under a key that has no row.
SELECT EXISTS (SELECT FROM idempotency_key_tombstones AS t
               WHERE t.tenant_id = @tenant_id AND t.operation = @operation AND t.key = @key
                 AND t.dead_letter_hold = 'decline');

-- name: ExpireKeys :one
-- completed | failed_retryable -> expired, once the retention is over, for some keys of one tenant. Competes with a
-- retry of a failed_retryable key and with late evidence. The tombstone keeps the generation, whatever happens to the
-- row afterwards. SweepLeases explains ctid, and ExpireLease IS TRUE.
--
-- A tombstone may be ahead of its key, after a partial restore or a repair by hand. It stays as it is. Its guard would
-- refuse the smaller generation, and with the statement the whole run would fail: no key of any tenant would expire.
WITH expired AS (
    UPDATE idempotency_keys AS k
    SET status = 'expired', delete_after = payonce_now() + sqlc.arg(audit)::interval
    FROM (SELECT unnest(ARRAY(
        SELECT (SELECT i.ctid FROM idempotency_keys AS i
                WHERE i.tenant_id = @tenant_id AND i.operation = a.operation AND i.key = a.key
                  AND i.dead_letter_hold = 'none' AND (i.expires_at <= payonce_now()) IS TRUE
                FOR UPDATE SKIP LOCKED)
        FROM (SELECT unnest(@operations::text[]) AS operation, unnest(@keys::text[]) AS key) AS a
    )) AS place) AS locked
    WHERE locked.place::text = locked.place::text || '' AND k.tenant_id = @tenant_id AND k.ctid = locked.place
      AND k.status IN ('completed', 'failed_retryable')
    RETURNING k.tenant_id, k.operation, k.key, k.generation, k.attempt, (k.response_body IS NOT NULL) AS had_response
), tombstones AS (
    INSERT INTO idempotency_key_tombstones AS t (tenant_id, operation, key, generation)
    SELECT e.tenant_id, e.operation, e.key, e.generation FROM expired AS e
    ON CONFLICT (tenant_id, operation, key) DO UPDATE SET generation = excluded.generation
    WHERE t.generation < excluded.generation
), noted AS (
    INSERT INTO idempotency_key_events (
        tenant_id, operation, key, generation, attempt, actor, from_status, to_status, reason)
    SELECT e.tenant_id, e.operation, e.key, e.generation, e.attempt, 'pruner',
           CASE WHEN e.had_response THEN 'completed' ELSE 'failed_retryable' END, 'expired', 'retention over'
    FROM expired AS e
)
SELECT count(*) FROM expired;

-- name: FindDeadLettered :many
-- Reads only: the keys of one tenant with an open dead letter about any generation. Such a key is not deleted: the row
-- holds little of what the dead letters about an earlier generation forbid, but the timeline has the lines of all
-- generations. This is the only statement here that reads dead_letters, the table of package deadletters.
SELECT a.operation::text AS operation, a.key::text AS key
FROM (SELECT unnest(@operations::text[]) AS operation, unnest(@keys::text[]) AS key) AS a
CROSS JOIN LATERAL (SELECT FROM dead_letters AS d
                    WHERE d.tenant_id = @tenant_id::text AND d.operation = a.operation AND d.key = a.key
                      AND d.status = 'open' LIMIT 1) AS found;

-- name: DeleteKeys :one
-- expired -> none, once the audit window is over, for some keys of one tenant, with their timelines. Their tombstones
-- stay. Competes with requests that renew one of the keys. SweepLeases explains ctid.
WITH deleted AS (
    DELETE FROM idempotency_keys AS k
    USING (SELECT unnest(ARRAY(
        SELECT (SELECT i.ctid FROM idempotency_keys AS i
                WHERE i.tenant_id = @tenant_id AND i.operation = a.operation AND i.key = a.key
                  AND i.dead_letter_hold = 'none' AND (i.delete_after <= payonce_now()) IS TRUE
                FOR UPDATE SKIP LOCKED)
        FROM (SELECT unnest(@operations::text[]) AS operation, unnest(@keys::text[]) AS key) AS a
    )) AS place) AS locked
    WHERE locked.place::text = locked.place::text || '' AND k.tenant_id = @tenant_id AND k.ctid = locked.place
      AND k.status = 'expired'
    RETURNING k.tenant_id, k.operation, k.key
), deleted_events AS (
    DELETE FROM idempotency_key_events AS e
    USING (SELECT unnest(ARRAY(
        SELECT unnest(ARRAY(SELECT i.ctid FROM idempotency_key_events AS i
                            WHERE i.tenant_id = @tenant_id AND i.operation = d.operation AND i.key = d.key))
        FROM deleted AS d
    )) AS place) AS line
    WHERE line.place::text = line.place::text || '' AND e.tenant_id = @tenant_id AND e.ctid = line.place
)
SELECT count(*) FROM deleted;

-- name: CountKeys :many
-- How many keys are in each status, and for how many seconds the oldest unknown key has been unknown. The open keys are
-- counted, up to a limit. The finished keys of a big table are estimated.
SELECT c.status::text AS status, c.keys::bigint AS keys,
       coalesce(extract(epoch FROM payonce_now() - c.oldest), 0)::float8 AS oldest_seconds
FROM count_idempotency_keys() AS c;

-- name: ListEvents :many
-- The last lines of the key's timeline, newest first.
SELECT id, generation, attempt, at, actor, from_status, to_status, reason, evidence
FROM idempotency_key_events
WHERE tenant_id = @tenant_id AND operation = @operation AND key = @key
ORDER BY id DESC
LIMIT @max_events;
