-- Cases that only an operator can close, and what was done about them.
--
-- OpenDeadLetter and RecomputeHold write dead_letter_hold of package idempotency's table: what the open dead letters about a key's generation and subject
-- forbid. Before either, in the same transaction, the key's row is locked: by a step of the key, or by one of the two statements HoldKey. So they see every
-- dead letter about the key that was committed, and no other is opened or closed meanwhile. The races:
--   open and close:  The second to get the lock sees what the first has committed. An open letter is never left out of the hold.
--   two opens:       They raise the hold one after the other, and it stays the greater one.
--   open and renew:  Renewed first, the key has another generation, and the letter does not hold it. Opened first, the hold ends with the generation.
--   open and step:   A release, decline or expiry that waits for the lock is held against the row as it is then (idempotency.sql).
-- The key is locked before the letter is, by everybody, so that no two of them wait for each other.

-- name: OpenDeadLetter :one
-- Seen again, an open finding stays one letter; so does one that an operator has judged. After a retry it is a new case, and so it is
-- while its key is unknown: then the judgement was about an earlier attempt, and without a letter nobody would look at this one. A letter that goes with a
-- step of its key (behind_step) is opened only where the step, a statement before this one in the same transaction, has passed: then the key's row is of this
-- very transaction. A letter about a key raises the hold on the key's row, which is locked by then. The answer is how many letters were opened.
WITH opened AS (
    INSERT INTO dead_letters (id, kind, finding, tenant_id, operation, key, generation, subject, reason, evidence)
    SELECT @id, @kind, @finding, sqlc.narg(tenant_id)::text, sqlc.narg(operation)::text, sqlc.narg(key)::text,
           sqlc.narg(generation)::integer, sqlc.narg(subject)::uuid, @reason, @evidence
    WHERE (NOT EXISTS (SELECT 1 FROM dead_letters AS d
                       WHERE d.kind = @kind AND d.finding = @finding AND d.status = 'resolved' AND d.action <> 'retry')
           OR EXISTS (SELECT 1 FROM idempotency_keys AS k
                      WHERE k.tenant_id = coalesce(sqlc.narg(tenant_id)::text, '') AND k.operation = sqlc.narg(operation) AND k.key = sqlc.narg(key) AND k.generation = sqlc.narg(generation)
                        AND (sqlc.narg(subject)::uuid IS NULL OR k.subject = sqlc.narg(subject)::uuid) AND k.status = 'unknown'))
      AND (NOT sqlc.arg(behind_step)::boolean
           OR EXISTS (SELECT 1 FROM idempotency_keys AS k
                      WHERE k.tenant_id = coalesce(sqlc.narg(tenant_id)::text, '') AND k.operation = coalesce(sqlc.narg(operation)::text, '')
                        AND k.key = coalesce(sqlc.narg(key)::text, '') AND k.xmin = pg_current_xact_id()::xid))
    ON CONFLICT (kind, finding) WHERE status = 'open' DO NOTHING
    RETURNING tenant_id, operation, key, generation, subject, hold
), held AS (
    UPDATE idempotency_keys AS k SET dead_letter_hold = o.hold
    FROM opened AS o
    WHERE k.tenant_id = sqlc.narg(tenant_id)::text AND k.tenant_id = o.tenant_id AND k.operation = o.operation AND k.key = o.key AND k.generation = o.generation
      AND (o.subject IS NULL OR k.subject = o.subject) AND k.dead_letter_hold < o.hold
)
SELECT count(*) FROM opened;

-- name: ListLetters :many
-- Newest first, along dead_letters_by_status. No cursor is the beginning of the list.
SELECT id, kind, finding, tenant_id, operation, key, generation, subject, reason, evidence, opened_at, version,
       extract(epoch FROM payonce_now() - opened_at)::float8 AS age_seconds,
       resolved_at, action, actor, resolution_reason
