-- The key's state machine (docs/state_machine.md). Each query checks its rule in its WHERE. The guard in this file
-- stops a bug, a script or a person at a psql prompt, by rules that need no other row. It is one function, not CHECKs:
-- PostgreSQL would parse each CHECK again for each statement that writes the table (ADR 0032).

-- +goose Up
-- What the open dead letters about a key forbid. Each value forbids one thing more than the value before it:
-- expiry: the key does not expire. A job about the key has failed for good, which says nothing about the key.
-- release: the key is not released either. An operator has to decide about it.
-- decline: no decline is stored, and no request executes the key again. A dead letter says that money moved.
-- It is an enum because an enum is ordered and needs no CHECK.
CREATE TYPE dead_letter_hold AS ENUM ('none', 'expiry', 'release', 'decline');

CREATE TABLE idempotency_keys (
    -- The operation is what the key is for, such as POST /payments. A key is unique for one tenant and one operation.
    tenant_id text COLLATE "C" NOT NULL, operation text COLLATE "C" NOT NULL, key text COLLATE "C" NOT NULL,
    status                  text NOT NULL,
    fingerprint             bytea NOT NULL,
    -- The fencing token. It grows by one with each new lease of a generation, and each generation begins at 1.
    attempt                 integer NOT NULL,
    generation              integer NOT NULL,
    -- Random. After a lost COMMIT acknowledgement it tells our own lease from a rival's with the same attempt.
    lease_id                uuid NOT NULL,
    -- The id of the payment or refund of this generation. Package idempotency does not look into it.
    subject                 uuid NOT NULL,
    -- The strongest hold of the open dead letters about this key (db/queries/deadletters.sql). The guard reads no other
    -- row, so the transaction that opens or closes a dead letter also writes this column.
    dead_letter_hold        dead_letter_hold NOT NULL DEFAULT 'none',
    created_at              timestamptz NOT NULL,
    -- When this generation was first reserved. The PSP's memory of the key is counted from here.
    reserved_at             timestamptz NOT NULL,
    locked_until            timestamptz,
    -- When the next lookup of an unknown key is due.
    reconcile_after         timestamptz,
    -- The grace period is counted from here. It is never shorter than a lease, in which the owner could still send.
    unknown_since           timestamptz,
    -- How many lookups in a row the PSP has not answered.
    lookup_failures         integer NOT NULL DEFAULT 0,
    finished_at             timestamptz,
    expires_at              timestamptz NOT NULL,
    -- The end of the audit window. It is set when the key expires.
    delete_after            timestamptz,
    response_status smallint, response_content_type text, response_location text, response_schema_version smallint,
    -- The exact bytes that were sent. jsonb would reorder them.
    response_body           bytea,
    PRIMARY KEY (tenant_id, operation, key)
) WITH (fillfactor = 90);

-- Each index has its own nullable column, and the WHERE of a hot query does not name that column. With an index
-- WHERE status = 'in_progress', the planner would use it for CompleteKeys instead of the primary key, once the table is
-- analysed. The pruner has two indexes, so it does not walk over the expired keys that are kept for audit.
CREATE INDEX idempotency_keys_locked_until ON idempotency_keys (locked_until) WHERE locked_until IS NOT NULL;
CREATE INDEX idempotency_keys_reconcile_after ON idempotency_keys (reconcile_after) WHERE reconcile_after IS NOT NULL;
CREATE INDEX idempotency_keys_expires_at ON idempotency_keys (expires_at)
    WHERE finished_at IS NOT NULL AND delete_after IS NULL;
CREATE INDEX idempotency_keys_delete_after ON idempotency_keys (delete_after) WHERE delete_after IS NOT NULL;

