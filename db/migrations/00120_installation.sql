-- Which installation of Payonce this database is. Its id is in the mark of each object at a provider whose accounts may
-- be shared (ADR 0055).
--
-- installation is a local table, of one row.

-- +goose Up
CREATE TABLE installation (
    id  uuid NOT NULL DEFAULT gen_random_uuid(),
    -- There is no second row.
    one boolean PRIMARY KEY DEFAULT true CHECK (one)
);
INSERT INTO installation DEFAULT VALUES;

-- +goose Down
DROP TABLE installation;