FROM dead_letters
WHERE status = @status
  AND (opened_at, id) < (coalesce(sqlc.narg(before_opened)::timestamptz, 'infinity'),
                         coalesce(sqlc.narg(before_id)::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
ORDER BY opened_at DESC, id DESC
LIMIT @max_rows;

-- name: GetLetter :one
SELECT id, kind, finding, tenant_id, operation, key, generation, subject, reason, evidence, opened_at, version,
       extract(epoch FROM payonce_now() - opened_at)::float8 AS age_seconds,
       resolved_at, action, actor, resolution_reason
FROM dead_letters WHERE id = @id;

-- name: ResolveLetter :one
-- open -> resolved, with its audit row in the same statement: neither exists without the other. Competes with other operators: the
-- loser waits for the winner's commit and then finds another version.
WITH resolved AS (
    UPDATE dead_letters AS d
    SET status = 'resolved', version = d.version + 1, resolved_at = payonce_now(),
        action = sqlc.arg(action)::text, actor = sqlc.arg(actor)::text, resolution_reason = sqlc.arg(reason)::text
    WHERE d.id = @id AND d.version = @version AND d.status = 'open'
    RETURNING d.*
), audited AS (
    INSERT INTO operator_actions (letter_id, letter_version, actor, action, reason, outcome)
    SELECT r.id, @version, r.actor, r.action, r.resolution_reason, 'done' FROM resolved AS r
)
SELECT id, kind, finding, tenant_id, operation, key, generation, subject, reason, evidence, opened_at, version,
       extract(epoch FROM payonce_now() - opened_at)::float8 AS age_seconds,
       resolved_at, action, actor, resolution_reason
FROM resolved;

-- name: RecomputeHold :exec
-- Behind ResolveLetter: the hold comes down to what the letters still open forbid, where the key still stands for what the resolved letter is about. It is a
-- statement of its own, since only one that begins under the lock of the key sees every letter that others have opened.
WITH due AS (
    SELECT k.tenant_id, k.operation, k.key, coalesce(max(d.hold), 'none') AS hold
    FROM idempotency_keys AS k
    LEFT JOIN dead_letters AS d ON d.tenant_id = k.tenant_id AND d.operation = k.operation AND d.key = k.key AND d.generation = k.generation
        AND d.status = 'open' AND (d.subject IS NULL OR d.subject = k.subject)
    WHERE k.tenant_id = @tenant_id AND k.operation = @operation AND k.key = @key AND k.generation = @generation
      AND (sqlc.narg(subject)::uuid IS NULL OR k.subject = sqlc.narg(subject)::uuid)
    GROUP BY k.tenant_id, k.operation, k.key
)
UPDATE idempotency_keys AS k SET dead_letter_hold = u.hold
FROM due AS u
WHERE k.tenant_id = @tenant_id AND k.tenant_id = u.tenant_id AND k.operation = u.operation AND k.key = u.key AND k.dead_letter_hold <> u.hold;

-- name: LetterExists :one
SELECT EXISTS (SELECT 1 FROM dead_letters WHERE id = @id);

-- name: AuditRefusal :exec
INSERT INTO operator_actions (letter_id, letter_version, actor, action, reason, outcome, detail)
VALUES (@letter_id, @letter_version, @actor, @action, @reason, 'refused', @detail);

-- name: ListActions :many
-- What operators did about a letter, oldest first, bounded.
SELECT at, letter_version, actor, action, reason, outcome, detail
FROM operator_actions WHERE letter_id = @letter_id ORDER BY id LIMIT @max_rows;

-- name: OtherOpenLetter :one
-- The oldest other letter that holds the key for what it stands for. That a job has failed holds nothing.
SELECT d.id FROM dead_letters AS d
WHERE d.tenant_id = @tenant_id AND d.operation = @operation AND d.key = @key AND d.generation = @generation AND d.status = 'open' AND d.id <> @id AND d.kind <> 'job_discarded'
  AND (d.subject IS NULL OR sqlc.narg(subject)::uuid IS NULL OR d.subject = sqlc.narg(subject)::uuid)
ORDER BY d.opened_at, d.id LIMIT 1;

-- name: CountOpen :many
SELECT kind, count(*) AS letters,
       extract(epoch FROM payonce_now() - min(opened_at))::float8 AS oldest_seconds
FROM dead_letters WHERE status = 'open' GROUP BY kind;