-- The key's timeline: each transition that is not on the happy path, and evidence that confirmed what was known.
CREATE TABLE idempotency_key_events (
    id          bigint GENERATED ALWAYS AS IDENTITY,
    tenant_id text COLLATE "C" NOT NULL, operation text COLLATE "C" NOT NULL, key text COLLATE "C" NOT NULL,
    generation integer NOT NULL, attempt integer NOT NULL,
    at          timestamptz NOT NULL DEFAULT payonce_now(),
    actor       text NOT NULL,
    from_status text NOT NULL, to_status text NOT NULL,
    reason      text NOT NULL CHECK (char_length(reason) <= 500),
    evidence    jsonb,
    PRIMARY KEY (tenant_id, operation, key, id)
);

-- A key that expires gets a tombstone with the number of its generation. When the key was deleted and is used again, it
-- continues with the next generation. So tenant, operation, key and generation never name two payments, and the PSP
-- never gets the same pass-through key for two of them (ADR 0023). A dead letter about a key that a restore has lost
-- makes a tombstone, too, and the tombstone has the hold.
CREATE TABLE idempotency_key_tombstones (
    tenant_id text COLLATE "C" NOT NULL, operation text COLLATE "C" NOT NULL, key text COLLATE "C" NOT NULL,
    generation integer NOT NULL CHECK (generation >= 1),
    dead_letter_hold dead_letter_hold NOT NULL DEFAULT 'none',
    PRIMARY KEY (tenant_id, operation, key)
);

