-- How far the PSP's ledger has been scanned, which settlement files were read, and how they differ from our books.
--
-- All tables here are local: they are about accounts at the PSP, and no request for a payment or refund uses them.

-- +goose Up
-- One row for each account and kind of movement. A watermark that went back would only cost time. A watermark that
-- jumped forward by mistake would skip records.
CREATE TABLE ledger_watermarks (
    account      text COLLATE "C" NOT NULL,
    object       text NOT NULL CHECK (object IN ('charge', 'refund', 'dispute')),
    -- Every record up to this time has been read once. It is a time of the PSP's clock, which dates the records.
    scanned_to   timestamptz NOT NULL,
    -- When the list was last read to its end, or when the tenant was created if it never was.
    updated_at   timestamptz NOT NULL DEFAULT payonce_now(),
    -- Where the next run continues a walk that has not reached the end of the list, by the PSP's clock. NULL: the last
    -- walk reached the end.
    resume_after timestamptz,
    -- When the latest walk began, by our clock. It identifies the walk.
    walk_began   timestamptz,
    -- How many runs in a row made no progress and did not reach the end. After several failures the ledger becomes an
    -- operator's case. The count is stored, because it must survive the process.
    failed_runs  integer NOT NULL DEFAULT 0 CONSTRAINT ledger_watermarks_failed_runs CHECK (failed_runs >= 0),
    PRIMARY KEY (account, object)
);

-- Payments and refunds in one list, like a settlement file. A query asks for origin = 'api': under a WHERE in the view,
-- PostgreSQL would not search the indexes of refunds. origin || '' keeps it from searching for the origin alone: that
-- would read all refunds of the tenant.
CREATE VIEW statement_movements AS
    SELECT 'charge' AS object, id, tenant_id, status, amount_minor, currency, psp_charge_id AS psp_id, created_at,
           'POST /payments' AS operation, idempotency_key, 'api' AS origin
    FROM payments
    UNION ALL
    SELECT 'refund', id, tenant_id, status, amount_minor, currency, psp_refund_id, created_at,
           'POST /payments/{id}/refunds', idempotency_key, origin || ''
    FROM refunds;

-- One row for each run that read a settlement file to its end and compared it.
CREATE TABLE statement_runs (
    id          uuid PRIMARY KEY,
    account     text COLLATE "C" NOT NULL,
    day         date NOT NULL,
    started_at  timestamptz NOT NULL,
    finished_at timestamptz NOT NULL DEFAULT payonce_now(),
    -- partial: the day was not over when the file was read.
    status      text NOT NULL CHECK (status IN ('complete', 'partial')),
    lines       bigint NOT NULL CHECK (lines >= 0),
    breaks      bigint NOT NULL CHECK (breaks >= 0),
    -- How many movements of ours were open, or missing so far and perhaps in a later day's file.
    pending     bigint NOT NULL CHECK (pending >= 0)
);
CREATE INDEX statement_runs_by_day ON statement_runs (account, day, started_at);
CREATE INDEX statement_runs_by_start ON statement_runs (started_at, id);

-- The movements that the last run of a day could not judge: open ones, and those that a later day's file may have. The
-- day is judged again when such a movement is final. The row is deleted when a file has the movement, or by that run.
CREATE TABLE statement_pending (
    account text COLLATE "C" NOT NULL,
    day     date NOT NULL,
    object  text NOT NULL,
    subject uuid NOT NULL,
    PRIMARY KEY (account, subject, object, day)
);
CREATE INDEX statement_pending_by_day ON statement_pending (account, day, object, subject);

