-- Webhooks as they came in.

-- name: StoreEvent :execrows
-- none -> stored. Competes with another delivery of the same event: the second waits until the first has ended, and does nothing
-- if that one has committed.
INSERT INTO webhook_events (id, sent_at, body) VALUES (@id, @sent_at, @body) ON CONFLICT (id) DO NOTHING;

-- name: EventIsStored :one
SELECT EXISTS (SELECT FROM webhook_events WHERE id = @id);

-- name: GetEvent :one
SELECT id, sent_at, received_at, body, (processed_at IS NOT NULL)::boolean AS processed
FROM webhook_events WHERE id = @id;

-- name: MarkProcessed :execrows
-- stored -> processed. Competes with another run of the same job: the first result stays.
UPDATE webhook_events SET processed_at = payonce_now(), result = sqlc.arg(result)::text
WHERE id = @id AND processed_at IS NULL;

-- name: ReopenEvent :execrows
-- processed -> stored, when an operator wants it processed again. Competes with the pruner.
UPDATE webhook_events SET processed_at = NULL, result = NULL WHERE id = @id;

-- name: PruneEvents :execrows
-- processed -> none. Competes with another pruner: each leaves to the other what it holds. The array is made once, so that the
-- limit counts once; the index is searched by the time.
DELETE FROM webhook_events
WHERE id = ANY (ARRAY(
    SELECT e.id FROM webhook_events AS e
    WHERE e.processed_at <= payonce_now() - sqlc.arg(older_than)::interval
    ORDER BY e.processed_at
    LIMIT @max_rows
    FOR UPDATE SKIP LOCKED
));
