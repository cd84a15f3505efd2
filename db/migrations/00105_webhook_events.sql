-- Webhooks as they came in. The raw body stays: what was signed is the bytes.
--
-- webhook_events is a local table: an event is stored before anybody has read whom it is about.

-- +goose Up
CREATE TABLE webhook_events (
    -- The sender's webhook-id: a second delivery of it is the same event.
    id           text COLLATE "C" PRIMARY KEY CHECK (id ~ '^[!-~]{1,255}$'),
    received_at  timestamptz NOT NULL DEFAULT payonce_now(),
    -- The sender's webhook-timestamp.
    sent_at      timestamptz NOT NULL,
    body         bytea NOT NULL CHECK (octet_length(body) <= 65536),
    processed_at timestamptz,
    -- What came of it: settled, confirmed, dead_letter.
    result       text,
    CONSTRAINT webhook_events_result_iff_processed CHECK ((processed_at IS NULL) = (result IS NULL))
);
-- What waits to be processed is counted by this one. It is by id, so that it also serves to find one that waits: an index on the
-- time would be searched instead of the primary key when an event is marked as processed.
CREATE INDEX webhook_events_waiting ON webhook_events (id) WHERE processed_at IS NULL;
-- Pruning walks the processed ones, oldest first.
CREATE INDEX webhook_events_processed_at ON webhook_events (processed_at) WHERE processed_at IS NOT NULL;

-- +goose Down
DROP TABLE webhook_events;
