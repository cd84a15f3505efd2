-- Payments and their refunds. An amount is a count of the currency's minor unit (ISO 4217).
--
-- Both tables belong to tenants. No index is on an id alone: evidence names an account, and an account has one tenant.

-- +goose Up
CREATE TABLE payments (
    tenant_id         text COLLATE "C" NOT NULL,
    -- UUIDv7: within a tenant, the primary key is also the order of creation.
    id                uuid NOT NULL,
    idempotency_key   text COLLATE "C" NOT NULL,
    generation        integer NOT NULL,
    customer_id       text NOT NULL,
    amount_minor      bigint NOT NULL,
    currency          text NOT NULL,
    payment_method    text NOT NULL,
    description       text,
    metadata          jsonb,
    -- The merchant's own id, such as an order's number. It finds the payment again if the key is lost.
    reference         text COLLATE "C",
    status            text NOT NULL,
    -- The id of the PSP's object for the current attempt. At some providers a payment takes two steps: first an object
    -- is made that moves no money (Stripe: a PaymentIntent), and then it is executed. The id is stored between the two
    -- steps, so after a crash the reconciler knows which object may have been executed. It stays NULL at a provider
    -- that executes in one step.
    psp_object_id     text COLLATE "C",
    psp_charge_id     text COLLATE "C",
    decline_code      text,
    -- The sum of our refunds that are processing or succeeded, and the sum of all refunds that succeeded, also of those
    -- of others. A refund of ours is added to the first before it is sent, so concurrent refunds cannot together exceed
    -- the payment.
    refund_held_minor bigint NOT NULL DEFAULT 0,
    refunded_minor    bigint NOT NULL DEFAULT 0,
    -- The sum of the refunds that others have made and that did not come back, and of the disputes that hold money or
    -- are lost. It may be more than the payment: a refund of ours may hold the same share already, and evidence must be
    -- stored whatever it says.
    moved_outside_minor bigint NOT NULL DEFAULT 0,
    -- When the payment's totals last changed, it was resumed, or its outcome came late. NULL: never, so a payment that
    -- takes less than a second does not write it.
    updated_at        timestamptz,
    created_at        timestamptz NOT NULL DEFAULT payonce_now(),
    PRIMARY KEY (tenant_id, id)
) WITH (fillfactor = 90);

-- WHERE … IS NOT NULL keeps PostgreSQL from searching an index for tenant and id: it would read a tenant (ADR 0052).
-- A charge belongs to one payment (ADR 0039). The PSP's ids are unique in an account, and a tenant has one account.
CREATE UNIQUE INDEX payments_psp_charge_unique ON payments (tenant_id, psp_charge_id) WHERE psp_charge_id IS NOT NULL;
CREATE INDEX payments_by_customer ON payments (tenant_id, customer_id, id) WHERE customer_id IS NOT NULL;
CREATE INDEX payments_by_reference ON payments (tenant_id, reference, id) WHERE reference IS NOT NULL;
-- Finds the payment of a refund whose charge is not confirmed here yet. After the confirmation,
-- payments_psp_charge_unique finds it.
CREATE INDEX payments_by_object ON payments (tenant_id, psp_object_id)
    WHERE psp_object_id IS NOT NULL AND psp_charge_id IS DISTINCT FROM psp_object_id;

