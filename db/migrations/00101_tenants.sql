-- Who may call us: tenants and the API keys that speak for them.
--
-- Every table of ours either belongs to tenants, and then tenant_id is the first column of each of its primary, unique and foreign keys and stands in every
-- WHERE on it that is about one tenant, or its file's head says why not. A reference table is read beside every tenant's rows, a local table beside none:
-- where tables are spread by tenant (docs/scaling.md), the first kind is copied everywhere, and the second stays in one place.
--
-- tenants and api_keys are reference tables.

-- +goose Up
-- What has happened does not change afterwards. Tables of every subject have triggers with this function.
-- +goose StatementBegin
CREATE FUNCTION history_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'no % on %', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'check_violation', CONSTRAINT = 'history_is_append_only';
END $$;
-- +goose StatementEnd

CREATE TABLE tenants (
    -- Compared as bytes, here and wherever another table names a tenant: an index is used only by comparisons of its own collation.
    id                  text COLLATE "C" PRIMARY KEY
        CONSTRAINT tenants_id_format CHECK (id ~ '^[a-z][a-z0-9-]{0,30}$'),
    -- The tenant's account at the PSP: its charges and keys are separate there, too.
    psp_account         text COLLATE "C" NOT NULL UNIQUE
        CONSTRAINT tenants_psp_account_format CHECK (psp_account ~ '^[A-Za-z0-9_-]{1,64}$'),
    requests_per_second integer NOT NULL DEFAULT 50 CHECK (requests_per_second BETWEEN 1 AND 100000),
    request_burst       integer NOT NULL DEFAULT 100 CHECK (request_burst BETWEEN 1 AND 100000),
    created_at          timestamptz NOT NULL DEFAULT payonce_now()
);

-- The account is where unknown keys of the tenant are looked up. Under another account the PSP would find nothing, which after the grace period is
-- proof that nothing was charged: the next retry would charge again.
CREATE TRIGGER tenants_psp_account_is_fixed BEFORE UPDATE ON tenants FOR EACH ROW
    WHEN (NEW.id <> OLD.id OR NEW.psp_account <> OLD.psp_account)
    EXECUTE FUNCTION history_is_append_only();
-- A tenant that was deleted could come back with another account.
CREATE TRIGGER tenants_never_deleted BEFORE DELETE OR TRUNCATE ON tenants EXECUTE FUNCTION history_is_append_only();

CREATE TABLE api_keys (
    id            uuid PRIMARY KEY,
    -- NULL for an operator's key, which belongs to no tenant.
    tenant_id     text COLLATE "C" REFERENCES tenants (id),
    -- Only the digest is kept: who reads this table cannot call the API with it.
    secret_sha256 bytea NOT NULL
        CONSTRAINT api_keys_secret_unique UNIQUE
        CONSTRAINT api_keys_secret_is_sha256 CHECK (octet_length(secret_sha256) = 32),
    scopes        text[] NOT NULL,
    label         text NOT NULL DEFAULT '' CHECK (char_length(label) <= 100),
    created_at    timestamptz NOT NULL DEFAULT payonce_now(),
    -- NULL: valid until revoked. Rotation gives the old key an end in the future, so that both work meanwhile.
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
