-- A tenant's account at the PSP is where its unknown keys are looked up. Under another account the PSP would find nothing, which after the
-- settle window is proof that nothing was charged: the next retry would charge again.

-- +goose Up
CREATE TRIGGER tenants_psp_account_is_fixed BEFORE UPDATE ON tenants FOR EACH ROW
    WHEN (NEW.id <> OLD.id OR NEW.psp_account <> OLD.psp_account)
    EXECUTE FUNCTION history_is_append_only();
-- A tenant that was deleted could come back with another one.
CREATE TRIGGER tenants_never_deleted BEFORE DELETE OR TRUNCATE ON tenants EXECUTE FUNCTION history_is_append_only();

-- +goose Down
DROP TRIGGER tenants_never_deleted ON tenants;
DROP TRIGGER tenants_psp_account_is_fixed ON tenants;
