-- How far the PSP's own list has been compared with ours, what its settlement statements say otherwise than we do, and which of them were read.
--
-- ledger_watermarks, statement_runs and statement_breaks are local tables: they are about accounts at the PSP, and only background jobs use them.

-- +goose Up
-- One row for each account and kind of movement. A watermark that went back would only cost time. One that jumped by mistake would lose what lies between.
CREATE TABLE ledger_watermarks (
    account      text COLLATE "C" NOT NULL,
    object       text NOT NULL CHECK (object IN ('charge', 'refund')),
    -- By the PSP's clock, which dates its list: everything up to here has been read once.
    scanned_to   timestamptz NOT NULL,
    -- When the list was last read to its end; before that has ever been, when the tenant was created.
    updated_at   timestamptz NOT NULL DEFAULT payonce_now(),
    -- Where a walk stands that has not come to the list's end, by the PSP's clock: the next run goes on there. NULL: the last walk came to the end.
    resume_after timestamptz,
    -- By our clock, when the latest walk began. It names that walk.
    walk_began   timestamptz,
    -- Runs in a row that neither got on nor came to the list's end. A ledger whose scan fails again and again is an operator's case: how often it has
    -- failed must outlive the processes that count.
    failed_runs  integer NOT NULL DEFAULT 0 CONSTRAINT ledger_watermarks_failed_runs CHECK (failed_runs >= 0),
    PRIMARY KEY (account, object)
);

-- Payments and refunds side by side, as a statement lists them.
CREATE VIEW statement_movements AS
    SELECT 'charge' AS object, id, tenant_id, status, amount_minor, currency, psp_charge_id AS psp_id, created_at,
           'POST /payments' AS operation, idempotency_key
    FROM payments
    UNION ALL
    SELECT 'refund', id, tenant_id, status, amount_minor, currency, psp_refund_id, created_at,
           'POST /payments/{id}/refunds', idempotency_key
    FROM refunds;

-- One row for each statement that was read to its end and judged.
CREATE TABLE statement_runs (
    id          uuid PRIMARY KEY,
    account     text COLLATE "C" NOT NULL,
    day         date NOT NULL,
    started_at  timestamptz NOT NULL,
    finished_at timestamptz NOT NULL DEFAULT payonce_now(),
    -- partial: the day was not over when it was read.
    status      text NOT NULL CHECK (status IN ('complete', 'partial')),
    lines       bigint NOT NULL CHECK (lines >= 0),
    breaks      bigint NOT NULL CHECK (breaks >= 0),
    -- Movements of ours that are missing so far, and may be in a statement that does not exist yet.
    pending     bigint NOT NULL CHECK (pending >= 0)
);
CREATE INDEX statement_runs_by_day ON statement_runs (account, day, started_at);

CREATE TABLE statement_breaks (
    id                 bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account            text COLLATE "C" NOT NULL,
    day                date NOT NULL,
    object             text NOT NULL CHECK (object IN ('charge', 'refund')),
    kind               text NOT NULL CONSTRAINT statement_breaks_kind_known CHECK (kind IN
        ('missing_here', 'missing_there', 'amount', 'currency', 'status', 'duplicate', 'psp_id')),
    -- The PSP's id by the statement; of what is missing there, by us.
    psp_id             text COLLATE "C" NOT NULL,
    -- The payment or refund of ours, if there is one.
    subject            uuid,
    -- What the statement gives as our id, as it is written there.
    reference          text NOT NULL,
    -- The reference is that of another tenant.
    other_tenant       boolean NOT NULL,
    -- Lines of the statement with this id.
    lines              bigint NOT NULL,
    their_amount_minor bigint,
    their_currency     text,
    our_amount_minor   bigint,
    our_currency       text,
    our_status         text,
    our_psp_id         text,
    -- When the money moved by the PSP's clock; of what is missing there, when we created it.
    moved_at           timestamptz NOT NULL,
    first_seen         timestamptz NOT NULL,
    last_seen          timestamptz NOT NULL,
    -- When a later run of the day found it no more.
    gone_at            timestamptz,
    -- The run that found it when there was none, and the one that found it last. No foreign keys: a million checks would
    -- prove what one transaction writes.
    raised_by          uuid NOT NULL,
    seen_by            uuid NOT NULL
);
-- The same break, however often it is found, is one row.
CREATE UNIQUE INDEX statement_breaks_once ON statement_breaks
    (account, day, object, kind, psp_id, coalesce(subject, '00000000-0000-0000-0000-000000000000'));
CREATE INDEX statement_breaks_open ON statement_breaks (account, day, id) WHERE gone_at IS NULL;

-- +goose Down
DROP TABLE statement_breaks;
DROP TABLE statement_runs;
DROP VIEW statement_movements;
DROP TABLE ledger_watermarks;
