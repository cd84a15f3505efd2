-- The domain: payments, their refunds. Amounts are counts of the currency's minor unit (ISO 4217).
--
-- Both belong to tenants. No index is on an id alone: evidence names an account, and the account its tenant.

-- +goose Up
CREATE TABLE payments (
    tenant_id         text COLLATE "C" NOT NULL,
    -- UUIDv7: a tenant's part of the primary key is also the order of creation.
    id                uuid NOT NULL,
    idempotency_key   text COLLATE "C" NOT NULL,
    generation        integer NOT NULL,
    customer_id       text NOT NULL,
    amount_minor      bigint NOT NULL
        CONSTRAINT payments_amount_in_range CHECK (amount_minor BETWEEN 1 AND 999999999999),
    currency          text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    payment_method    text NOT NULL,
    description       text,
    metadata          jsonb,
    status            text NOT NULL
        CONSTRAINT payments_status_known CHECK (status IN ('processing', 'succeeded', 'declined', 'failed')),
    psp_charge_id     text,
    decline_code      text,
    -- What refunds have claimed, sent or not yet, and what of it the PSP has confirmed. Claiming comes first, so that
    -- refunds racing each other cannot together exceed the payment.
    refund_held_minor bigint NOT NULL DEFAULT 0,
    refunded_minor    bigint NOT NULL DEFAULT 0,
    created_at        timestamptz NOT NULL DEFAULT payonce_now(),

    PRIMARY KEY (tenant_id, id),
    -- A tenant has an account of its own at the PSP (tenants.psp_account), where the PSP's ids are unique: so a charge is booked once (ADR 0007).
    CONSTRAINT payments_psp_charge_unique UNIQUE (tenant_id, psp_charge_id),
    CONSTRAINT payments_charge_iff_succeeded CHECK (status <> 'succeeded' OR psp_charge_id IS NOT NULL),
    CONSTRAINT payments_decline_code_iff_declined CHECK ((status = 'declined') = (decline_code IS NOT NULL)),
    CONSTRAINT payments_refunds_within_amount
        CHECK (0 <= refunded_minor AND refunded_minor <= refund_held_minor AND refund_held_minor <= amount_minor),
    CONSTRAINT payments_refunds_need_success CHECK (refund_held_minor = 0 OR status = 'succeeded')
) WITH (fillfactor = 90);

CREATE INDEX payments_by_customer ON payments (tenant_id, customer_id, id);

CREATE TABLE refunds (
    tenant_id       text COLLATE "C" NOT NULL,
    id              uuid NOT NULL,
    payment_id      uuid NOT NULL,
    idempotency_key text COLLATE "C" NOT NULL,
    generation      integer NOT NULL,
    amount_minor    bigint NOT NULL
        CONSTRAINT refunds_amount_positive CHECK (amount_minor > 0),
    currency        text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    reason          text,
    status          text NOT NULL
        CONSTRAINT refunds_status_known CHECK (status IN ('processing', 'succeeded', 'declined', 'failed')),
    psp_refund_id   text,
    decline_code    text,
    created_at      timestamptz NOT NULL DEFAULT payonce_now(),

    PRIMARY KEY (tenant_id, id),
    CONSTRAINT refunds_payment_id_fkey FOREIGN KEY (tenant_id, payment_id) REFERENCES payments (tenant_id, id),
    CONSTRAINT refunds_psp_refund_unique UNIQUE (tenant_id, psp_refund_id),
    CONSTRAINT refunds_psp_id_iff_succeeded CHECK (status <> 'succeeded' OR psp_refund_id IS NOT NULL),
    CONSTRAINT refunds_decline_code_iff_declined CHECK ((status = 'declined') = (decline_code IS NOT NULL))
) WITH (fillfactor = 90);

CREATE INDEX refunds_by_payment ON refunds (tenant_id, payment_id, id);

-- The PSP's verdict on a movement of money is final. `failed` is not one: it means proven never executed, and a retry
-- with the same key executes again. An operator may vouch for an execution whose id the PSP does not tell; the row then has an id of our own making. When
-- the PSP tells it after all, the row takes it: only with it can the movement be refunded, and a second one be noticed.
-- +goose StatementBegin
CREATE FUNCTION movement_verdict_is_final() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a % row never leaves that status', OLD.status
        USING ERRCODE = 'check_violation', CONSTRAINT = 'movement_verdict_is_final';
END $$;
-- +goose StatementEnd

CREATE TRIGGER payments_verdict_is_final BEFORE UPDATE ON payments FOR EACH ROW
    WHEN (OLD.status IN ('succeeded', 'declined') AND (NEW.status <> OLD.status
          OR (NEW.psp_charge_id IS DISTINCT FROM OLD.psp_charge_id AND starts_with(OLD.psp_charge_id, 'operator:') IS NOT TRUE)))
    EXECUTE FUNCTION movement_verdict_is_final();
CREATE TRIGGER refunds_verdict_is_final BEFORE UPDATE ON refunds FOR EACH ROW
    WHEN (OLD.status IN ('succeeded', 'declined') AND (NEW.status <> OLD.status
          OR (NEW.psp_refund_id IS DISTINCT FROM OLD.psp_refund_id AND starts_with(OLD.psp_refund_id, 'operator:') IS NOT TRUE)))
    EXECUTE FUNCTION movement_verdict_is_final();

-- Who pays what to whom is fixed when it is written, and nothing of it is ever deleted. The columns are named so that a statement that sets none of
-- them passes the trigger over, unparsed.
CREATE TRIGGER payments_terms_are_fixed
    BEFORE UPDATE OF id, tenant_id, idempotency_key, generation, customer_id, amount_minor, currency, payment_method, created_at ON payments
    FOR EACH ROW
    WHEN (ROW (NEW.id, NEW.tenant_id, NEW.idempotency_key, NEW.generation, NEW.customer_id, NEW.amount_minor, NEW.currency,
               NEW.payment_method, NEW.created_at)
        <> ROW (OLD.id, OLD.tenant_id, OLD.idempotency_key, OLD.generation, OLD.customer_id, OLD.amount_minor, OLD.currency,
               OLD.payment_method, OLD.created_at))
    EXECUTE FUNCTION history_is_append_only();
CREATE TRIGGER refunds_terms_are_fixed
    BEFORE UPDATE OF id, payment_id, tenant_id, idempotency_key, generation, amount_minor, currency, created_at ON refunds
    FOR EACH ROW
    WHEN (ROW (NEW.id, NEW.payment_id, NEW.tenant_id, NEW.idempotency_key, NEW.generation, NEW.amount_minor, NEW.currency,
               NEW.created_at)
        <> ROW (OLD.id, OLD.payment_id, OLD.tenant_id, OLD.idempotency_key, OLD.generation, OLD.amount_minor, OLD.currency,
               OLD.created_at))
    EXECUTE FUNCTION history_is_append_only();
CREATE TRIGGER payments_never_deleted
    BEFORE DELETE OR TRUNCATE ON payments EXECUTE FUNCTION history_is_append_only();
CREATE TRIGGER refunds_never_deleted
    BEFORE DELETE OR TRUNCATE ON refunds EXECUTE FUNCTION history_is_append_only();

-- +goose Down
DROP TABLE refunds;
DROP TABLE payments;
DROP FUNCTION movement_verdict_is_final;
