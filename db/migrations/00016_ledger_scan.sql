-- How far the PSP's own list has been compared with ours, by account and kind of movement.

-- +goose Up
CREATE TABLE ledger_watermarks (
    account    text COLLATE "C" NOT NULL,
    object     text NOT NULL CHECK (object IN ('charge', 'refund')),
    -- By the PSP's clock, which dates its list: everything up to here has been read once.
    scanned_to timestamptz NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (account, object)
);
-- A watermark that went back would only cost time. One that jumped by mistake would lose what lies between.

-- +goose Down
DROP TABLE ledger_watermarks;
