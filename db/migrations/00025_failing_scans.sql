-- A ledger whose scan fails again and again is an operator's case. How often it has failed must outlive the processes that count.

-- +goose Up
ALTER TABLE ledger_watermarks
    -- Runs in a row that neither got on nor came to the list's end.
    ADD COLUMN failed_runs integer NOT NULL DEFAULT 0 CONSTRAINT ledger_watermarks_failed_runs CHECK (failed_runs >= 0);

-- +goose Down
ALTER TABLE ledger_watermarks DROP COLUMN failed_runs;
