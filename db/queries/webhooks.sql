-- Webhooks as they were received.

-- name: StoreEvents :many
-- none -> stored, with the job that processes the event. Competes with another delivery of the same event: the second
-- INSERT waits for the first transaction, and does nothing if that one has committed. The caller gives each event once,
-- sorted by bytes, and gets the rows in that order. The job has no unique key, because the event's row says already
-- that there is one job. Its other columns have River's defaults (docs/adr/0041-river-for-jobs.md). An event that says
-- nothing about us is none -> processed, without a job.
--
-- A duplicate writes no row, so its commit would be acknowledged at once, even if the commit of the first delivery
-- still waits for the standby. The message makes it wait (docs/adr/0022).
WITH asked AS MATERIALIZED (
    SELECT unnest(@ids::text[]) AS id, unnest(@sent_at::timestamptz[]) AS sent_at, unnest(@bodies::bytea[]) AS body,
        unnest(@ignored::boolean[]) AS ignored
), stored AS (
    INSERT INTO webhook_events (id, sent_at, body, processed_at, result)
    SELECT a.id, a.sent_at, a.body, CASE WHEN a.ignored THEN payonce_now() END, CASE WHEN a.ignored THEN 'ignored' END
    FROM asked AS a
    ON CONFLICT (id) DO NOTHING
    RETURNING id, result
), enqueued AS (
    INSERT INTO river_job (args, kind, queue, max_attempts)
    SELECT jsonb_build_object('eventId', s.id), @kind, @queue, @max_attempts FROM stored AS s WHERE s.result IS NULL
)
SELECT (s.id IS NOT NULL OR pg_logical_emit_message(true, 'payonce', '') IS NULL)::boolean AS stored
FROM asked AS a LEFT JOIN stored AS s ON s.id = a.id
ORDER BY a.id COLLATE "C";

-- name: WakeQueue :exec
-- Tells the workers of a queue, by the channel on which River's workers listen, that a job is there. Without it, they
-- find the job when they look the next time.
SELECT pg_notify(current_schema() || '.river_insert', json_build_object('queue', @queue::text)::text);

-- name: GetEvent :one
SELECT sent_at, body, (processed_at IS NOT NULL)::boolean AS processed
FROM webhook_events WHERE id = @id;

-- name: SetResult :execrows
-- stored -> processed, with a result. Competes with another run of the same job: the first result stays. Without a
-- result, it is processed -> stored: an operator wants the event processed again. Competes with the pruner.
UPDATE webhook_events
SET processed_at = CASE WHEN sqlc.narg(result)::text IS NOT NULL THEN payonce_now() END,
    result = sqlc.narg(result)::text
WHERE id = @id AND (sqlc.narg(result)::text IS NULL OR processed_at IS NULL);

-- name: PruneEvents :execrows
-- processed -> none. Competes with another pruner: each skips the rows that the other one has locked. The subquery is
-- in an ARRAY, so it is evaluated once and its LIMIT counts once. It searches the index by the time.
DELETE FROM webhook_events
WHERE id = ANY (ARRAY(
    SELECT e.id FROM webhook_events AS e
    WHERE e.processed_at <= payonce_now() - sqlc.arg(older_than)::interval
    ORDER BY e.processed_at
    LIMIT @max_rows
    FOR UPDATE SKIP LOCKED
));
