-- The time. Leases, deadlines and dates are by the database's clock. All SQL of ours asks this function; a test finds
-- SQL that asks another one.

-- +goose Up
-- The clock goes on during a transaction, and during a statement. The function is declared STABLE all the same (ADR
-- 0029). PostgreSQL may then search an index by it, and Citus may call it once, where a statement begins. Two calls in
-- one statement may give two times. A statement that needs one time twice reads it once, in a materialized CTE, which
-- PostgreSQL evaluates once. The language is plpgsql: a call takes half a microsecond. PostgreSQL initialises a
-- function in SQL for each call, which takes three times as long.
-- +goose StatementBegin
CREATE FUNCTION payonce_now() RETURNS timestamptz LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    RETURN pg_catalog.clock_timestamp();
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION payonce_now;
