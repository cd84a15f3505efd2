-- Two processes may start at once. IF NOT EXISTS alone would let one of them fail.
SELECT pg_advisory_xact_lock(hashtext('payonce/course'));

-- One row for a payment and for its key. The answer is stored as bytes: jsonb would change their order.
CREATE TABLE IF NOT EXISTS payments (
	id              text   PRIMARY KEY,
	tenant          text   NOT NULL,
	key             text   NOT NULL,
	customer_id     text   NOT NULL,
	amount_cents    bigint NOT NULL CHECK (amount_cents > 0),
	currency        text   NOT NULL,
	payment_method  text   NOT NULL,
	psp_charge_id   text   UNIQUE,
	fingerprint     bytea  NOT NULL,
	status          text   NOT NULL,
	attempt         int    NOT NULL DEFAULT 1,
	generation      int    NOT NULL, -- of the key: 1, and one more in each further life
	locked_until    timestamptz NOT NULL, -- the end of the lease, the next lookup, or the end of the life
	unknown_since   timestamptz,
	response_status int,
	response        bytea,
	CHECK ((status = 'completed') = (response IS NOT NULL)),
	UNIQUE (tenant, key, generation)
);
-- A key has one life at a time.
CREATE UNIQUE INDEX IF NOT EXISTS payments_key ON payments (tenant, key) WHERE status <> 'expired';
CREATE INDEX IF NOT EXISTS payments_due ON payments (locked_until) WHERE status <> 'expired';