CREATE TABLE refunds (
    tenant_id       text COLLATE "C" NOT NULL,
    id              uuid NOT NULL,
    payment_id      uuid NOT NULL,
    -- api: the tenant has asked us for it. provider: somebody else has made it at the PSP, as in its dashboard. It has
    -- no key then. The reconciler has no right to write a key, so it cannot ask for a refund in a tenant's name.
    origin          text COLLATE "C" NOT NULL DEFAULT 'api' CHECK (origin IN ('api', 'provider')),
    idempotency_key text COLLATE "C" NOT NULL DEFAULT '',
    generation      integer NOT NULL DEFAULT 0,
    amount_minor    bigint NOT NULL
        CONSTRAINT refunds_amount_positive CHECK (amount_minor > 0),
    currency        text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    reason          text,
    status          text NOT NULL
        CONSTRAINT refunds_status_known CHECK (status IN ('processing', 'succeeded', 'declined', 'failed', 'reversed')),
    psp_refund_id   text COLLATE "C",
    decline_code    text,
    created_at      timestamptz NOT NULL DEFAULT payonce_now(),
    updated_at      timestamptz, -- as of a payment
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT refunds_payment_id_fkey FOREIGN KEY (tenant_id, payment_id) REFERENCES payments (tenant_id, id),
    CONSTRAINT refunds_key_iff_ours CHECK ((origin = 'api') = (idempotency_key <> '')),
    CONSTRAINT refunds_psp_id_iff_succeeded CHECK (
        psp_refund_id IS NOT NULL OR (status NOT IN ('succeeded', 'reversed') AND origin = 'api')),
    CONSTRAINT refunds_decline_code_iff_declined CHECK (
        (status = 'declined') = (decline_code IS NOT NULL) OR status = 'reversed')
) WITH (fillfactor = 90);

-- What is stored as made by others may turn out to be ours. Both rows then have the id, and the one of ours counts.
CREATE UNIQUE INDEX refunds_psp_refund_unique ON refunds (tenant_id, psp_refund_id, origin)
    WHERE psp_refund_id IS NOT NULL;
CREATE INDEX refunds_by_payment ON refunds (tenant_id, payment_id, id) WHERE payment_id IS NOT NULL;

-- Who pays, how much and how is fixed when the row is written, and no row is ever deleted. `succeeded` and `declined`
-- are final, except that the money of a refund may come back after it succeeded (`reversed`). `failed` is not final: it
-- means proven not executed, and a retry with the same key executes again. An operator may confirm a charge without
-- knowing the PSP's id. The row then has an id of our own ('operator:…'). When the PSP tells its id, the row takes it:
-- only by this id can the payment be refunded and a second charge be noticed.
--
-- The other rules about a payment are in one function (ADR 0032). Refunds are rarer, and keep CHECKs for the row.
-- +goose StatementBegin
CREATE FUNCTION payments_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    broken text; -- the rule that NEW breaks
BEGIN
    IF TG_OP = 'DELETE' THEN
        RAISE EXCEPTION 'no DELETE on payments'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'history_is_append_only';
    END IF;

    IF TG_OP = 'INSERT' THEN
        IF NEW.amount_minor NOT BETWEEN 1 AND 999999999999 THEN broken := 'payments_amount_in_range';
        ELSIF NEW.currency !~ '^[A-Z]{3}$' THEN broken := 'payments_currency_is_iso_4217';
        END IF;
    ELSIF ROW (NEW.tenant_id, NEW.id, NEW.idempotency_key, NEW.generation, NEW.customer_id, NEW.amount_minor,
               NEW.currency, NEW.payment_method, NEW.created_at)
        <> ROW (OLD.tenant_id, OLD.id, OLD.idempotency_key, OLD.generation, OLD.customer_id, OLD.amount_minor,
               OLD.currency, OLD.payment_method, OLD.created_at)
          OR NEW.reference IS DISTINCT FROM OLD.reference THEN
        broken := 'history_is_append_only';
    ELSIF OLD.status IN ('succeeded', 'declined') AND (NEW.status <> OLD.status
          OR (NEW.psp_charge_id IS DISTINCT FROM OLD.psp_charge_id
              AND starts_with(OLD.psp_charge_id, 'operator:') IS NOT TRUE)) THEN
        broken := 'movement_verdict_is_final';
    END IF;

    IF broken IS NULL THEN
        CASE NEW.status
        WHEN 'succeeded' THEN
            IF NEW.psp_charge_id IS NULL OR NEW.decline_code IS NOT NULL THEN
                broken := 'payments_fits_its_status';
            ELSIF NOT (0 <= NEW.refunded_minor
                       AND NEW.refunded_minor <= NEW.refund_held_minor + NEW.moved_outside_minor
                       AND NEW.refund_held_minor <= NEW.amount_minor) THEN
                broken := 'payments_refunds_within_amount';
            END IF;
        WHEN 'declined' THEN
            IF NEW.decline_code IS NULL OR NEW.refund_held_minor <> 0 OR NEW.refunded_minor > NEW.moved_outside_minor
            THEN broken := 'payments_fits_its_status'; END IF;
        WHEN 'processing', 'failed' THEN
            IF NEW.decline_code IS NOT NULL OR NEW.refund_held_minor <> 0
               OR NEW.refunded_minor > NEW.moved_outside_minor
            THEN broken := 'payments_fits_its_status'; END IF;
        ELSE broken := 'payments_status_known';
        END CASE;
    END IF;
    IF broken IS NOT NULL THEN
        RAISE EXCEPTION 'payment % in status % violates check constraint "%"', NEW.id, NEW.status, broken
            USING ERRCODE = 'check_violation', CONSTRAINT = broken;
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER payments_guard BEFORE INSERT OR UPDATE OR DELETE ON payments
    FOR EACH ROW EXECUTE FUNCTION payments_guard();
