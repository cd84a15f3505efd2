-- Statement reconciliation. One transaction per account and day fills statement_lines (statement_lines.sql) by COPY and
-- compares it as a whole with statement_movements. It only reads what belongs to payments, tenants and keys. It competes
-- with settling: what is settled after the statement was read is judged by the time of its settling.

-- name: Clock :one
SELECT payonce_now()::timestamptz AS at;

-- name: FindAccounts :many
-- All accounts, or those that are named.
SELECT id AS tenant, psp_account AS account FROM tenants
WHERE cardinality(@accounts::text[]) = 0 OR psp_account = ANY (@accounts::text[])
ORDER BY psp_account;

-- name: TryLock :one
-- Until the transaction ends. Whoever comes second does not wait.
SELECT pg_try_advisory_xact_lock(hashtextextended(@name, 0)) AS locked;

-- name: FetchNamed :exec
-- Ours of what the day's lines name: from here on, this transaction reads its own tables alone. So it is everywhere, though only where payments lie on several
-- servers (docs/scaling.md) a statement cannot write here and look there at once.
INSERT INTO statement_ours (object, id, psp_id, amount_minor, currency, status)
SELECT m.object, m.id, m.psp_id, m.amount_minor, m.currency, m.status
FROM statement_lines AS l JOIN statement_movements AS m ON m.id = l.subject AND m.object = l.object
WHERE l.day = @day AND m.tenant_id = @tenant_id
ON CONFLICT (object, id) DO NOTHING;

-- name: FetchByPSPID :exec
-- The same of what bears the PSP's id of a line.
INSERT INTO statement_ours (object, id, psp_id, amount_minor, currency, status)
SELECT m.object, m.id, m.psp_id, m.amount_minor, m.currency, m.status
FROM statement_lines AS l JOIN statement_movements AS m ON m.psp_id = l.psp_id AND m.object = l.object
WHERE l.day = @day AND m.tenant_id = @tenant_id
ON CONFLICT (object, id) DO NOTHING;

-- name: FetchStrangers :exec
-- Whatever tenant has what a line names and is not ours: no index is on an id alone, so each tenant is asked.
INSERT INTO statement_strangers (object, id)
SELECT m.object, m.id
FROM (SELECT l.object, l.subject FROM statement_lines AS l
      WHERE l.day = @day AND l.subject IS NOT NULL
        AND NOT EXISTS (SELECT FROM statement_ours AS o WHERE o.object = l.object AND o.id = l.subject)) AS l
JOIN tenants AS t ON t.id <> @tenant_id
JOIN statement_movements AS m ON m.tenant_id = t.id AND m.id = l.subject AND m.object = l.object;

-- name: AdoptByPSPID :exec
-- A line that names nothing of the tenant's, but bears the PSP's id of a movement that it has, is about that one.
UPDATE statement_lines AS l SET subject = m.id, by_psp_id = true
FROM statement_ours AS m
WHERE l.day = @day AND m.object = l.object AND m.psp_id = l.psp_id
  AND NOT EXISTS (SELECT FROM statement_ours AS named WHERE named.id = l.subject AND named.object = l.object);

-- name: WriteLineBreaks :execrows
-- Every break that a line of the day shows. Of the lines about one movement, the first one under the id that we know it by
-- is compared with ours, and each further id is a duplicate. So is an id that is listed twice, whatever about. Where an operator
-- has vouched for a movement without knowing its id (one of ours begins with own_prefix), the first line about it is that movement.
INSERT INTO statement_breaks AS b (
    account, day, object, kind, psp_id, subject, reference, other_tenant, lines, their_amount_minor, their_currency,
    our_amount_minor, our_currency, our_status, our_psp_id, moved_at, first_seen, last_seen, raised_by, seen_by)
SELECT DISTINCT ON (x.object, k.kind, x.psp_id, x.subject)
       @account, @day, x.object, k.kind, x.psp_id, x.subject, x.reference,
       x.subject IS NULL AND EXISTS (SELECT FROM statement_strangers AS o WHERE o.id = x.named AND o.object = x.object),
       x.lines, x.amount_minor, x.currency, x.our_amount_minor, x.our_currency, x.our_status, x.our_psp_id,
       x.created_at, @seen_at, @seen_at, @run_id, @run_id
