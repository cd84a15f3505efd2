-- How many keys are in each status: the numbers of a gauge.

-- +goose Up
-- A gauge cannot count ten million rows. The open keys are counted by their own indexes. The finished keys are counted
-- exactly while the table is small, and estimated by PostgreSQL's statistics when it is big.
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
