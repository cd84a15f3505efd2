package rig

import (
	"context"
	"fmt"
)

// MakeMerchants makes n tenants with an endpoint each, whose URLs begin with url and end with /0, /1 and so on.
func (d *Database) MakeMerchants(ctx context.Context, n int, url string) error {
	if _, err := d.Admin.Exec(ctx, makeMerchants, n, url); err != nil {
		return fmt.Errorf("make merchants: %w", err)
	}
	return nil
}

// MakeEvents writes each events for each tenant with an endpoint, in one transaction, about payments of their own.
func (d *Database) MakeEvents(ctx context.Context, each int) error {
	_, err := d.behindTheGuard(ctx, "make events", makeEvents, each)
	return err
}

const makeMerchants = `
WITH made AS (
    INSERT INTO tenants (id, psp, psp_account, tells)
    SELECT 'merchant-' || n, 'native', 'merchant-' || n, true FROM generate_series(0, $1::int - 1) AS n
    RETURNING id
)
INSERT INTO webhook_endpoints (tenant_id, id, url, secret)
SELECT id, gen_random_uuid(), $2::text || '/' || split_part(id, '-', 2), sha256(id::bytea) FROM made`

const makeEvents = `
WITH made AS MATERIALIZED (
    SELECT w.tenant_id, gen_random_uuid() AS id, clock_timestamp() AS at FROM webhook_endpoints AS w, generate_series(1, $1::int)
), paid AS (
    INSERT INTO payments (tenant_id, id, idempotency_key, generation, customer_id, amount_minor, currency, payment_method, status, psp_charge_id, created_at)
    SELECT tenant_id, id, 'event-' || id, 1, 'customer-1', 12000, 'USD', 'pm_ok', 'succeeded', 'ch_' || id, at FROM made
)
INSERT INTO events (tenant_id, payment_id, version, type, status, psp_charge_id, refunded_minor, changed_at)
SELECT tenant_id, id, (extract(epoch FROM at) * 1000000)::bigint, 'payment.succeeded', 'succeeded', 'ch_' || id, 0, at FROM made`