CREATE TABLE statement_breaks (
    id                 bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account            text COLLATE "C" NOT NULL,
    day                date NOT NULL,
    object             text NOT NULL CHECK (object IN ('charge', 'refund', 'dispute')),
    kind               text NOT NULL CONSTRAINT statement_breaks_kind_known CHECK (kind IN
        ('missing_here', 'missing_there', 'amount', 'currency', 'status', 'duplicate', 'psp_id')),
    -- The PSP's id in the file. For a movement that is missing there, the id in our books.
    psp_id             text COLLATE "C" NOT NULL,
    -- Our payment or refund, if there is one. Of the kind missing_here, the payment that the line changes.
    subject            uuid,
    -- The PSP's id of the charge that the line changes. Of the kind missing_here with a subject, else empty.
    charge_id          text COLLATE "C" NOT NULL DEFAULT '',
    -- Our id as the file writes it.
    reference          text NOT NULL,
    -- The reference is the id of another tenant's movement.
    other_tenant       boolean NOT NULL,
    -- How many lines of the file have this id.
    lines              bigint NOT NULL,
    their_amount_minor bigint,
    their_currency     text,
    their_status       text,
    our_amount_minor   bigint,
    our_currency       text,
    our_status         text,
    our_psp_id         text,
    -- When the money moved, by the PSP's clock. For a movement that is missing there, when we created it.
    moved_at           timestamptz NOT NULL,
    first_seen         timestamptz NOT NULL,
    last_seen          timestamptz NOT NULL,
    -- When a later run of the same day no longer found the break, or a file of another day has what was missing.
    gone_at            timestamptz,
    -- The run that found the break first, or again after it was gone, and the run that found it last. There are no
    -- foreign keys: one transaction writes the breaks and the run, so a million checks would prove nothing.
    raised_by          uuid NOT NULL,
    seen_by            uuid NOT NULL
);
-- A break is one row, however often it is found.
CREATE UNIQUE INDEX statement_breaks_once ON statement_breaks
    (account, day, object, kind, psp_id, coalesce(subject, '00000000-0000-0000-0000-000000000000'));
CREATE INDEX statement_breaks_open ON statement_breaks (account, day, id) WHERE gone_at IS NULL;
CREATE INDEX statement_breaks_open_by_subject ON statement_breaks (account, day, subject, object)
    WHERE gone_at IS NULL AND subject IS NOT NULL;

-- The lines of the days that were judged, as the PSP has booked them. A run of a day replaces its lines. Like the runs,
-- nothing deletes them.
CREATE TABLE booked_lines (
    account      text COLLATE "C" NOT NULL,
    day          date NOT NULL,
    line         bigint NOT NULL,
    line_id      text COLLATE "C" NOT NULL,
    type         text NOT NULL,
    -- '' for a type that we do not know.
    object       text NOT NULL CHECK (object IN ('charge', 'refund', 'dispute', 'fee', 'payout', '')),
    -- The id of the movement, or of the payout.
    psp_id       text COLLATE "C" NOT NULL,
    -- Our payment that the line is about, or that it changes.
    payment      uuid,
    -- What the customer has paid, or, if negative, got back, in the customer's currency. NULL: the line is about no
    -- movement that could be compared with our books.
    amount_minor bigint,
    currency     text,
    -- What the balance has gained, in its own currency, and what the PSP has kept of it. Their sum is the gross amount.
    fee_minor        bigint NOT NULL,
    net_minor        bigint NOT NULL,
    balance_currency text NOT NULL,
    booked_at    timestamptz NOT NULL,
    PRIMARY KEY (account, day, line)
);
CREATE INDEX booked_lines_by_id ON booked_lines (account, line_id);
CREATE INDEX booked_lines_by_payment ON booked_lines (payment) WHERE payment IS NOT NULL;
CREATE INDEX booked_lines_of_payouts ON booked_lines (account, day) WHERE object = 'payout';

-- Which lines a payout has paid. The run of the payout's day replaces them. The lines are usually of earlier days.
CREATE TABLE paid_lines (
    account   text COLLATE "C" NOT NULL,
    payout_id text COLLATE "C" NOT NULL,
    line_id   text COLLATE "C" NOT NULL,
    PRIMARY KEY (account, payout_id, line_id)
);
CREATE INDEX paid_lines_by_line ON paid_lines (account, line_id);

-- The sums of a day's lines and of our movements of that day, by currency: both books side by side. What leaves the
-- balance is negative.
CREATE TABLE statement_sums (
    account       text COLLATE "C" NOT NULL,
    day           date NOT NULL,
    currency      text NOT NULL,
    object        text NOT NULL,
    -- The PSP's word for a line without an object, and otherwise ''.
    type          text NOT NULL,
    -- Whether the lines are about no payment of ours.
    others        boolean NOT NULL,
    lines         bigint NOT NULL,
    -- What customers have paid in this currency, by the PSP's lines and by our books.
    theirs_minor  numeric NOT NULL,
    ours_minor    numeric NOT NULL,
    ours          bigint NOT NULL,
    -- What was booked on the balance of this currency.
    fee_minor     numeric NOT NULL,
    net_minor     numeric NOT NULL,
    PRIMARY KEY (account, day, currency, object, type, others)
);

-- +goose Down
DROP TABLE statement_sums;
DROP TABLE paid_lines;
DROP TABLE booked_lines;
DROP TABLE statement_breaks;
DROP TABLE statement_pending;
DROP TABLE statement_runs;
DROP VIEW statement_movements;
DROP TABLE ledger_watermarks;
