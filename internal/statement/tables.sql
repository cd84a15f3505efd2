-- The temporary tables of one reconciliation. They last for its transaction only, because in PgBouncer's transaction
-- mode a session is ours only for one transaction. Package statement creates them, and sqlc reads them here.

CREATE TEMP TABLE statement_lines (
    day          date NOT NULL,
    line         bigint NOT NULL,
    object       text NOT NULL,
    psp_id       text COLLATE "C" NOT NULL,
    reference    text NOT NULL,
    subject      uuid,
    by_psp_id    boolean NOT NULL DEFAULT false,
    amount_minor bigint NOT NULL,
    currency     text NOT NULL,
    charge_id    text COLLATE "C" NOT NULL,
    status       text NOT NULL,
    executed     boolean NOT NULL GENERATED ALWAYS AS (status = 'succeeded') STORED,
    created_at   timestamptz NOT NULL,
    -- A line that is about no movement of a customer's money has no status. It is compared with nothing.
    line_id          text COLLATE "C" NOT NULL DEFAULT '',
    type             text NOT NULL DEFAULT '',
    fee_minor        bigint NOT NULL DEFAULT 0,
    net_minor        bigint NOT NULL DEFAULT 0,
    balance_currency text NOT NULL DEFAULT ''
) ON COMMIT DROP;

CREATE TEMP TABLE statement_absent (
    object       text NOT NULL,
    subject      uuid NOT NULL,
    psp_id       text COLLATE "C" NOT NULL,
    amount_minor bigint NOT NULL,
    currency     text NOT NULL,
    created_at   timestamptz NOT NULL,
    latest       timestamptz NOT NULL
) ON COMMIT DROP;

CREATE TEMP TABLE statement_ours (
    object       text NOT NULL,
    id           uuid NOT NULL,
    psp_id       text COLLATE "C",
    amount_minor bigint NOT NULL,
    currency     text NOT NULL,
    status       text NOT NULL,
    PRIMARY KEY (object, id)
) ON COMMIT DROP;

-- What is stored of refunds and disputes that nothing of ours asked for.
CREATE TEMP TABLE statement_elsewhere (
    object       text NOT NULL,
    psp_id       text COLLATE "C" NOT NULL,
    amount_minor bigint NOT NULL,
    currency     text NOT NULL,
    status       text NOT NULL,
    PRIMARY KEY (object, psp_id)
) ON COMMIT DROP;

CREATE TEMP TABLE statement_strangers (
    object text NOT NULL,
    id     uuid NOT NULL
) ON COMMIT DROP;
