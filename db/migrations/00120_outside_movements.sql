-- What others have done to our payments at the PSP: refunds from its dashboard or from another program, disputes, and
-- charges that the PSP has taken back.
--
-- outside_movements belongs to tenants. One row is one object of the PSP's. All sources tell of the same row.

-- +goose Up
CREATE TABLE outside_movements (
    tenant_id    text COLLATE "C" NOT NULL,
    payment_id   uuid NOT NULL,
    object       text NOT NULL CHECK (object IN ('refund', 'dispute', 'reversal')),
    psp_id       text COLLATE "C" NOT NULL,
    amount_minor bigint NOT NULL CHECK (amount_minor >= 0),
    currency     text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    -- pending: the money is on its way, or is held. declined: no money has moved, or it has come back. The PSP's
    -- objects change in this order only, and evidence may arrive in any order. So a status never goes back
    -- (RecordOutside).
    status       text NOT NULL
        CONSTRAINT outside_movements_status_known CHECK (status IN ('pending', 'succeeded', 'declined')),
    first_seen   timestamptz NOT NULL DEFAULT payonce_now(),
    PRIMARY KEY (tenant_id, payment_id, object, psp_id),
    CONSTRAINT outside_movements_payment_id_fkey
        FOREIGN KEY (tenant_id, payment_id) REFERENCES payments (tenant_id, id)
);

-- The sum of the payment's outside movements that are not declined. It may be more than the payment: a refund of ours
-- may hold the same share already, and evidence must be stored whatever it says.
ALTER TABLE payments ADD COLUMN moved_outside_minor bigint NOT NULL DEFAULT 0;

-- Finds the payment of a refund whose charge is not confirmed here yet. After the confirmation,
-- payments_psp_charge_unique finds it.
CREATE INDEX payments_by_object ON payments (tenant_id, psp_object_id)
    WHERE psp_object_id IS NOT NULL AND psp_charge_id IS DISTINCT FROM psp_object_id;

-- A refund of ours may take only what others have left. The rule is not in payments_guard: PostgreSQL calls this
-- trigger only for a statement that sets the refunds' total, so a new payment does not pay for it.
-- +goose StatementBegin
CREATE FUNCTION payments_outside_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.refund_held_minor > OLD.refund_held_minor
       AND NEW.moved_outside_minor > NEW.amount_minor - NEW.refund_held_minor THEN
        RAISE EXCEPTION 'others have moved what a refund of payment % asks for', NEW.id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'payments_refunds_within_amount';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER payments_outside_guard BEFORE UPDATE OF refund_held_minor ON payments
    FOR EACH ROW EXECUTE FUNCTION payments_outside_guard();

-- The subject of a break of the kind missing_here is the payment that the line changes, if there is one.
ALTER TABLE statement_breaks ADD COLUMN their_status text;
ALTER TABLE statement_breaks DROP CONSTRAINT statement_breaks_object_check;
ALTER TABLE statement_breaks ADD CONSTRAINT statement_breaks_object_check
    CHECK (object IN ('charge', 'refund', 'dispute', 'reversal'));

-- +goose Down
-- Breaks of the new objects stay: the older program only reads them.
ALTER TABLE statement_breaks DROP CONSTRAINT statement_breaks_object_check;
ALTER TABLE statement_breaks ADD CONSTRAINT statement_breaks_object_check
    CHECK (object IN ('charge', 'refund')) NOT VALID;
ALTER TABLE statement_breaks DROP COLUMN their_status;
DROP TRIGGER payments_outside_guard ON payments;
DROP FUNCTION payments_outside_guard;
DROP INDEX payments_by_object;
ALTER TABLE payments DROP COLUMN moved_outside_minor;
DROP TABLE outside_movements;
