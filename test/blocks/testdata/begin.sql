-- What does not grow: tenants, their API keys and their ledgers. The tables are never vacuumed and analysed.
DO $$
DECLARE
    it text;
BEGIN
    FOR it IN SELECT oid::regclass FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace LOOP
        EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = off)', it);
    END LOOP;
END $$;
INSERT INTO tenants (id, psp_account)
SELECT 'acme', 'acme' UNION ALL SELECT 'tenant-' || t, 'account-' || t FROM generate_series(1, 4) AS t;
INSERT INTO ledger_watermarks (account, object, scanned_to, resume_after, walk_began)
SELECT psp_account, o, '2026-01-01Z', '2026-01-01Z', '2026-01-01Z' FROM tenants, unnest('{charge,refund}'::text[]) AS o;
INSERT INTO api_keys (id, tenant_id, secret_sha256, scopes)
SELECT ('0000000a' || lpad(to_hex(n), 24, '0'))::uuid, 'acme', sha256(n::text::bytea), '{payments:read}'
FROM generate_series(1, 20) AS n;
INSERT INTO webhook_endpoints (tenant_id, id, url, secret, deleted_at)
SELECT 'acme', ('0000000b' || lpad(to_hex(n), 24, '0'))::uuid, 'https://shop.example', sha256('x'),
    CASE WHEN n > 2 THEN timestamptz '2026-01-01Z' END FROM generate_series(1, 4) AS n;
UPDATE tenants SET tells = true WHERE id = 'acme';
-- The rows that a settlement file has lines about.
CREATE VIEW named AS
SELECT n, ('00000000' || lpad(to_hex(n), 24, '0'))::uuid AS id FROM generate_series(5000, 8199) AS n;
-- An endpoint that is disabled.
INSERT INTO webhook_endpoints (tenant_id, id, url, secret, disabled_at, disabled_reason)
VALUES ('acme', '0000000b-0000-0000-0000-000000000005', 'https://shop.example', sha256('x'), '2026-01-01Z', 'test');
