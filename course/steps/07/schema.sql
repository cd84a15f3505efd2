-- Two processes may start at once. IF NOT EXISTS alone would let one of them fail.
SELECT pg_advisory_xact_lock(hashtext('payonce/course'));

-- Our books.
CREATE TABLE IF NOT EXISTS payments (
	id             text   PRIMARY KEY,
	tenant         text   NOT NULL,
	customer_id    text   NOT NULL,
	amount_cents   bigint NOT NULL CHECK (amount_cents > 0),
	currency       text   NOT NULL,
	payment_method text   NOT NULL,
	psp_charge_id  text   UNIQUE,
	status         text   NOT NULL
);

-- What is known about a key. The answer is stored as bytes: jsonb would change their order.
CREATE TABLE IF NOT EXISTS keys (
	tenant          text  NOT NULL,
	key             text  NOT NULL,
	payment_id      text  NOT NULL UNIQUE REFERENCES payments,
	fingerprint     bytea NOT NULL,
	status          text  NOT NULL,
	attempt         int   NOT NULL DEFAULT 1,
	generation      int   NOT NULL DEFAULT 1, -- the key's lives: see expire
	ended_at        timestamptz,
	locked_until    timestamptz NOT NULL,
	response_status int,
	response        bytea,
	unknown_since   timestamptz,
	lookups         int   NOT NULL DEFAULT 0,
	lookup_at       timestamptz, -- when to ask the PSP next
	CHECK ((status = 'completed') = (response IS NOT NULL)),
	PRIMARY KEY (tenant, key)
);
CREATE INDEX IF NOT EXISTS keys_leases ON keys (locked_until) WHERE status = 'in_progress';
CREATE INDEX IF NOT EXISTS keys_lookups ON keys (lookup_at) WHERE lookup_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS keys_ended ON keys (ended_at) WHERE status IN ('completed', 'failed_retryable');
