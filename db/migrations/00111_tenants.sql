-- Who may call the API: tenants and their API keys.
--
-- There are three kinds of tables. With Citus (docs/scaling.md), each kind lies in another place:
--   A table belongs to tenants: tenant_id is the first column of each primary, unique and foreign key, and is in each
--     WHERE about one tenant. Its rows are distributed by tenant.
--   A reference table is joined with the rows of all tenants. Every node has a copy.
--   A local table is joined with neither. It stays on one node.
-- The first comment of each file says which kind its tables are. tenants and api_keys are reference tables.

-- +goose Up
-- Refuses to change what has happened. Tables of several migrations have triggers that call this function.
-- +goose StatementBegin
CREATE FUNCTION history_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'no % on %', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'check_violation', CONSTRAINT = 'history_is_append_only';
END $$;
-- +goose StatementEnd

CREATE TABLE tenants (
    -- Compared as bytes. Each column that names a tenant has this collation: PostgreSQL uses an index only for
    -- comparisons in the collation of the index.
    id                  text COLLATE "C" PRIMARY KEY
        CONSTRAINT tenants_id_format CHECK (id ~ '^[a-z][a-z0-9-]{0,30}$'),
    -- The payment service provider decides in which dialect it is spoken to.
    psp                 text COLLATE "C" NOT NULL DEFAULT 'native'
        CONSTRAINT tenants_psp_format CHECK (psp ~ '^[a-z][a-z0-9_]{0,19}$'),
    -- The tenant's account at the PSP. Charges and keys of two accounts are separate there.
    psp_account         text COLLATE "C" NOT NULL UNIQUE
        CONSTRAINT tenants_psp_account_format CHECK (psp_account ~ '^[A-Za-z0-9_-]{1,64}$'),
    requests_per_second integer NOT NULL DEFAULT 50 CHECK (requests_per_second BETWEEN 1 AND 100000),
    request_burst       integer NOT NULL DEFAULT 100 CHECK (request_burst BETWEEN 1 AND 100000),
    -- Whether the tenant wants the feed of its events, and whether an event is written for each change: the tenant has
    -- the feed or an endpoint. Nobody else pays for events.
    feed                boolean NOT NULL DEFAULT false,
    tells               boolean NOT NULL DEFAULT false,
    -- The last place in the feed when the tenant began to want events, for the first time or again. No events were
    -- written for some time after it, so the feed begins behind it.
    feed_after          bigint NOT NULL DEFAULT 0,
    created_at          timestamptz NOT NULL DEFAULT payonce_now()
);

-- Unknown keys of a tenant are looked up at its provider, under its account. Elsewhere nothing would be found. After
-- the grace period that would be proof that nothing was charged, and the next retry would charge again.
CREATE TRIGGER tenants_psp_account_is_fixed BEFORE UPDATE ON tenants FOR EACH ROW
    WHEN (NEW.id <> OLD.id OR NEW.psp <> OLD.psp OR NEW.psp_account <> OLD.psp_account)
    EXECUTE FUNCTION history_is_append_only();
-- A deleted tenant could be created again with another account.
CREATE TRIGGER tenants_never_deleted BEFORE DELETE OR TRUNCATE ON tenants EXECUTE FUNCTION history_is_append_only();

CREATE TABLE api_keys (
    id            uuid PRIMARY KEY,
    -- NULL for an operator's key, which belongs to no tenant.
    tenant_id     text COLLATE "C" REFERENCES tenants (id),
    -- Only the digest is stored, so nobody who reads this table can call the API with it.
    secret_sha256 bytea NOT NULL
        CONSTRAINT api_keys_secret_unique UNIQUE
        CONSTRAINT api_keys_secret_is_sha256 CHECK (octet_length(secret_sha256) = 32),
    scopes        text[] NOT NULL,
    label         text NOT NULL DEFAULT '' CHECK (char_length(label) <= 100),
    created_at    timestamptz NOT NULL DEFAULT payonce_now(),
    -- NULL means that the key has no end. Rotation gives the old key an end in the future: until then both keys work.
    expires_at    timestamptz,
    CONSTRAINT api_keys_scopes_fit_owner CHECK (
        cardinality(scopes) > 0 AND CASE
            WHEN tenant_id IS NULL THEN scopes <@ ARRAY['ops:read', 'ops:resolve']
            ELSE scopes <@ ARRAY['payments:read', 'payments:write']
        END)
);

-- +goose Down
DROP TABLE api_keys;
DROP TABLE tenants;
DROP FUNCTION history_is_append_only;