FROM (
    SELECT l.object, l.psp_id, l.reference, l.subject AS named, l.by_psp_id, l.amount_minor, l.currency, l.executed,
           l.created_at, m.id AS subject, m.amount_minor AS our_amount_minor, m.currency AS our_currency,
           m.status AS our_status, m.psp_id AS our_psp_id,
           row_number() OVER (PARTITION BY l.object, m.id, CASE WHEN m.id IS NULL THEN l.psp_id END
                              ORDER BY l.executed DESC, (m.psp_id = l.psp_id) DESC NULLS LAST, l.line) AS nth_about,
           row_number() OVER (PARTITION BY l.object, l.psp_id ORDER BY l.line) AS nth_id,
           count(*) OVER (PARTITION BY l.object, l.psp_id) AS lines
    FROM statement_lines AS l
    LEFT JOIN statement_ours AS m ON m.id = l.subject AND m.object = l.object
    WHERE l.day = @day
) AS x
CROSS JOIN LATERAL (VALUES
    ('missing_here', x.executed AND x.subject IS NULL AND x.nth_id = 1),
    ('duplicate', x.executed AND (x.nth_about > 1 OR x.nth_id > 1)),
    ('status', x.nth_about = 1 AND x.executed <> (x.our_status = 'succeeded')),
    ('psp_id', x.nth_about = 1 AND x.executed AND x.our_status = 'succeeded' AND (x.by_psp_id OR (x.our_psp_id <> x.psp_id
        AND NOT starts_with(x.our_psp_id, sqlc.arg(own_prefix)::text)))),
    ('amount', x.nth_about = 1 AND x.executed AND x.our_amount_minor <> x.amount_minor),
    ('currency', x.nth_about = 1 AND x.executed AND x.our_currency <> x.currency)
) AS k (kind, found)
WHERE k.found
ORDER BY x.object, k.kind, x.psp_id, x.subject, x.nth_id
ON CONFLICT (account, day, object, kind, psp_id, coalesce(subject, '00000000-0000-0000-0000-000000000000')) DO UPDATE
SET reference = excluded.reference, other_tenant = excluded.other_tenant, lines = excluded.lines,
    their_amount_minor = excluded.their_amount_minor, their_currency = excluded.their_currency,
    our_amount_minor = excluded.our_amount_minor, our_currency = excluded.our_currency, our_status = excluded.our_status,
    our_psp_id = excluded.our_psp_id, moved_at = excluded.moved_at, last_seen = excluded.last_seen, gone_at = NULL,
    raised_by = CASE WHEN b.gone_at IS NULL THEN b.raised_by ELSE excluded.raised_by END, seen_by = excluded.seen_by;

-- name: FindAbsent :exec
-- Movements of ours of the day. ForgetPresent then takes out those that the statements read so far have. The range of ids is what the primary key finds, times decide.
-- latest is when the PSP can have dated it at the latest: no evidence of it was there before the money had moved. Without
-- the key, which is forgotten in time, only the PSP's own memory of the key bounds it.
INSERT INTO statement_absent (object, subject, psp_id, amount_minor, currency, created_at, latest)
SELECT m.object, m.id, m.psp_id, m.amount_minor, m.currency, m.created_at,
       least((SELECT k.finished_at FROM idempotency_keys AS k
              WHERE k.tenant_id = m.tenant_id AND k.operation = m.operation AND k.key = m.idempotency_key AND k.subject = m.id),
             m.created_at + sqlc.arg(horizon)::interval) + sqlc.arg(skew)::interval
FROM statement_movements AS m
WHERE m.tenant_id = @tenant_id AND m.status = 'succeeded'
  AND m.id >= sqlc.arg(first_id)::uuid AND m.id < sqlc.arg(last_id)::uuid
  AND m.created_at >= sqlc.arg(created_from)::timestamptz AND m.created_at < sqlc.arg(created_until)::timestamptz;

-- name: CountAbsent :one
-- How many may be in a statement of before, and how many in one of after.
SELECT count(*) FILTER (WHERE created_at < sqlc.arg(early)::timestamptz) AS before,
       count(*) FILTER (WHERE latest > sqlc.arg(late)::timestamptz) AS after
FROM statement_absent;

-- name: ForgetPresent :exec
-- What a day's statement has is not absent.
DELETE FROM statement_absent AS a
USING statement_lines AS l WHERE l.day = @day AND l.subject = a.subject AND l.object = a.object;

-- name: WriteAbsences :execrows
-- The absent that no statement still to come can have.
INSERT INTO statement_breaks AS b (
    account, day, object, kind, psp_id, subject, reference, other_tenant, lines, our_amount_minor, our_currency,
    our_status, our_psp_id, moved_at, first_seen, last_seen, raised_by, seen_by)
