-- Webhooks as they were received.

-- name: StoreEvent :execrows
-- none -> stored. Competes with another delivery of the same event: the second INSERT waits for the first transaction,
-- and does nothing if that one has committed.
INSERT INTO webhook_events (id, sent_at, body) VALUES (@id, @sent_at, @body) ON CONFLICT (id) DO NOTHING;

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
