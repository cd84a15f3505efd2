-- What resolving an unknown key, and pruning a finished one, need to remember.

-- +goose Up
ALTER TABLE idempotency_keys
    -- The settle window counts from here: no send of this attempt that its owner still answers for is later.
    ADD COLUMN unknown_since   timestamptz,
    -- Lookups in a row that the PSP did not answer: the budget counts them.
    ADD COLUMN lookup_failures integer NOT NULL DEFAULT 0 CHECK (lookup_failures >= 0),
    -- Set when the key expires: the end of the audit window.
    ADD COLUMN delete_after    timestamptz;

UPDATE idempotency_keys SET unknown_since = clock_timestamp() WHERE status = 'unknown';
-- To the guard, an expired key that stays expired is no legal edge.
ALTER TABLE idempotency_keys DISABLE TRIGGER idempotency_keys_guard_update;
UPDATE idempotency_keys SET delete_after = clock_timestamp() + interval '30 days' WHERE status = 'expired';
ALTER TABLE idempotency_keys ENABLE TRIGGER idempotency_keys_guard_update;

ALTER TABLE idempotency_keys
    ADD CONSTRAINT idempotency_keys_unknown_since_iff_unknown
        CHECK ((status = 'unknown') = (unknown_since IS NOT NULL)),
    ADD CONSTRAINT idempotency_keys_deleted_once_expired
        CHECK ((status = 'expired') = (delete_after IS NOT NULL));

-- The pruner's two walks begin at what is due: expired keys, kept for audit, do not lie in the way of the first.
DROP INDEX idempotency_keys_expires_at;
CREATE INDEX idempotency_keys_expires_at ON idempotency_keys (expires_at)
    WHERE finished_at IS NOT NULL AND delete_after IS NULL;
CREATE INDEX idempotency_keys_delete_after ON idempotency_keys (delete_after) WHERE delete_after IS NOT NULL;

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
DROP FUNCTION count_idempotency_keys;
DROP INDEX idempotency_keys_delete_after;
DROP INDEX idempotency_keys_expires_at;
CREATE INDEX idempotency_keys_expires_at ON idempotency_keys (expires_at) WHERE finished_at IS NOT NULL;
ALTER TABLE idempotency_keys
    DROP COLUMN unknown_since, DROP COLUMN lookup_failures, DROP COLUMN delete_after;
