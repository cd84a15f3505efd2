-- The one job that is not inserted by River: a webhook is stored in one round trip, and River's own insertion needs one to itself.
-- What is written is what River writes (ADR 0020).

-- name: EnqueueStored :exec
-- none -> available, if this transaction has just stored the event (StoreEvent notes it; a setting that nobody knows is an
-- error, so that no event is stored without its job). Competes with an operator who has the same event processed again: one open job is enough. The bits are the states in
-- which a job is open, as whileOpen lists them: scheduled, running, retryable, pending, and available.
INSERT INTO river_job (kind, args, queue, max_attempts, tags, unique_key, unique_states)
SELECT sqlc.arg(kind)::text, sqlc.arg(args)::jsonb, sqlc.arg(queue)::text, sqlc.arg(max_attempts)::bigint, '{}',
       sqlc.arg(unique_key)::bytea, B'11110001'
WHERE current_setting('payonce.stored_event') = sqlc.arg(event_id)::text
ON CONFLICT (unique_key)
    WHERE unique_key IS NOT NULL AND unique_states IS NOT NULL AND river_job_state_in_bitmask(unique_states, state)
    DO NOTHING;

-- name: WakeWorkers :exec
-- Tells the workers of a queue that it has a job, as River does. They hear of it when the transaction commits.
SELECT pg_notify(current_schema() || '.river_insert', '{"queue": "' || sqlc.arg(queue)::text || '"}');
