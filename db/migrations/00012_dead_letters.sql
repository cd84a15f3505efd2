-- Cases that only an operator can close. They stay until someone does.

-- +goose Up
CREATE TABLE dead_letters (
    id         uuid PRIMARY KEY,
    kind       text NOT NULL,
    status     text NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'resolved')),
    tenant_id  text NOT NULL,
    scope      text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    generation integer NOT NULL,
    -- The payment or refund in question.
    subject    uuid NOT NULL,
    reason     text NOT NULL CHECK (char_length(reason) <= 500),
    evidence   jsonb NOT NULL,
    opened_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Moves with every change: two operators cannot both resolve one letter.
    version    integer NOT NULL DEFAULT 1
);

-- The same finding about the same key is one case, however often it is seen.
CREATE UNIQUE INDEX dead_letters_one_open_per_finding
    ON dead_letters (scope, key, generation, kind) WHERE status = 'open';

-- +goose Down
DROP TABLE dead_letters;