CREATE TRIGGER payments_never_truncated BEFORE TRUNCATE ON payments EXECUTE FUNCTION history_is_append_only();

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
              AND length(NEW.psp_object_id) BETWEEN 1 AND 255
              AND NEW.psp_object_id !~ '[^!-~]'; -- printable ASCII without spaces
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

-- A refund of ours may take only what others have left. The rule is not in payments_guard: PostgreSQL calls this
-- trigger only for a statement that sets the refunds' total, so a new payment does not pay for it.
-- +goose StatementBegin
CREATE FUNCTION payments_outside_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.refund_held_minor > OLD.refund_held_minor
       AND NEW.moved_outside_minor > NEW.amount_minor - NEW.refund_held_minor THEN
        RAISE EXCEPTION 'others have moved what a refund of payment % asks for: that violates check constraint "%"',
            NEW.id, 'payments_refunds_within_amount'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'payments_refunds_within_amount';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER payments_outside_guard BEFORE UPDATE OF refund_held_minor ON payments
    FOR EACH ROW EXECUTE FUNCTION payments_outside_guard();

-- +goose StatementBegin
CREATE FUNCTION refunds_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        RAISE EXCEPTION 'no DELETE on refunds' USING ERRCODE = 'check_violation', CONSTRAINT = 'history_is_append_only';
    END IF;
    IF ROW (NEW.tenant_id, NEW.id, NEW.payment_id, NEW.origin, NEW.idempotency_key, NEW.generation, NEW.amount_minor,
            NEW.currency, NEW.created_at)
        <> ROW (OLD.tenant_id, OLD.id, OLD.payment_id, OLD.origin, OLD.idempotency_key, OLD.generation,
            OLD.amount_minor, OLD.currency, OLD.created_at) THEN
        RAISE EXCEPTION 'what refund % gives back is fixed', OLD.id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'history_is_append_only';
    END IF;
    IF OLD.status IN ('succeeded', 'declined', 'reversed')
       AND (NEW.status <> OLD.status AND NOT (OLD.status = 'succeeded' AND NEW.status = 'reversed')
            OR (NEW.psp_refund_id IS DISTINCT FROM OLD.psp_refund_id
                AND starts_with(OLD.psp_refund_id, 'operator:') IS NOT TRUE)) THEN
        RAISE EXCEPTION 'a % refund never leaves that status', OLD.status
            USING ERRCODE = 'check_violation', CONSTRAINT = 'movement_verdict_is_final';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER refunds_guard BEFORE UPDATE OR DELETE ON refunds FOR EACH ROW EXECUTE FUNCTION refunds_guard();
CREATE TRIGGER refunds_never_truncated BEFORE TRUNCATE ON refunds EXECUTE FUNCTION history_is_append_only();

-- +goose Down
DROP TABLE refunds, payments;
DROP FUNCTION payments_guard, payments_object_guard, payments_outside_guard, refunds_guard;
