-- What the time is. Leases, deadlines and dates are by the database's clock, and all of ours ask this function: a test finds whoever asks another.

-- +goose Up
-- The clock goes on during a transaction, and during a statement. It is called STABLE all the same (ADR 0029): then PostgreSQL may search an index by it,
-- and an engine that spreads tables over servers may ask it where a statement begins. So each call of one statement may give another time: who needs one time
-- twice reads it once, in a materialized CTE, which PostgreSQL does not take apart.
-- In plpgsql, which takes half a microsecond. A function in SQL is started anew for each call, and takes three times as long.
-- +goose StatementBegin
CREATE FUNCTION payonce_now() RETURNS timestamptz LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    RETURN pg_catalog.clock_timestamp();
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION payonce_now;
