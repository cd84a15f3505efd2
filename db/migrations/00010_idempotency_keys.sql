-- The key's state machine (docs/state_machine.md). The application's guards stand in the WHERE of each query;
-- what is here makes the same promises against a bug, a script and a person at a psql prompt.

-- +goose Up
CREATE TABLE idempotency_keys (
    scope                   text COLLATE "C" NOT NULL,
    key                     text COLLATE "C" NOT NULL,
    status                  text NOT NULL
        CONSTRAINT idempotency_keys_status_known
        CHECK (status IN ('in_progress', 'completed', 'failed_retryable', 'unknown', 'expired')),
    fingerprint             bytea NOT NULL
        CONSTRAINT idempotency_keys_fingerprint_is_sha256 CHECK (octet_length(fingerprint) = 32),
    -- The fencing token: it grows by one whenever the right to execute changes hands.
    attempt                 integer NOT NULL CHECK (attempt >= 1),
    generation              integer NOT NULL CHECK (generation >= 1),
    -- Tells the owner of an attempt from a rival that took the same number, after a lost COMMIT acknowledgement.
    lease_id                uuid NOT NULL,
    -- The domain object that this generation of the key stands for; opaque here.
    subject                 uuid NOT NULL,
    created_at              timestamptz NOT NULL,
    -- When this generation was first reserved: the PSP's memory of the key is counted from here.
    reserved_at             timestamptz NOT NULL,
    locked_until            timestamptz,
    reconcile_after         timestamptz,
    finished_at             timestamptz,
    expires_at              timestamptz NOT NULL,
    response_status         smallint,
    response_content_type   text,
    response_location       text,
    response_schema_version smallint,
    -- The exact bytes sent. jsonb would reorder them.
    response_body           bytea,

    PRIMARY KEY (scope, key),
    CONSTRAINT idempotency_keys_lease_iff_in_progress
        CHECK ((status = 'in_progress') = (locked_until IS NOT NULL)),
    CONSTRAINT idempotency_keys_reconcile_iff_unknown
        CHECK ((status = 'unknown') = (reconcile_after IS NOT NULL)),
    CONSTRAINT idempotency_keys_finished_unless_open
        CHECK ((status IN ('in_progress', 'unknown')) = (finished_at IS NULL)),
    CONSTRAINT idempotency_keys_completed_has_response
        CHECK (status <> 'completed' OR num_nulls(response_status, response_content_type,
               response_location, response_schema_version, response_body) = 0),
    -- An expired key keeps its response for the audit window; nothing else may hold one.
    CONSTRAINT idempotency_keys_response_only_when_completed
        CHECK (status IN ('completed', 'expired') OR num_nonnulls(response_status, response_content_type,
               response_location, response_schema_version, response_body) = 0)
) WITH (fillfactor = 90);

-- Each index has a nullable column of its own, which completion clears, and no query of the request path names that
-- column in its WHERE. An index WHERE status = 'in_progress' would be taken for the completion's UPDATE once
-- the table has been analysed, instead of the primary key.
CREATE INDEX idempotency_keys_locked_until ON idempotency_keys (locked_until) WHERE locked_until IS NOT NULL;
CREATE INDEX idempotency_keys_reconcile_after ON idempotency_keys (reconcile_after) WHERE reconcile_after IS NOT NULL;
CREATE INDEX idempotency_keys_expires_at ON idempotency_keys (expires_at) WHERE finished_at IS NOT NULL;

-- The key's timeline: one row for every transition off the happy path.
CREATE TABLE idempotency_key_events (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    scope       text COLLATE "C" NOT NULL,
    key         text COLLATE "C" NOT NULL,
    generation  integer NOT NULL,
    attempt     integer NOT NULL,
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor       text NOT NULL,
    from_status text NOT NULL,
    to_status   text NOT NULL,
    reason      text NOT NULL CHECK (char_length(reason) <= 500),
    evidence    jsonb
);
CREATE INDEX idempotency_key_events_by_key ON idempotency_key_events (scope, key, id);

