-- What merchants are told: events, which are written in the transaction of what they tell (a transactional outbox), the
-- endpoints that receive them, and their deliveries.
--
-- The three tables belong to tenants. event_feed is a local table, of one row.

-- +goose Up
CREATE TABLE events (
    tenant_id      text COLLATE "C" NOT NULL,
    payment_id     uuid NOT NULL,
    -- Grows with each event of the payment: microseconds of the database's clock, or one more than the last version. So
    -- it also grows when an older backup is restored, and a consumer needs only to keep the greatest version.
    version        bigint NOT NULL,
    type           text COLLATE "C" NOT NULL,
    -- What can change of the payment, as it was. The rest never changes, and is in the payment's row.
    status         text NOT NULL,
    psp_charge_id  text COLLATE "C",
    decline_code   text,
    refunded_minor bigint NOT NULL,
    changed_at     timestamptz NOT NULL,
    disputes       jsonb, -- NULL: none
    refund         jsonb, -- the row of the refund that the event is about
    dispute_id     text COLLATE "C", -- the PSP's id of the dispute that the event is about, which is one of disputes
    -- The place in the feed. NULL: the reconciler has not seen the event yet. It gives out the places one after the
    -- other, to events that are committed. So no event ever gets a place before one that somebody may have read.
    position       bigint,
    PRIMARY KEY (tenant_id, payment_id, version)
);
-- The events that the reconciler has not seen, oldest first.
CREATE INDEX events_new ON events (version) WHERE position IS NULL;
CREATE UNIQUE INDEX events_feed ON events (tenant_id, position) WHERE position IS NOT NULL;
-- The pruner's. An event gets into it after the payment's transaction, when it gets its place.
CREATE INDEX events_old ON events (version) WHERE position IS NOT NULL;

CREATE TABLE event_feed (
    -- The last place that was given out. Who gives out places locks the row.
    position bigint NOT NULL DEFAULT 0,
    -- There is no second row.
    one      boolean PRIMARY KEY DEFAULT true CHECK (one)
);
INSERT INTO event_feed DEFAULT VALUES;

CREATE TABLE webhook_endpoints (
    tenant_id       text COLLATE "C" NOT NULL,
    id              uuid NOT NULL,
    url             text NOT NULL CHECK (char_length(url) BETWEEN 1 AND 2048),
    description     text NOT NULL DEFAULT '' CHECK (char_length(description) <= 200),
    -- The types that it gets. None: all.
    event_types     text[] NOT NULL DEFAULT '{}' CHECK (cardinality(event_types) <= 30),
    -- The keys of the signatures. During a rotation, each request is signed with both.
    secret          bytea NOT NULL CHECK (octet_length(secret) BETWEEN 24 AND 64),
    previous_secret bytea CHECK (octet_length(previous_secret) BETWEEN 24 AND 64),
    previous_until  timestamptz,
    -- Why nothing is delivered to it. NULL: it is enabled.
    disabled_reason text CHECK (char_length(disabled_reason) BETWEEN 1 AND 500),
    disabled_at     timestamptz,
    -- When the first try failed after which none has succeeded, and how many have failed since.
    failing_since   timestamptz,
    failures        integer NOT NULL DEFAULT 0,
    -- What came of the last try that has failed, in words for the merchant.
    last_failure    text CHECK (char_length(last_failure) BETWEEN 1 AND 100),
    -- When it was enabled again. What has waited is due then, and is tried for as long as if it was new.
    enabled_at      timestamptz,
    -- Nothing is delivered before: it has failed, or a job is delivering to it.
    rest_until      timestamptz NOT NULL DEFAULT payonce_now(),
    created_at      timestamptz NOT NULL DEFAULT payonce_now(),
    -- A deleted endpoint is shown nowhere. The pruner deletes it, with its deliveries.
    deleted_at      timestamptz,
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT webhook_endpoints_disabled_with_reason CHECK ((disabled_at IS NULL) = (disabled_reason IS NULL)),
    CONSTRAINT webhook_endpoints_previous_has_an_end CHECK ((previous_secret IS NULL) = (previous_until IS NULL))
);

CREATE INDEX webhook_endpoints_deleted ON webhook_endpoints (deleted_at) WHERE deleted_at IS NOT NULL;

CREATE TABLE event_deliveries (
    tenant_id     text COLLATE "C" NOT NULL,
    endpoint_id   uuid NOT NULL,
    payment_id    uuid NOT NULL,
    version       bigint NOT NULL,
    -- When it is tried next. NULL: it is delivered, or given up.
    due_at        timestamptz DEFAULT payonce_now(),
    attempts      integer NOT NULL DEFAULT 0,
    first_at      timestamptz, -- the first try
    last_at       timestamptz,
    -- What came of the last try: the status of the answer and the beginning of its body, or why there was no answer.
    last_status   integer,
    last_answer   text CHECK (char_length(last_answer) <= 1000),
    last_error    text CHECK (char_length(last_error) <= 500),
    delivered_at  timestamptz,
    PRIMARY KEY (tenant_id, endpoint_id, payment_id, version),
    CONSTRAINT event_deliveries_endpoint_fkey FOREIGN KEY (tenant_id, endpoint_id)
        REFERENCES webhook_endpoints (tenant_id, id),
    CONSTRAINT event_deliveries_delivered_is_not_due CHECK (delivered_at IS NULL OR due_at IS NULL)
);
CREATE INDEX event_deliveries_due ON event_deliveries (tenant_id, endpoint_id, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX event_deliveries_of_event ON event_deliveries (tenant_id, payment_id, version);

-- +goose Down
DROP TABLE event_deliveries;
DROP TABLE webhook_endpoints;
DROP TABLE event_feed;
DROP TABLE events;
