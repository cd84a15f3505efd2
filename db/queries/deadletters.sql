-- Dead letters, and what operators did about them.
--
-- OpenDeadLetter and RecomputeHold write dead_letter_hold in the tables of package idempotency, and WakeFreed writes
-- there when a key is looked up next. A dead letter holds the generation and subject that it names. If it says that
-- money moved (decline), it holds the key, whatever the key stands for: no generation of it is executed then.
-- moved_outside does not: that money moved out of a payment, and not under its key. It does not hold the expired key of
-- a payment that was executed: a renewal is a new payment. A key without a row is held in its tombstone.
--
-- An earlier statement of the same transaction has locked the key's row, or its tombstone: a step of the key, or
-- LockKey of idempotency.sql. So both statements see every committed dead letter about the key, and no other
-- transaction opens or closes one meanwhile. The races:
--   open and close:  The second transaction gets the lock when the first has committed, and sees its result. The hold
--                    never leaves out an open dead letter.
--   two opens:       They raise the hold one after the other. The greater hold stays.
--   open and renew:  After a renewal the key has another generation, and only money holds it. A renewal after the
--                    opening does not pass if money holds it, and sets any other hold to none.
--   open and step:   A release, decline, expiry or retry that waited for the lock is checked against the new row.
-- Every transaction locks the key before the dead letter, so no two of them deadlock.

-- name: OpenDeadLetter :one
-- none -> open, and raises the hold of the key. Returns how many dead letters were opened: 0 or 1.
--
-- A finding that is open, or that an operator has resolved, opens no second dead letter. There are two exceptions.
-- After the actions retry and answered it is a new case. It is also a new case while its key is unknown: the operator
-- decided about an earlier attempt, and without a dead letter nobody would look at this attempt.
--
-- With behind_step, the dead letter is opened only if an earlier statement of this transaction has moved the key. Then
-- this transaction has written the key's row (xmin).
WITH opened AS (
    INSERT INTO dead_letters (id, kind, finding, tenant_id, operation, key, generation, subject, reason, evidence)
    SELECT @id, @kind, @finding, sqlc.narg(tenant_id)::text, sqlc.narg(operation)::text, sqlc.narg(key)::text,
           sqlc.narg(generation)::integer, sqlc.narg(subject)::uuid, @reason, @evidence
    WHERE (NOT EXISTS (SELECT 1 FROM dead_letters AS d
                       WHERE d.kind = @kind AND d.finding = @finding AND d.status = 'resolved'
                         AND d.action NOT IN ('retry', 'answered'))
           OR EXISTS (SELECT 1 FROM idempotency_keys AS k
                      WHERE k.tenant_id = coalesce(sqlc.narg(tenant_id)::text, '')
                        AND k.operation = sqlc.narg(operation) AND k.key = sqlc.narg(key)
                        AND k.generation = sqlc.narg(generation) AND k.subject = sqlc.narg(subject)::uuid
                        AND k.status = 'unknown'))
      AND (NOT sqlc.arg(behind_step)::boolean
           OR EXISTS (SELECT 1 FROM idempotency_keys AS k
                      WHERE k.tenant_id = coalesce(sqlc.narg(tenant_id)::text, '')
                        AND k.operation = coalesce(sqlc.narg(operation)::text, '')
                        AND k.key = coalesce(sqlc.narg(key)::text, '') AND k.xmin = pg_current_xact_id()::xid))
    ON CONFLICT (kind, finding) WHERE status = 'open' AND finding IS NOT NULL DO NOTHING
    RETURNING tenant_id, operation, key, generation, subject, hold
), held AS (
    UPDATE idempotency_keys AS k SET dead_letter_hold = o.hold
    FROM opened AS o
    WHERE k.tenant_id = sqlc.narg(tenant_id)::text AND k.operation = sqlc.narg(operation)::text
      AND k.key = sqlc.narg(key)::text AND k.dead_letter_hold < o.hold
      AND (o.hold = 'decline' AND @kind <> 'moved_outside'
           OR k.generation = o.generation AND (o.subject IS NULL OR k.subject = o.subject))
      AND NOT (@kind = 'moved_outside' AND k.status = 'expired' AND coalesce(k.response_status, 402) <> 402)
), held_without_row AS (
    UPDATE idempotency_key_tombstones AS t SET dead_letter_hold = o.hold
    FROM opened AS o
    WHERE t.tenant_id = sqlc.narg(tenant_id)::text AND t.operation = sqlc.narg(operation)::text
      AND t.key = sqlc.narg(key)::text AND o.hold = 'decline' AND @kind <> 'moved_outside'
)
SELECT count(*) FROM opened;

