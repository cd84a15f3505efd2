-- The guards that look at another table look at ours. A role that may make temporary tables could otherwise put one of the same name before it, and have the
-- guard find nothing. The cost is a microsecond, off the happy path.

-- +goose Up
-- +goose StatementBegin
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION dead_lettered_keys_stay() SET search_path = %I, pg_temp', current_schema());
    EXECUTE format('ALTER FUNCTION discarded_jobs_become_letters() SET search_path = %I, pg_temp', current_schema());
END $$;
-- +goose StatementEnd

-- +goose Down
ALTER FUNCTION dead_lettered_keys_stay() RESET search_path;
ALTER FUNCTION discarded_jobs_become_letters() RESET search_path;
