package rig

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Existing is a database of somebody else's server, as tests have it: to be filled, and not to run programs on.
func Existing(url string, admin *pgx.Conn) *Database {
	return &Database{URL: url, Admin: admin, rig: &Rig{say: func(string) {}}}
}

// chunk is how many rows are loaded at once, so that progress can be told.
const chunk = 250_000

// Load writes completed payments until there are rows of them, as copies of one that the API has made: the same
// request, the same answer, keys in the order of time (see pgbench.LoadedKey). A replay of any of them is answered by
// the stored bytes.
func (d *Database) Load(ctx context.Context, rows int) error {
	var have int
	err := d.Admin.QueryRow(ctx,
		`SELECT coalesce(max(right(key, 20)::bigint), 0) FROM idempotency_keys WHERE key ~ '^load-[0-9]{20}$'`).Scan(
		&have)
	if err != nil {
		return fmt.Errorf("look for loaded rows: %w", err)
	}
	// Behind the back of the guard, by which a key begins in progress.
	if _, err := d.Admin.Exec(ctx, "SET session_replication_role = replica"); err != nil {
		return err
	}
	defer func() { _, _ = d.Admin.Exec(ctx, "RESET session_replication_role") }()
	for have < rows {
		to := min(have+chunk, rows)
		if _, err := d.Admin.Exec(ctx, loadRows, have+1, to); err != nil {
			return fmt.Errorf("load rows: %w", err)
		}
		have = to
		d.rig.say(fmt.Sprintf("loaded %d of %d rows", have, rows))
	}
	return nil
}

// loadRows makes rows of the last two days, so that none is due.
const loadRows = `
WITH sample AS MATERIALIZED (
    SELECT k.*, p.customer_id, p.amount_minor, p.currency, p.payment_method
    FROM idempotency_keys AS k JOIN payments AS p ON p.tenant_id = k.tenant_id AND p.id = k.subject
    WHERE k.status = 'completed' LIMIT 1
), made AS MATERIALIZED (
    SELECT n, 'load-' || lpad(n::text, 20, '0') AS key, lpad(to_hex(n), 32, '0')::uuid AS id, clock_timestamp() - interval '1 day' AS at
    FROM generate_series($1::bigint, $2::bigint) AS n
), keys AS (
    INSERT INTO idempotency_keys (tenant_id, operation, key, status, fingerprint, attempt, generation, lease_id, subject, created_at, reserved_at,
        finished_at, expires_at, response_status, response_content_type, response_location, response_schema_version, response_body)
    SELECT s.tenant_id, s.operation, m.key, 'completed', s.fingerprint, 1, 1, m.id, m.id, m.at, m.at, m.at, m.at + interval '48 hours',
           s.response_status, s.response_content_type, s.response_location, s.response_schema_version, s.response_body
    FROM made AS m, sample AS s
)
INSERT INTO payments (id, tenant_id, idempotency_key, generation, customer_id, amount_minor, currency, payment_method, status, psp_charge_id, created_at)
SELECT m.id, s.tenant_id, m.key, 1, s.customer_id, s.amount_minor, s.currency, s.payment_method, 'succeeded', 'ch_' || m.id, m.at
FROM made AS m, sample AS s`
