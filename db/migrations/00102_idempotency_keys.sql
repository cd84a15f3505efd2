-- The key's state machine (docs/state_machine.md). The application's guards stand in the WHERE of each query;
-- what is here makes the same promises against a bug, a script and a person at a psql prompt. It is one function, idempotency_keys_guard, and not a list of
-- CHECKs: PostgreSQL parses every CHECK again for each statement that writes the table (ADR 0032).
--
-- Keys, timelines and tombstones belong to tenants.

-- +goose Up
-- What the open dead letters about a key forbid. Each value forbids what the one before it does, and one thing more:
-- none; the expiry (a job about the key failed for good, which says nothing of the key); the release as well (an operator has to decide about the key); and
-- a decline (a dead letter says that money moved). An enum is ordered, and no CHECK of it is parsed with each statement.
CREATE TYPE dead_letter_hold AS ENUM ('none', 'expiry', 'release', 'decline');

CREATE TABLE idempotency_keys (
    tenant_id               text COLLATE "C" NOT NULL,
    -- What the key is for, such as POST /payments: a key is unique per tenant and operation.
    operation               text COLLATE "C" NOT NULL,
    key                     text COLLATE "C" NOT NULL,
    status                  text NOT NULL,
    fingerprint             bytea NOT NULL,
    -- The fencing token: it grows by one whenever the right to execute changes hands.
    attempt                 integer NOT NULL,
    generation              integer NOT NULL,
    -- Tells the owner of an attempt from a rival that took the same number, after a lost COMMIT acknowledgement.
    lease_id                uuid NOT NULL,
    -- The domain object that this generation of the key stands for; opaque here.
    subject                 uuid NOT NULL,
    -- The strongest hold of the open dead letters about this generation and subject. A guard looks at its own row only: so whoever opens or closes a dead
    -- letter writes here what it comes to, in the same transaction (db/queries/deadletters.sql).
    dead_letter_hold        dead_letter_hold NOT NULL DEFAULT 'none',
    created_at              timestamptz NOT NULL,
    -- When this generation was first reserved: the PSP's memory of the key is counted from here.
    reserved_at             timestamptz NOT NULL,
    locked_until            timestamptz,
    reconcile_after         timestamptz,
    -- The grace period counts from here: no send of this attempt that its owner still answers for is later.
    unknown_since           timestamptz,
    -- Lookups in a row that the PSP did not answer: the budget counts them.
    lookup_failures         integer NOT NULL DEFAULT 0,
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

    PRIMARY KEY (tenant_id, operation, key)
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

-- A key that expires gets a tombstone: the number of its last generation. The key may be deleted then. Used again, it goes on from there. So tenant,
-- operation, key and generation never name two payments, and the PSP never sees one pass-through key for two of them (ADR 0023).
CREATE TABLE idempotency_key_tombstones (
    tenant_id  text COLLATE "C" NOT NULL,
    operation  text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    generation integer NOT NULL CHECK (generation >= 1),
    PRIMARY KEY (tenant_id, operation, key)
);

-- The state machine. Rules are asked one by one, and those of another status are not asked at all: each costs its own preparation once in a transaction.
-- +goose StatementBegin
CREATE FUNCTION idempotency_keys_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    ok   boolean;
    held record;
BEGIN
    IF TG_OP = 'DELETE' THEN
        IF OLD.status <> 'expired' THEN
            RAISE EXCEPTION 'a key in status % cannot be deleted', OLD.status
                USING ERRCODE = 'check_violation', CONSTRAINT = 'idempotency_keys_delete_only_expired';
        END IF;
        RETURN OLD;
    END IF;

    IF TG_OP = 'INSERT' THEN
        -- Which generation comes next is in the tombstone, where ReserveKeys looks. A guard looks at its own row only.
        IF NEW.status <> 'in_progress' OR NEW.attempt <> 1 OR NEW.generation < 1 OR NEW.dead_letter_hold <> 'none' OR NEW.lookup_failures <> 0 THEN
            RAISE EXCEPTION 'a key begins in progress, as attempt 1 of a generation'
                USING ERRCODE = 'check_violation', CONSTRAINT = 'idempotency_keys_begins_in_progress';
        END IF;
    ELSE
        -- What dead letters hold of a key changes alone, and then in any status: a completed key gets dead letters, too.
        IF NEW.dead_letter_hold <> OLD.dead_letter_hold THEN
            held := OLD;
            held.dead_letter_hold := NEW.dead_letter_hold;
            IF NEW IS NOT DISTINCT FROM held THEN
                RETURN NEW;
            END IF;
            IF NEW.generation = OLD.generation THEN
                RAISE EXCEPTION 'what dead letters hold of a key changes alone, and ends with its generation'
                    USING ERRCODE = 'check_violation', CONSTRAINT = 'idempotency_keys_hold_changes_alone';
            END IF;
        END IF;

        -- Which status follows which.
        CASE OLD.status
        WHEN 'in_progress' THEN
            ok := NEW.status IN ('completed', 'failed_retryable', 'unknown');
        WHEN 'unknown' THEN
            ok := NEW.status IN ('unknown', 'completed', 'failed_retryable');
        WHEN 'failed_retryable' THEN
            ok := NEW.status IN ('in_progress', 'completed', 'expired');
        WHEN 'completed' THEN
            -- Its hold apart, a completed row may expire and nothing else: no column of it changes otherwise.
            IF NEW.status <> 'expired' OR ROW (
                    NEW.tenant_id, NEW.operation, NEW.key, NEW.fingerprint, NEW.attempt, NEW.generation, NEW.subject, NEW.expires_at,
                    NEW.response_status, NEW.response_content_type, NEW.response_location,
                    NEW.response_schema_version, NEW.response_body)
                IS DISTINCT FROM ROW (
                    OLD.tenant_id, OLD.operation, OLD.key, OLD.fingerprint, OLD.attempt, OLD.generation, OLD.subject, OLD.expires_at,
                    OLD.response_status, OLD.response_content_type, OLD.response_location,
                    OLD.response_schema_version, OLD.response_body) THEN
                RAISE EXCEPTION 'a completed response never changes'
                    USING ERRCODE = 'check_violation', CONSTRAINT = 'idempotency_keys_completed_is_final';
            END IF;
            ok := true;
        WHEN 'expired' THEN
            ok := NEW.status = 'in_progress';
        END CASE;
        IF NOT ok THEN
            RAISE EXCEPTION 'a key cannot go from % to %', OLD.status, NEW.status
                USING ERRCODE = 'check_violation', CONSTRAINT = 'idempotency_keys_edge_is_legal';
        END IF;

        -- What the key stands for, which a new generation changes, and the fencing token.
        IF NEW.tenant_id <> OLD.tenant_id OR NEW.operation <> OLD.operation OR NEW.key <> OLD.key OR NEW.created_at <> OLD.created_at
           OR (OLD.status <> 'expired' AND (NEW.fingerprint <> OLD.fingerprint OR NEW.subject <> OLD.subject
               OR NEW.generation <> OLD.generation OR NEW.reserved_at <> OLD.reserved_at)) THEN
            RAISE EXCEPTION 'what a key stands for changes only with its generation'
                USING ERRCODE = 'check_violation', CONSTRAINT = 'idempotency_keys_identity_is_fixed';
        END IF;
        IF NEW.status <> 'in_progress' THEN
            ok := NEW.attempt = OLD.attempt;
        ELSIF OLD.status = 'failed_retryable' THEN
            ok := NEW.attempt = OLD.attempt + 1;
        ELSE
            ok := NEW.generation = OLD.generation + 1 AND NEW.attempt = 1;
            IF NEW.dead_letter_hold <> 'none' THEN
                RAISE EXCEPTION 'what dead letters hold of a key changes alone, and ends with its generation'
                    USING ERRCODE = 'check_violation', CONSTRAINT = 'idempotency_keys_hold_changes_alone';
            END IF;
        END IF;
        IF NOT ok THEN
            RAISE EXCEPTION 'the fencing token moves by one, and only when the key changes hands'
                USING ERRCODE = 'check_violation', CONSTRAINT = 'idempotency_keys_attempt_is_a_fence';
        END IF;

        -- What an operator has still to decide about is neither released nor expired, and nobody is told of a decline while an open dead letter says that
        -- money moved.
        IF OLD.dead_letter_hold <> 'none' AND NEW.status = 'expired'
           OR OLD.dead_letter_hold >= 'release' AND NEW.status = 'failed_retryable'
           OR OLD.dead_letter_hold = 'decline' AND NEW.status = 'completed' AND NEW.response_status = 402 THEN
            RAISE EXCEPTION 'a key with an open dead letter does not go from % to %', OLD.status, NEW.status
                USING ERRCODE = 'check_violation', CONSTRAINT = 'idempotency_keys_dead_lettered_stay';
        END IF;
    END IF;

    -- What the row of a key in each status has, and what it has not.
    CASE NEW.status
    WHEN 'in_progress' THEN
        ok := NEW.locked_until IS NOT NULL AND octet_length(NEW.fingerprint) = 32
            AND num_nonnulls(NEW.reconcile_after, NEW.unknown_since, NEW.finished_at, NEW.delete_after, NEW.response_status,
                NEW.response_content_type, NEW.response_location, NEW.response_schema_version, NEW.response_body) = 0;
    WHEN 'completed' THEN
        ok := num_nulls(NEW.finished_at, NEW.response_status, NEW.response_content_type, NEW.response_location,
                NEW.response_schema_version, NEW.response_body) = 0
            AND num_nonnulls(NEW.locked_until, NEW.reconcile_after, NEW.unknown_since, NEW.delete_after) = 0;
    WHEN 'unknown' THEN
        ok := num_nulls(NEW.unknown_since, NEW.reconcile_after) = 0 AND NEW.lookup_failures >= 0
            AND num_nonnulls(NEW.locked_until, NEW.finished_at, NEW.delete_after, NEW.response_status,
                NEW.response_content_type, NEW.response_location, NEW.response_schema_version, NEW.response_body) = 0;
    WHEN 'failed_retryable' THEN
        ok := NEW.finished_at IS NOT NULL
            AND num_nonnulls(NEW.locked_until, NEW.reconcile_after, NEW.unknown_since, NEW.delete_after, NEW.response_status,
                NEW.response_content_type, NEW.response_location, NEW.response_schema_version, NEW.response_body) = 0;
    WHEN 'expired' THEN -- It keeps its response for the audit window.
        ok := num_nulls(NEW.finished_at, NEW.delete_after) = 0 AND num_nonnulls(NEW.locked_until, NEW.reconcile_after, NEW.unknown_since) = 0;
    END CASE;
    IF NOT ok THEN
        RAISE EXCEPTION 'a key in status % lacks what it must have, or has what it must not have', NEW.status
            USING ERRCODE = 'check_violation', CONSTRAINT = 'idempotency_keys_fits_its_status';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd

-- Without a WHEN, which PostgreSQL would parse again for each statement.
CREATE TRIGGER idempotency_keys_guard BEFORE INSERT OR UPDATE OR DELETE ON idempotency_keys
    FOR EACH ROW EXECUTE FUNCTION idempotency_keys_guard();

CREATE TRIGGER idempotency_keys_never_truncated
    BEFORE TRUNCATE ON idempotency_keys EXECUTE FUNCTION history_is_append_only();
CREATE TRIGGER idempotency_key_events_never_rewritten
    BEFORE UPDATE OR TRUNCATE ON idempotency_key_events EXECUTE FUNCTION history_is_append_only();
CREATE TRIGGER idempotency_key_tombstones_never_deleted
    BEFORE DELETE OR TRUNCATE ON idempotency_key_tombstones EXECUTE FUNCTION history_is_append_only();

-- A tombstone's generation only grows.
-- +goose StatementBegin
CREATE FUNCTION idempotency_key_tombstones_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.tenant_id = OLD.tenant_id AND NEW.operation = OLD.operation AND NEW.key = OLD.key AND NEW.generation >= OLD.generation THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'the tombstone of generation % cannot become one of generation %', OLD.generation, NEW.generation
        USING ERRCODE = 'check_violation', CONSTRAINT = 'idempotency_key_tombstones_only_grow';
END $$;
-- +goose StatementEnd
CREATE TRIGGER idempotency_key_tombstones_only_grow
    BEFORE UPDATE ON idempotency_key_tombstones FOR EACH ROW EXECUTE FUNCTION idempotency_key_tombstones_guard();

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

-- +goose Down
DROP TABLE idempotency_key_events;
DROP TABLE idempotency_keys;
DROP TABLE idempotency_key_tombstones;
DROP FUNCTION idempotency_keys_guard;
DROP FUNCTION idempotency_key_tombstones_guard;
DROP FUNCTION count_idempotency_keys;
DROP TYPE dead_letter_hold;
