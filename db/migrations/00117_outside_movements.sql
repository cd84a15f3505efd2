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

-- +goose Down
DROP TABLE outside_movements;
