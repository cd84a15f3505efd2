-- Where a walk along the PSP's list stands that has not come to the list's end: the next run goes on there.

-- +goose Up
ALTER TABLE ledger_watermarks
    -- By the PSP's clock. NULL: the last walk came to the end.
    ADD COLUMN resume_after timestamptz,
    -- By our clock, when the latest walk began. It names that walk.
    ADD COLUMN walk_began   timestamptz;
-- From now on, updated_at is when the end of the list was last reached; before that has ever been, when the tenant was created.
COMMENT ON COLUMN ledger_watermarks.updated_at IS 'when the list was last read to its end';

-- +goose Down
ALTER TABLE ledger_watermarks
    DROP COLUMN resume_after,
    DROP COLUMN walk_began;
