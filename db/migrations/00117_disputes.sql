-- Disputes: the payer's bank asks for the money of a charge, or for a part of it.
--
-- disputes belongs to tenants. One row is one object of the PSP's. All sources tell of the same row.

-- +goose Up
CREATE TABLE disputes (
    tenant_id       text COLLATE "C" NOT NULL,
    payment_id      uuid NOT NULL,
    psp_id          text COLLATE "C" NOT NULL,
    amount_minor    bigint NOT NULL CHECK (amount_minor >= 0),
    currency        text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    reason          text,
    -- inquiry: the bank only asks. closed: it has asked, and took nothing. While the status is needs_response or
    -- under_review, the PSP holds the money, and if it is lost, the money is gone. The PSP's object changes in this
    -- order only, and evidence may arrive in any order. So a status never goes back (RecordDispute).
    status          text NOT NULL CONSTRAINT disputes_status_known CHECK (
        status IN ('inquiry', 'needs_response', 'under_review', 'closed', 'won', 'lost')),
    evidence_due_by timestamptz,
    opened_at       timestamptz NOT NULL, -- by the PSP's clock
    updated_at      timestamptz NOT NULL DEFAULT payonce_now(),
    PRIMARY KEY (tenant_id, payment_id, psp_id),
    CONSTRAINT disputes_payment_id_fkey FOREIGN KEY (tenant_id, payment_id) REFERENCES payments (tenant_id, id)
);
CREATE INDEX disputes_by_psp_id ON disputes (tenant_id, psp_id);
-- Where the ledger scan begins: the PSP's list is in the order of opening, and an old dispute still changes.
CREATE INDEX disputes_open ON disputes (tenant_id, opened_at)
    WHERE status IN ('inquiry', 'needs_response', 'under_review');

-- +goose Down
DROP TABLE disputes;