-- +goose StatementBegin
CREATE FUNCTION idempotency_keys_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        RAISE EXCEPTION 'a key begins in progress, as attempt 1 of generation 1'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'idempotency_keys_begins_in_progress';
    END IF;

    IF TG_OP = 'DELETE' THEN
        IF OLD.status <> 'expired' THEN
            RAISE EXCEPTION 'a key in status % cannot be deleted', OLD.status
                USING ERRCODE = 'check_violation', CONSTRAINT = 'idempotency_keys_delete_only_expired';
        END IF;
        RETURN OLD;
    END IF;

    -- A completed row may expire and nothing else: no column of it changes otherwise.
    IF OLD.status = 'completed' AND (NEW.status <> 'expired' OR ROW (
            NEW.scope, NEW.key, NEW.fingerprint, NEW.attempt, NEW.generation, NEW.subject, NEW.expires_at,
            NEW.response_status, NEW.response_content_type, NEW.response_location,
            NEW.response_schema_version, NEW.response_body)
        IS DISTINCT FROM ROW (
            OLD.scope, OLD.key, OLD.fingerprint, OLD.attempt, OLD.generation, OLD.subject, OLD.expires_at,
            OLD.response_status, OLD.response_content_type, OLD.response_location,
            OLD.response_schema_version, OLD.response_body)) THEN
        RAISE EXCEPTION 'a completed response never changes'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'idempotency_keys_completed_is_final';
    END IF;

    IF (OLD.status, NEW.status) NOT IN (
            ('in_progress', 'completed'), ('in_progress', 'failed_retryable'), ('in_progress', 'unknown'),
            ('unknown', 'unknown'), ('unknown', 'completed'), ('unknown', 'failed_retryable'),
            ('failed_retryable', 'in_progress'), ('failed_retryable', 'completed'), ('failed_retryable', 'expired'),
            ('completed', 'expired'), ('expired', 'in_progress')) THEN
        RAISE EXCEPTION 'a key cannot go from % to %', OLD.status, NEW.status
            USING ERRCODE = 'check_violation', CONSTRAINT = 'idempotency_keys_edge_is_legal';
    END IF;

    IF NEW.scope <> OLD.scope OR NEW.key <> OLD.key OR NEW.created_at <> OLD.created_at
       OR (OLD.status <> 'expired' AND (NEW.fingerprint <> OLD.fingerprint OR NEW.subject <> OLD.subject
           OR NEW.generation <> OLD.generation OR NEW.reserved_at <> OLD.reserved_at)) THEN
        RAISE EXCEPTION 'what a key stands for changes only with its generation'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'idempotency_keys_identity_is_fixed';
    END IF;

    IF NOT (CASE
           WHEN NEW.status <> 'in_progress' THEN NEW.attempt = OLD.attempt
           WHEN OLD.status = 'failed_retryable' THEN NEW.attempt = OLD.attempt + 1
           ELSE NEW.generation = OLD.generation + 1 AND NEW.attempt = 1
       END) THEN
        RAISE EXCEPTION 'the fencing token moves by one, and only when the key changes hands'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'idempotency_keys_attempt_is_a_fence';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd

-- The happy path's own edges are judged by the WHEN alone: they cost no call into plpgsql.
CREATE TRIGGER idempotency_keys_guard_insert
    BEFORE INSERT ON idempotency_keys FOR EACH ROW
    WHEN (NEW.status <> 'in_progress' OR NEW.attempt <> 1 OR NEW.generation <> 1)
    EXECUTE FUNCTION idempotency_keys_guard();
CREATE TRIGGER idempotency_keys_guard_update
    BEFORE UPDATE ON idempotency_keys FOR EACH ROW
    WHEN (NOT (OLD.status = 'in_progress' AND NEW.status = 'completed' AND ROW (
            NEW.scope, NEW.key, NEW.fingerprint, NEW.subject, NEW.attempt,
            NEW.generation, NEW.created_at, NEW.reserved_at)
        = ROW (
            OLD.scope, OLD.key, OLD.fingerprint, OLD.subject, OLD.attempt,
            OLD.generation, OLD.created_at, OLD.reserved_at)))
    EXECUTE FUNCTION idempotency_keys_guard();
CREATE TRIGGER idempotency_keys_guard_delete
    BEFORE DELETE ON idempotency_keys FOR EACH ROW EXECUTE FUNCTION idempotency_keys_guard();

-- What has happened does not change afterwards.
-- +goose StatementBegin
CREATE FUNCTION history_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'no % on %', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'check_violation', CONSTRAINT = 'history_is_append_only';
END $$;
-- +goose StatementEnd

CREATE TRIGGER idempotency_keys_never_truncated
    BEFORE TRUNCATE ON idempotency_keys EXECUTE FUNCTION history_is_append_only();
CREATE TRIGGER idempotency_key_events_never_rewritten
    BEFORE UPDATE OR TRUNCATE ON idempotency_key_events EXECUTE FUNCTION history_is_append_only();

-- +goose Down
DROP TABLE idempotency_key_events;
DROP TABLE idempotency_keys;
DROP FUNCTION idempotency_keys_guard;
DROP FUNCTION history_is_append_only;