-- name: ListDeadLetters :many
-- Newest first, by the index dead_letters_by_status, which only a condition on opened_at opens. Without a cursor, the
-- list begins with the newest one. A filter that is NULL selects all.
SELECT id, kind, finding, tenant_id, operation, key, generation, subject, reason, evidence, opened_at, version,
       extract(epoch FROM payonce_now() - opened_at)::float8 AS age_seconds,
       resolved_at, action, actor, resolution_reason
FROM dead_letters
WHERE status = @status AND opened_at <= coalesce(sqlc.narg(before_opened)::timestamptz, 'infinity')
  AND (sqlc.narg(kind)::text IS NULL OR kind = sqlc.narg(kind))
  AND (sqlc.narg(tenant)::text IS NULL OR tenant_id = sqlc.narg(tenant))
  AND (sqlc.narg(opened_after)::timestamptz IS NULL OR opened_at >= sqlc.narg(opened_after))
  AND (sqlc.narg(opened_before)::timestamptz IS NULL OR opened_at < sqlc.narg(opened_before))
  AND (sqlc.arg(age)::interval = interval '0' OR opened_at <= payonce_now() - sqlc.arg(age)::interval)
  AND (opened_at, id) < (coalesce(sqlc.narg(before_opened)::timestamptz, 'infinity'),
                         coalesce(sqlc.narg(before_id)::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
ORDER BY opened_at DESC, id DESC
LIMIT @max_rows;

-- name: GetDeadLetter :one
SELECT id, kind, finding, tenant_id, operation, key, generation, subject, reason, evidence, opened_at, version,
       extract(epoch FROM payonce_now() - opened_at)::float8 AS age_seconds,
       resolved_at, action, actor, resolution_reason
FROM dead_letters WHERE id = @id;

-- name: ResolveDeadLetter :one
-- open -> resolved, with its audit row: one statement writes both, so neither exists without the other. Competes with
-- other operators: the loser waits for the winner's commit, and then finds another version. <> keeps PostgreSQL from
-- the indexes of all open dead letters.
WITH resolved AS (
    UPDATE dead_letters AS d
    SET status = 'resolved', version = d.version + 1, resolved_at = payonce_now(),
        action = sqlc.arg(action)::text, actor = sqlc.arg(actor)::text, resolution_reason = sqlc.arg(reason)::text
    WHERE d.id = @id AND d.version = @version AND d.status <> 'resolved'
    RETURNING d.*
), audited AS (
    INSERT INTO operator_actions (dead_letter_id, dead_letter_version, actor, action, reason, outcome)
    SELECT r.id, @version, r.actor, r.action, r.resolution_reason, 'done' FROM resolved AS r
)
SELECT id, kind, finding, tenant_id, operation, key, generation, subject, reason, evidence, opened_at, version,
       extract(epoch FROM payonce_now() - opened_at)::float8 AS age_seconds,
       resolved_at, action, actor, resolution_reason
FROM resolved;

-- name: AnswerDeadLetter :exec
-- open -> resolved, as ResolveDeadLetter, without an operator: evidence has answered the finding. Competes with
-- operators: the loser finds the dead letter resolved.
WITH resolved AS (
    UPDATE dead_letters AS d
    SET status = 'resolved', version = d.version + 1, resolved_at = payonce_now(),
        action = sqlc.arg(action)::text, actor = sqlc.arg(actor)::text, resolution_reason = sqlc.arg(reason)::text
    WHERE d.kind = @kind AND d.finding = @finding AND d.status = 'open'
    RETURNING d.*
)
INSERT INTO operator_actions (dead_letter_id, dead_letter_version, actor, action, reason, outcome)
SELECT r.id, r.version - 1, r.actor, r.action, r.resolution_reason, 'done' FROM resolved AS r;

-- name: RecomputeHold :exec
-- Follows ResolveDeadLetter or AnswerDeadLetter. It sets the hold of a key, and of its tombstone, to what the dead
-- letters that are still open forbid. It is a separate statement: only a statement that begins after the key was locked
-- sees every dead letter that other transactions have opened. What they forbid is computed in a step of its own.
WITH still AS (
    SELECT coalesce(max(d.hold), 'none') AS hold
    FROM dead_letters AS d
    LEFT JOIN idempotency_keys AS k
        ON k.tenant_id = @tenant_id AND k.operation = d.operation AND k.key = d.key
        AND k.generation = d.generation AND (d.subject IS NULL OR d.subject = k.subject)
        AND NOT (d.kind = 'moved_outside' AND k.status = 'expired' AND coalesce(k.response_status, 402) <> 402)
    WHERE d.tenant_id = @tenant_id AND d.operation = @operation AND d.key = @key AND d.status = 'open'
      AND (d.hold = 'decline' AND d.kind <> 'moved_outside' OR k.key IS NOT NULL)
), held AS (
    UPDATE idempotency_keys AS k SET dead_letter_hold = s.hold
    FROM still AS s
    WHERE k.tenant_id = @tenant_id AND k.operation = @operation AND k.key = @key AND k.dead_letter_hold <> s.hold
)
UPDATE idempotency_key_tombstones AS t SET dead_letter_hold = 'none'
FROM still AS s
WHERE t.tenant_id = @tenant_id AND t.operation = @operation AND t.key = @key AND s.hold < 'decline'
  AND t.dead_letter_hold <> 'none';

-- name: WakeFreed :exec
-- unknown -> unknown: follows RecomputeHold. A key that is no longer held for another payment is looked up at once, and
-- with a whole budget. Nobody has decided about its own payment, and while it was held, its lookups were rare.
UPDATE idempotency_keys AS k SET reconcile_after = payonce_now(), lookup_failures = 0
WHERE k.tenant_id = @tenant_id AND k.operation = @operation AND k.key = @key
  AND (k.generation <> @generation OR k.subject IS DISTINCT FROM sqlc.narg(subject)::uuid)
  AND k.status = 'unknown' AND k.dead_letter_hold < 'release';

-- name: AuditRefused :exec
INSERT INTO operator_actions (dead_letter_id, dead_letter_version, actor, action, reason, outcome, detail)
VALUES (@dead_letter_id::uuid, @dead_letter_version::integer, @actor, @action, @reason::text, 'refused', @detail);

-- name: ListActions :many
-- The first decisions of operators about a dead letter, oldest first.
SELECT at, coalesce(dead_letter_version, 0)::integer AS dead_letter_version, actor, action,
       coalesce(reason, '')::text AS reason, outcome, detail
FROM operator_actions WHERE dead_letter_id = @dead_letter_id::uuid ORDER BY id LIMIT @max_rows;

-- name: OpenOnKey :one
-- others is the oldest other open dead letter that holds the key and needs a decision. A failed job (job_discarded)
-- needs none: it forbids only the expiry. charged says whether an open dead letter says that money moved for this very
-- payment or refund. The hold of the key's row does not tell: it is also about the other generations of the key.
SELECT ARRAY(SELECT d.id FROM dead_letters AS d
             WHERE d.tenant_id = @tenant_id AND d.operation = @operation AND d.key = @key
               AND d.status = 'open' AND d.id <> @id AND d.kind <> 'job_discarded'
               AND (d.hold = 'decline' AND d.kind <> 'moved_outside' OR d.generation = @generation
                    AND (d.subject IS NULL OR sqlc.narg(subject)::uuid IS NULL
                         OR d.subject = sqlc.narg(subject)::uuid))
             ORDER BY d.opened_at, d.id LIMIT 1)::uuid[] AS others,
       EXISTS (SELECT FROM dead_letters AS d
               WHERE d.tenant_id = @tenant_id AND d.operation = @operation AND d.key = @key AND d.status = 'open'
                 AND d.hold = 'decline' AND d.generation = @generation
                 AND (d.subject IS NULL OR d.subject = sqlc.narg(subject)::uuid)) AS charged;

-- name: CountOpen :many
SELECT kind, count(*) AS dead_letters,
       extract(epoch FROM payonce_now() - min(opened_at))::float8 AS oldest_seconds
FROM dead_letters WHERE status = 'open' GROUP BY kind;