SELECT @account, @day, a.object, 'missing_there', a.psp_id, a.subject, '', false, 0, a.amount_minor, a.currency,
       'succeeded', a.psp_id, a.created_at, @seen_at, @seen_at, @run_id, @run_id
FROM statement_absent AS a
WHERE a.latest <= sqlc.arg(late)::timestamptz
ON CONFLICT (account, day, object, kind, psp_id, coalesce(subject, '00000000-0000-0000-0000-000000000000')) DO UPDATE
SET last_seen = excluded.last_seen, gone_at = NULL,
    raised_by = CASE WHEN b.gone_at IS NULL THEN b.raised_by ELSE excluded.raised_by END, seen_by = excluded.seen_by;

-- name: MarkGone :execrows
UPDATE statement_breaks SET gone_at = sqlc.arg(seen_at)::timestamptz
WHERE account = @account AND day = @day AND gone_at IS NULL AND seen_by <> @run_id;

-- name: WriteRun :exec
INSERT INTO statement_runs (id, account, day, started_at, status, lines, breaks, pending)
VALUES (@id, @account, @day, @started_at, @status, @lines, @breaks, @pending);

-- name: PendingDays :many
-- Days whose last run left movements pending.
SELECT last.day FROM (
    SELECT DISTINCT ON (r.day) r.day, r.pending FROM statement_runs AS r
    WHERE r.account = @account AND r.day >= sqlc.arg(first_day)::date AND r.day < sqlc.arg(before)::date
    ORDER BY r.day, r.started_at DESC
) AS last
WHERE last.pending > 0 ORDER BY last.day;

-- name: MissingDays :many
-- The days of accounts up to one, newest first, of which no run has judged the whole statement. A day that was judged before it was over
-- is among them.
SELECT t.psp_account AS account, d.day::date AS day
FROM tenants AS t
CROSS JOIN LATERAL (SELECT sqlc.arg(last_day)::date - n AS day FROM generate_series(0, sqlc.arg(days)::integer - 1) AS n) AS d
WHERE d.day >= (t.created_at AT TIME ZONE 'UTC')::date
  AND NOT EXISTS (SELECT FROM statement_runs AS r WHERE r.account = t.psp_account AND r.day = d.day AND r.status = 'complete')
ORDER BY d.day DESC, t.psp_account;

-- name: CountRaised :one
SELECT count(*) FROM statement_breaks
WHERE account = @account AND day = @day AND gone_at IS NULL AND raised_by = sqlc.arg(run_id)::uuid;

-- name: OpenBreaks :many
-- The breaks of a day, in pages, or only those that a run has found and that were not there before. Ages are in seconds.
SELECT id, account, day, object, kind, psp_id, subject, reference, other_tenant, lines, their_amount_minor, their_currency,
       our_amount_minor, our_currency, our_status, our_psp_id, moved_at, first_seen,
       extract(epoch FROM payonce_now() - first_seen)::bigint AS age,
       extract(epoch FROM payonce_now() - moved_at)::bigint AS movement_age
FROM statement_breaks
WHERE account = @account AND day = @day AND gone_at IS NULL AND id > @after
  AND (sqlc.narg(raised_by)::uuid IS NULL OR raised_by = sqlc.narg(raised_by))
ORDER BY id LIMIT @max_rows;

-- name: Totals :many
-- The breaks of the days of some runs by kind and currency. What is at stake is the difference where both sides have an amount that differs,
-- else the amount that moved. Ages are since a break was first seen.
SELECT kind, coalesce(their_currency, our_currency, '')::text AS currency, count(*) AS breaks,
       coalesce(sum(CASE kind WHEN 'amount' THEN abs(their_amount_minor::numeric - our_amount_minor)
                              ELSE coalesce(their_amount_minor, our_amount_minor) END), 0)::text AS at_stake_minor,
       count(*) FILTER (WHERE first_seen > payonce_now() - interval '1 day') AS to_one_day,
       count(*) FILTER (WHERE first_seen <= payonce_now() - interval '1 day'
                          AND first_seen > payonce_now() - interval '7 days') AS to_seven_days,
       count(*) FILTER (WHERE first_seen <= payonce_now() - interval '7 days') AS older,
       max(extract(epoch FROM payonce_now() - moved_at))::bigint AS oldest_movement
FROM statement_breaks AS b
JOIN statement_runs AS r ON r.account = b.account AND r.day = b.day
WHERE b.gone_at IS NULL AND r.id = ANY (@run_ids::uuid[])
GROUP BY 1, 2 ORDER BY 1, 2;
