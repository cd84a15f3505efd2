-- The payment service provider of a tenant, and the PSP's object for a payment.
--
-- The provider decides in which dialect the PSP is spoken to. A tenant has one provider, and one account there. At some
-- providers a payment takes two steps: first an object is made that moves no money (Stripe: a PaymentIntent), and then
-- it is executed. The id of the object is stored between the two steps. So after a crash the reconciler knows which
-- object may have been executed.

-- +goose Up
-- Citus adds no column together with a constraint, so the constraints are statements of their own.
ALTER TABLE tenants ADD COLUMN psp text COLLATE "C" NOT NULL DEFAULT 'native';
ALTER TABLE tenants ADD CONSTRAINT tenants_psp_format CHECK (psp ~ '^[a-z][a-z0-9_]{0,19}$');

-- Unknown keys of a tenant are looked up at its provider, under its account. Elsewhere nothing would be found. After
-- the grace period that would be proof that nothing was charged, and the next retry would charge again.
DROP TRIGGER tenants_psp_account_is_fixed ON tenants;
CREATE TRIGGER tenants_psp_account_is_fixed BEFORE UPDATE ON tenants FOR EACH ROW
    WHEN (NEW.id <> OLD.id OR NEW.psp <> OLD.psp OR NEW.psp_account <> OLD.psp_account)
    EXECUTE FUNCTION history_is_append_only();

-- The id of the PSP's object for the current attempt. It stays NULL at a provider that executes in one step.
ALTER TABLE payments ADD COLUMN psp_object_id text;

-- A payment may be executed through one object only: two objects could both be executed. So the id is set once, before
-- the object is executed. It is cleared only when a failed payment is resumed: failed means proven not executed, and
-- the next attempt makes an object of its own.
--
-- The rules are not part of payments_guard. This trigger is for one column: PostgreSQL calls it only for a statement
-- that sets the column. So the statements that write every payment do not pay for it. An INSERT does not set the
-- column: the roles of our processes have no right to.
-- +goose StatementBegin
CREATE FUNCTION payments_object_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    ok boolean;
BEGIN
    IF NEW.psp_object_id IS NOT DISTINCT FROM OLD.psp_object_id THEN
        ok := true; -- such as a statement that is sent again
    ELSIF OLD.psp_object_id IS NULL THEN
        ok := OLD.status = 'processing' AND NEW.status = 'processing'
              AND NEW.psp_object_id COLLATE "C" ~ '^[!-~]{1,255}$'; -- printable ASCII without spaces
    ELSE
        ok := NEW.psp_object_id IS NULL AND OLD.status = 'failed' AND NEW.status = 'processing';
    END IF;
    IF NOT ok THEN
        RAISE EXCEPTION 'the PSP''s object of payment % is set once, while the payment is processing', OLD.id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'payments_object_remembered_once';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER payments_object_remembered_once BEFORE UPDATE OF psp_object_id ON payments
    FOR EACH ROW EXECUTE FUNCTION payments_object_guard();

-- +goose Down
DROP TRIGGER payments_object_remembered_once ON payments;
DROP FUNCTION payments_object_guard;
ALTER TABLE payments DROP COLUMN psp_object_id;
DROP TRIGGER tenants_psp_account_is_fixed ON tenants;
CREATE TRIGGER tenants_psp_account_is_fixed BEFORE UPDATE ON tenants FOR EACH ROW
    WHEN (NEW.id <> OLD.id OR NEW.psp_account <> OLD.psp_account)
    EXECUTE FUNCTION history_is_append_only();
ALTER TABLE tenants DROP CONSTRAINT tenants_psp_format;
ALTER TABLE tenants DROP COLUMN psp;
