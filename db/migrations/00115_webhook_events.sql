-- Webhooks as they were received. The raw body is kept, because the signature covers its exact bytes. Of an event that
-- says nothing about us, the type alone is kept.
--
-- webhook_events is a local table: an event is stored before its body is read, so its tenant is not known.

-- +goose Up
CREATE TABLE webhook_events (
    -- The sender's webhook-id. A second delivery with this id is the same event. It is printable ASCII without spaces.
    -- One regular expression with {1,255} would take 100 microseconds.
    id           text COLLATE "C" PRIMARY KEY
        CONSTRAINT webhook_events_id_check CHECK (length(id) BETWEEN 1 AND 255 AND id !~ '[^!-~]'),
    received_at  timestamptz NOT NULL DEFAULT payonce_now(),
    -- The sender's webhook-timestamp.
    sent_at      timestamptz NOT NULL,
    body         bytea NOT NULL CHECK (octet_length(body) <= 1048576),
    processed_at timestamptz,
    -- resolved, confirmed, dead_letter, ignored, or dismissed by an operator.
    result       text,
    CONSTRAINT webhook_events_result_iff_processed CHECK ((processed_at IS NULL) = (result IS NULL))
);
-- Counts the events that wait. The column is id: with an index on the time, the planner would search that index, and
-- not the primary key, when an event is marked as processed.
CREATE INDEX webhook_events_waiting ON webhook_events (id) WHERE processed_at IS NULL;
-- Finds the processed events for pruning, oldest first.
CREATE INDEX webhook_events_processed_at ON webhook_events (processed_at) WHERE processed_at IS NOT NULL;

-- Each webhook inserts a job. No query of River's workers uses these indexes of its table, and none of ours does: they
-- are for people who search the jobs.
DROP INDEX river_job_kind, river_job_args_index, river_job_metadata_index;

-- +goose Down
CREATE INDEX river_job_kind ON river_job USING btree(kind);
CREATE INDEX river_job_args_index ON river_job USING GIN(args);
CREATE INDEX river_job_metadata_index ON river_job USING GIN(metadata);
DROP TABLE webhook_events;