-- The state machine. PostgreSQL prepares each expression once in a transaction, when it first evaluates it. So the
-- rules are separate expressions, and the rules of another status are not evaluated.
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
        -- The guard reads no other row. ReserveKeys finds the next generation in the tombstone.
        IF NEW.status <> 'in_progress' OR NEW.attempt <> 1 OR NEW.generation < 1 OR NEW.dead_letter_hold <> 'none'
           OR NEW.lookup_failures <> 0 THEN
            RAISE EXCEPTION 'a key begins in progress, as attempt 1 of a generation'
                USING ERRCODE = 'check_violation', CONSTRAINT = 'idempotency_keys_begins_in_progress';
        END IF;
    ELSE
        -- The hold changes without any other column, and in any status: a completed key gets dead letters, too.
        IF NEW.dead_letter_hold <> OLD.dead_letter_hold THEN
            held := OLD;
            held.dead_letter_hold := NEW.dead_letter_hold;
            IF NEW IS NOT DISTINCT FROM held THEN RETURN NEW; END IF;
            IF NEW.generation = OLD.generation THEN
                RAISE EXCEPTION 'dead_letter_hold changes without any other column, and ends with its generation'
                    USING ERRCODE = 'check_violation', CONSTRAINT = 'idempotency_keys_hold_changes_alone';
            END IF;
        END IF;

        -- The transitions.
        CASE OLD.status
        WHEN 'in_progress' THEN ok := NEW.status IN ('completed', 'failed_retryable', 'unknown');
        WHEN 'unknown' THEN ok := NEW.status IN ('unknown', 'completed', 'failed_retryable');
        WHEN 'failed_retryable' THEN ok := NEW.status IN ('in_progress', 'completed', 'expired');
        WHEN 'completed' THEN
            -- A completed row may only expire, and keeps what it says. Its hold changes alone (above).
            IF NEW.status <> 'expired' OR ROW (
                    NEW.tenant_id, NEW.operation, NEW.key, NEW.fingerprint, NEW.attempt, NEW.generation, NEW.subject,
                    NEW.expires_at, NEW.response_status, NEW.response_content_type, NEW.response_location,
                    NEW.response_schema_version, NEW.response_body)
                IS DISTINCT FROM ROW (
                    OLD.tenant_id, OLD.operation, OLD.key, OLD.fingerprint, OLD.attempt, OLD.generation, OLD.subject,
                    OLD.expires_at, OLD.response_status, OLD.response_content_type, OLD.response_location,
                    OLD.response_schema_version, OLD.response_body) THEN
                RAISE EXCEPTION 'a completed response never changes'
                    USING ERRCODE = 'check_violation', CONSTRAINT = 'idempotency_keys_completed_is_final';
            END IF;
            ok := true;
        WHEN 'expired' THEN ok := NEW.status = 'in_progress';
        END CASE;
        IF NOT ok THEN
            RAISE EXCEPTION 'a key cannot go from % to %', OLD.status, NEW.status
                USING ERRCODE = 'check_violation', CONSTRAINT = 'idempotency_keys_edge_is_legal';
        END IF;

        -- What the key stands for changes only with a new generation.
        IF NEW.tenant_id <> OLD.tenant_id OR NEW.operation <> OLD.operation OR NEW.key <> OLD.key
           OR NEW.created_at <> OLD.created_at
           OR (OLD.status <> 'expired' AND (NEW.fingerprint <> OLD.fingerprint OR NEW.subject <> OLD.subject
               OR NEW.generation <> OLD.generation OR NEW.reserved_at <> OLD.reserved_at)) THEN
            RAISE EXCEPTION 'what a key stands for changes only with its generation'
                USING ERRCODE = 'check_violation', CONSTRAINT = 'idempotency_keys_identity_is_fixed';
        END IF;
        -- The fencing token.
        IF NEW.status <> 'in_progress' THEN ok := NEW.attempt = OLD.attempt;
        ELSIF OLD.status = 'failed_retryable' THEN ok := NEW.attempt = OLD.attempt + 1;
        ELSE
            ok := NEW.generation = OLD.generation + 1 AND NEW.attempt = 1;
            IF NEW.dead_letter_hold <> 'none' THEN
                RAISE EXCEPTION 'dead_letter_hold changes without any other column, and ends with its generation'
                    USING ERRCODE = 'check_violation', CONSTRAINT = 'idempotency_keys_hold_changes_alone';
            END IF;
        END IF;
        IF NOT ok THEN
            RAISE EXCEPTION 'the fencing token moves by one, and only when the key changes hands'
                USING ERRCODE = 'check_violation', CONSTRAINT = 'idempotency_keys_attempt_is_a_fence';
        END IF;

        -- The hold. While an open dead letter says that money moved, nothing is declined (402) or executed again.
        IF OLD.dead_letter_hold <> 'none' AND NEW.status = 'expired'
           OR OLD.dead_letter_hold >= 'release' AND NEW.status = 'failed_retryable'
           OR OLD.dead_letter_hold = 'decline' AND NEW.status = 'in_progress'
           OR OLD.dead_letter_hold = 'decline' AND NEW.status = 'completed' AND NEW.response_status = 402 THEN
            RAISE EXCEPTION 'a key with an open dead letter does not go from % to %', OLD.status, NEW.status
                USING ERRCODE = 'check_violation', CONSTRAINT = 'idempotency_keys_dead_lettered_stay';
        END IF;
    END IF;

    -- Which columns are set in each status.
    CASE NEW.status
    WHEN 'in_progress' THEN
        ok := NEW.locked_until IS NOT NULL AND octet_length(NEW.fingerprint) = 32
            AND num_nonnulls(NEW.reconcile_after, NEW.unknown_since, NEW.finished_at, NEW.delete_after,
                NEW.response_status, NEW.response_content_type, NEW.response_location, NEW.response_schema_version,
                NEW.response_body) = 0;
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
            AND num_nonnulls(NEW.locked_until, NEW.reconcile_after, NEW.unknown_since, NEW.delete_after,
                NEW.response_status, NEW.response_content_type, NEW.response_location, NEW.response_schema_version,
                NEW.response_body) = 0;
    WHEN 'expired' THEN -- The response stays for the audit window.
        ok := num_nulls(NEW.finished_at, NEW.delete_after) = 0
            AND num_nonnulls(NEW.locked_until, NEW.reconcile_after, NEW.unknown_since) = 0;
    END CASE;
    IF NOT ok THEN
        RAISE EXCEPTION 'a key in status % lacks what it must have, or has what it must not have', NEW.status
            USING ERRCODE = 'check_violation', CONSTRAINT = 'idempotency_keys_fits_its_status';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd

-- Without a WHEN: PostgreSQL would parse it again for each statement.
CREATE TRIGGER idempotency_keys_guard BEFORE INSERT OR UPDATE OR DELETE ON idempotency_keys
    FOR EACH ROW EXECUTE FUNCTION idempotency_keys_guard();
