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

-- One answer per key. It is stored as bytes: jsonb would change their order.
CREATE TABLE IF NOT EXISTS keys (
	tenant          text  NOT NULL,
	key             text  NOT NULL,
	payment_id      text  NOT NULL UNIQUE REFERENCES payments,
	response_status int   NOT NULL,
	response        bytea NOT NULL,
	PRIMARY KEY (tenant, key)
);
