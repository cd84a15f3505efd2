-- name: PSPOfAccount :one
-- Reads tenants, the table of package tenants, as ListAccounts and BeginWalk do.
SELECT psp FROM tenants WHERE psp_account = @psp_account;

-- name: ListAccounts :many
-- The PSP accounts of all tenants, in order, in pages.
SELECT psp_account FROM tenants WHERE psp_account > @after ORDER BY psp_account LIMIT @max_rows;

-- name: BeginWalk :one
-- Continues the walk that was not finished, or begins a new walk. Records from long before the tenant was created are
-- not read. A new walk begins overlap before the watermark, or before the beginning of the last walk if that is
-- earlier: the last walk may have left records alone because somebody was working on them, and they must be read again.
-- If a dispute of the list is open, one walk in each overlap of time begins there: the list is in the order of
-- creation, and an old dispute changes.
INSERT INTO ledger_watermarks AS w (account, object, scanned_to, updated_at, resume_after, walk_began)
SELECT t.psp_account, @object, '0001-01-01 00:00:00Z', t.created_at, t.created_at - @overlap::interval, payonce_now()
FROM tenants AS t WHERE t.psp_account = @account
ON CONFLICT (account, object) DO UPDATE
SET resume_after = coalesce(w.resume_after,
        greatest(least(w.scanned_to, w.walk_began,
                       CASE WHEN floor(extract(epoch FROM w.walk_began)
                                       / nullif(extract(epoch FROM @overlap::interval), 0))
                                 < floor(extract(epoch FROM payonce_now())
                                         / nullif(extract(epoch FROM @overlap::interval), 0))
                            THEN sqlc.narg(oldest_open)::timestamptz END) - @overlap::interval,
                 excluded.resume_after)),
    walk_began = CASE WHEN w.resume_after IS NULL OR w.walk_began IS NULL THEN excluded.walk_began
                      ELSE w.walk_began END
RETURNING w.resume_after::timestamptz AS resume_after, w.walk_began::timestamptz AS walk_began;

-- name: AdvanceWalk :exec
-- Stores that everything up to read_to has been read. Of two scans of one ledger, the slower one moves neither the
-- watermark back nor the walk of the other one.
--
-- The watermark never goes into the future: after one record with a wrong date in the future, all new records would be
-- skipped. The position of the walk may, because it follows the list. The last microsecond is read again: two pages may
-- share the records of one instant. Progress sets failed_runs to 0.
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
-- Stores that the walk has reached the end of the list.
UPDATE ledger_watermarks AS w SET resume_after = NULL, updated_at = payonce_now(), failed_runs = 0
WHERE w.account = @account AND w.object = @object AND w.walk_began = sqlc.arg(walk_began)::timestamptz;

-- name: LockLedgers :exec
-- Locks both ledgers of an account. When its two walks fail at the same time, the second one then sees the dead letter
-- of the first.
SELECT FROM ledger_watermarks WHERE account = @account ORDER BY object FOR UPDATE;

-- name: FailWalk :one
-- Counts a run that made no progress and did not reach the end. An account has at most one open dead letter of this
-- kind, so is_open reads dead_letters, the table of package deadletters.
UPDATE ledger_watermarks AS w SET failed_runs = least(w.failed_runs, 1000000) + 1
WHERE w.account = @account AND w.object = @object AND w.walk_began = sqlc.arg(walk_began)::timestamptz
  AND w.resume_after IS NOT NULL
RETURNING w.failed_runs, w.resume_after::timestamptz AS resume_after,
          EXISTS (SELECT FROM dead_letters AS d WHERE d.kind = @kind AND d.status = 'open'
                  AND d.finding >= 'ledger ' || w.account || ' '
                  AND d.finding < 'ledger ' || w.account || '!') AS is_open;