CREATE TRIGGER idempotency_keys_never_truncated
    BEFORE TRUNCATE ON idempotency_keys EXECUTE FUNCTION history_is_append_only();
CREATE TRIGGER idempotency_key_events_never_rewritten
    BEFORE UPDATE OR TRUNCATE ON idempotency_key_events EXECUTE FUNCTION history_is_append_only();
CREATE TRIGGER idempotency_key_tombstones_never_deleted
    BEFORE DELETE OR TRUNCATE ON idempotency_key_tombstones EXECUTE FUNCTION history_is_append_only();

-- +goose StatementBegin
CREATE FUNCTION idempotency_key_tombstones_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.tenant_id = OLD.tenant_id AND NEW.operation = OLD.operation AND NEW.key = OLD.key
       AND NEW.generation >= OLD.generation THEN RETURN NEW; END IF;
    RAISE EXCEPTION 'the tombstone of generation % cannot become one of generation %', OLD.generation, NEW.generation
        USING ERRCODE = 'check_violation', CONSTRAINT = 'idempotency_key_tombstones_only_grow';
END $$;
-- +goose StatementEnd
CREATE TRIGGER idempotency_key_tombstones_only_grow
    BEFORE UPDATE ON idempotency_key_tombstones FOR EACH ROW EXECUTE FUNCTION idempotency_key_tombstones_guard();

-- How many keys are in each status, and since when the oldest unknown one is unknown: the numbers of gauges.
-- A gauge cannot count ten million rows. The open keys are read by their own indexes, and not more than most_open of
-- them. The finished keys are counted while the table is small. Of a bigger table, most_pages pages are read.
--
-- Nothing here depends on PostgreSQL's statistics: after a restore there are none. Without enable_seqscan = off,
-- PostgreSQL would then read the whole table to find the few open keys.
-- +goose StatementBegin
CREATE FUNCTION count_idempotency_keys() RETURNS TABLE (status text, keys bigint, oldest timestamptz)
LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
DECLARE
    most_open  constant bigint := 100000;
    most_pages constant bigint := 1000;
    -- With Citus the rows are on the workers: here are no pages, and Citus takes no sample.
    pages bigint := pg_relation_size('idempotency_keys') / current_setting('block_size')::bigint;
    share double precision := least(100, 100.0 * most_pages / greatest(pages, 1));
BEGIN
    RETURN QUERY SELECT 'in_progress', count(*), NULL::timestamptz
                 FROM (SELECT k.locked_until FROM idempotency_keys AS k WHERE k.locked_until IS NOT NULL
                       ORDER BY k.locked_until LIMIT most_open) AS o;
    RETURN QUERY SELECT 'unknown', count(*), min(o.unknown_since)
                 FROM (SELECT k.unknown_since FROM idempotency_keys AS k WHERE k.reconcile_after IS NOT NULL
                       ORDER BY k.reconcile_after LIMIT most_open) AS o;
    IF pages = 0 THEN
        RETURN QUERY SELECT f.status, count(k.status), NULL::timestamptz
                     FROM unnest(ARRAY['completed', 'failed_retryable', 'expired']) AS f (status)
                     LEFT JOIN idempotency_keys AS k ON k.status = f.status
                     GROUP BY f.status;
    ELSE
        RETURN QUERY SELECT f.status, (count(k.status) * 100 / share)::bigint, NULL::timestamptz
                     FROM unnest(ARRAY['completed', 'failed_retryable', 'expired']) AS f (status)
                     LEFT JOIN (SELECT s.status FROM idempotency_keys AS s TABLESAMPLE SYSTEM (share) REPEATABLE (0))
                         AS k ON k.status = f.status
                     GROUP BY f.status;
    END IF;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION count_idempotency_keys;
DROP TABLE idempotency_key_events, idempotency_keys, idempotency_key_tombstones;
DROP FUNCTION idempotency_keys_guard, idempotency_key_tombstones_guard;
DROP TYPE dead_letter_hold;
