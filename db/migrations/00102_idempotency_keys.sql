-- The key's state machine (docs/state_machine.md). The application's guards stand in the WHERE of each query;
-- what is here makes the same promises against a bug, a script and a person at a psql prompt.
--
-- Keys, timelines and tombstones belong to tenants.

-- +goose Up
CREATE TABLE idempotency_keys (
    tenant_id               text COLLATE "C" NOT NULL,
    -- What the key is for, such as POST /payments: a key is unique per tenant and operation.
    operation               text COLLATE "C" NOT NULL,
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
    -- The grace period counts from here: no send of this attempt that its owner still answers for is later.
    unknown_since           timestamptz,
    -- Lookups in a row that the PSP did not answer: the budget counts them.
    lookup_failures         integer NOT NULL DEFAULT 0 CHECK (lookup_failures >= 0),
    finished_at             timestamptz,
    expires_at              timestamptz NOT NULL,
    -- Set when the key expires: the end of the audit window.
    delete_after            timestamptz,
    response_status         smallint,
    response_content_type   text,
    response_location       text,
    response_schema_version smallint,
    -- The exact bytes sent. jsonb would reorder them.
    response_body           bytea,

    PRIMARY KEY (tenant_id, operation, key),
    CONSTRAINT idempotency_keys_lease_iff_in_progress
        CHECK ((status = 'in_progress') = (locked_until IS NOT NULL)),
    CONSTRAINT idempotency_keys_reconcile_iff_unknown
        CHECK ((status = 'unknown') = (reconcile_after IS NOT NULL)),
    CONSTRAINT idempotency_keys_unknown_since_iff_unknown
        CHECK ((status = 'unknown') = (unknown_since IS NOT NULL)),
    CONSTRAINT idempotency_keys_finished_unless_open
        CHECK ((status IN ('in_progress', 'unknown')) = (finished_at IS NULL)),
    CONSTRAINT idempotency_keys_deleted_once_expired
        CHECK ((status = 'expired') = (delete_after IS NOT NULL)),
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
-- the table has been analysed, instead of the primary key. The pruner's two walks begin at what is due: expired keys, which are kept for audit, do
-- not lie in the way of the first.
CREATE INDEX idempotency_keys_locked_until ON idempotency_keys (locked_until) WHERE locked_until IS NOT NULL;
CREATE INDEX idempotency_keys_reconcile_after ON idempotency_keys (reconcile_after) WHERE reconcile_after IS NOT NULL;
CREATE INDEX idempotency_keys_expires_at ON idempotency_keys (expires_at)
    WHERE finished_at IS NOT NULL AND delete_after IS NULL;
CREATE INDEX idempotency_keys_delete_after ON idempotency_keys (delete_after) WHERE delete_after IS NOT NULL;

-- The key's timeline: one row for every transition off the happy path.
CREATE TABLE idempotency_key_events (
    id          bigint GENERATED ALWAYS AS IDENTITY,
    tenant_id   text COLLATE "C" NOT NULL,
    operation   text COLLATE "C" NOT NULL,
    key         text COLLATE "C" NOT NULL,
    generation  integer NOT NULL,
    attempt     integer NOT NULL,
    at          timestamptz NOT NULL DEFAULT payonce_now(),
    actor       text NOT NULL,
    from_status text NOT NULL,
    to_status   text NOT NULL,
    reason      text NOT NULL CHECK (char_length(reason) <= 500),
    evidence    jsonb,
    PRIMARY KEY (tenant_id, operation, key, id)
);

-- A key that was deleted keeps a tombstone: the number of its last generation. Used again, the key goes on from there. So tenant, operation, key and
-- generation never name two payments, and the PSP never sees one pass-through key for two of them (ADR 0023).
CREATE TABLE idempotency_key_tombstones (
    tenant_id  text COLLATE "C" NOT NULL,
    operation  text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    generation integer NOT NULL CHECK (generation >= 1),
    PRIMARY KEY (tenant_id, operation, key)
);

-- +goose StatementBegin
CREATE FUNCTION idempotency_keys_begin() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.status = 'in_progress' AND NEW.attempt = 1 AND EXISTS (
            SELECT FROM idempotency_key_tombstones AS t
            WHERE t.tenant_id = NEW.tenant_id AND t.operation = NEW.operation AND t.key = NEW.key AND t.generation = NEW.generation - 1) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'a key begins in progress, as attempt 1 of generation 1, or of the generation after its last one'
        USING ERRCODE = 'check_violation', CONSTRAINT = 'idempotency_keys_begins_in_progress';
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION idempotency_keys_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        IF OLD.status <> 'expired' THEN
            RAISE EXCEPTION 'a key in status % cannot be deleted', OLD.status
                USING ERRCODE = 'check_violation', CONSTRAINT = 'idempotency_keys_delete_only_expired';
        END IF;
        RETURN OLD;
    END IF;

    -- A completed row may expire and nothing else: no column of it changes otherwise.
    IF OLD.status = 'completed' AND (NEW.status <> 'expired' OR ROW (
            NEW.tenant_id, NEW.operation, NEW.key, NEW.fingerprint, NEW.attempt, NEW.generation, NEW.subject, NEW.expires_at,
            NEW.response_status, NEW.response_content_type, NEW.response_location,
            NEW.response_schema_version, NEW.response_body)
        IS DISTINCT FROM ROW (
            OLD.tenant_id, OLD.operation, OLD.key, OLD.fingerprint, OLD.attempt, OLD.generation, OLD.subject, OLD.expires_at,
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

    IF NEW.tenant_id <> OLD.tenant_id OR NEW.operation <> OLD.operation OR NEW.key <> OLD.key OR NEW.created_at <> OLD.created_at
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

-- The happy path's own edges are judged by the WHEN alone: they cost no call into plpgsql. PostgreSQL parses the WHEN of a trigger again in each
-- statement that could fire it, so each is short. A trigger that names columns is passed over, unparsed, when the statement sets none of them.
CREATE TRIGGER idempotency_keys_guard_insert BEFORE INSERT ON idempotency_keys FOR EACH ROW
    WHEN (NEW.status <> 'in_progress' OR NEW.attempt <> 1 OR NEW.generation <> 1)
    EXECUTE FUNCTION idempotency_keys_begin();
-- What a key stands for: no statement of the happy path sets any of it.
CREATE TRIGGER idempotency_keys_guard_identity
    BEFORE UPDATE OF tenant_id, operation, key, fingerprint, subject, attempt, generation, created_at, reserved_at ON idempotency_keys
    FOR EACH ROW EXECUTE FUNCTION idempotency_keys_guard();
-- And its status and response, where the edge is not the happy path's.
CREATE TRIGGER idempotency_keys_guard_update BEFORE UPDATE ON idempotency_keys FOR EACH ROW
    WHEN (OLD.status <> 'in_progress' OR NEW.status <> 'completed')
    EXECUTE FUNCTION idempotency_keys_guard();
CREATE TRIGGER idempotency_keys_guard_delete
    BEFORE DELETE ON idempotency_keys FOR EACH ROW EXECUTE FUNCTION idempotency_keys_guard();

CREATE TRIGGER idempotency_keys_never_truncated
    BEFORE TRUNCATE ON idempotency_keys EXECUTE FUNCTION history_is_append_only();
CREATE TRIGGER idempotency_key_events_never_rewritten
    BEFORE UPDATE OR TRUNCATE ON idempotency_key_events EXECUTE FUNCTION history_is_append_only();
CREATE TRIGGER idempotency_key_tombstones_never_deleted
    BEFORE DELETE OR TRUNCATE ON idempotency_key_tombstones EXECUTE FUNCTION history_is_append_only();

-- Every deletion of a key leaves its tombstone, also one by a person at a psql prompt. It is written with the rights of the owner: no role of a process
-- may write tombstones otherwise.
-- +goose StatementBegin
CREATE FUNCTION deleted_keys_leave_tombstones() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO idempotency_key_tombstones AS t (tenant_id, operation, key, generation)
    SELECT d.tenant_id, d.operation, d.key, d.generation FROM deleted AS d
    ON CONFLICT (tenant_id, operation, key) DO UPDATE SET generation = greatest(t.generation, excluded.generation);
    RETURN NULL;
END $$;
-- +goose StatementEnd
-- Nobody else can put a trigger with this function on a table of their own. To fire the trigger below takes no right.
REVOKE EXECUTE ON FUNCTION deleted_keys_leave_tombstones() FROM PUBLIC;
CREATE TRIGGER idempotency_keys_leave_tombstones
    AFTER DELETE ON idempotency_keys REFERENCING OLD TABLE AS deleted
    FOR EACH STATEMENT EXECUTE FUNCTION deleted_keys_leave_tombstones();

-- Counting ten million rows for a gauge is out of the question. The open keys are counted by their own indexes; the
-- finished ones exactly while the table is small, and from there on by PostgreSQL's statistics.
-- +goose StatementBegin
CREATE FUNCTION count_idempotency_keys() RETURNS TABLE (status text, keys bigint) LANGUAGE plpgsql STABLE AS $$
DECLARE
    small  constant bigint := 100000;
    rows   bigint := (SELECT c.reltuples FROM pg_class AS c WHERE c.oid = 'idempotency_keys'::regclass);
BEGIN
    RETURN QUERY SELECT 'in_progress', count(*) FROM idempotency_keys AS k WHERE k.locked_until IS NOT NULL;
    RETURN QUERY SELECT 'unknown', count(*) FROM idempotency_keys AS k WHERE k.reconcile_after IS NOT NULL;
    IF rows < small THEN
        RETURN QUERY SELECT f.status, count(k.status)
                     FROM unnest(ARRAY['completed', 'failed_retryable', 'expired']) AS f (status)
                     LEFT JOIN idempotency_keys AS k ON k.status = f.status AND k.finished_at IS NOT NULL
                     GROUP BY f.status;
    ELSE
        RETURN QUERY SELECT f.status, coalesce((
                         SELECT (m.share * rows)::bigint FROM pg_stats AS s,
                                unnest(s.most_common_vals::text::text[], s.most_common_freqs) AS m (status, share)
                         WHERE s.schemaname = current_schema() AND s.tablename = 'idempotency_keys'
                           AND s.attname = 'status' AND m.status = f.status), 0)
                     FROM unnest(ARRAY['completed', 'failed_retryable', 'expired']) AS f (status);
    END IF;
END $$;
-- +goose StatementEnd

-- A guard that looks at another table looks at ours. A role that may make temporary tables could otherwise put one of the same name before it, and have the
-- guard find nothing. The cost is a microsecond, off the happy path.
-- +goose StatementBegin
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION idempotency_keys_begin() SET search_path = %I, pg_temp', current_schema());
    EXECUTE format('ALTER FUNCTION deleted_keys_leave_tombstones() SET search_path = %I, pg_temp', current_schema());
END $$;
-- +goose StatementEnd

-- +goose Down
DROP TABLE idempotency_key_events;
DROP TABLE idempotency_keys;
DROP TABLE idempotency_key_tombstones;
DROP FUNCTION idempotency_keys_begin;
DROP FUNCTION idempotency_keys_guard;
DROP FUNCTION deleted_keys_leave_tombstones;
DROP FUNCTION count_idempotency_keys;
