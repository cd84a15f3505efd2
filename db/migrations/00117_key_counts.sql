-- How many keys are in each status, and since when the oldest unknown one is unknown: the numbers of gauges.

-- +goose Up
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
                 FROM (SELECT FROM idempotency_keys AS k WHERE k.locked_until IS NOT NULL
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
