-- Tenants and their API keys.

-- name: ListActiveKeys :many
-- All that authentication needs. The API reads it as a whole and caches it for seconds. Keys expire by the database's
-- clock.
SELECT k.id, k.tenant_id, k.secret_sha256, k.scopes, k.label,
       t.psp, t.psp_account, t.requests_per_second, t.request_burst, t.tells
FROM api_keys AS k LEFT JOIN tenants AS t ON t.id = k.tenant_id
WHERE k.expires_at IS NULL OR k.expires_at > payonce_now();

-- name: CreateTenant :one
-- Returns the new tenant, or the tenant of this id that there is already. Competes with another process that makes it:
-- no row means that it was made after the snapshot of this statement.
WITH made AS (
    INSERT INTO tenants (id, psp, psp_account, requests_per_second, request_burst)
    VALUES (@id, @psp, @psp_account, @requests_per_second, @request_burst)
    ON CONFLICT (id) DO NOTHING
    RETURNING *
)
SELECT * FROM made UNION ALL SELECT * FROM tenants AS t WHERE t.id = @id;

-- name: InsertKey :one
INSERT INTO api_keys (id, tenant_id, secret_sha256, scopes, label)
VALUES (@id, sqlc.narg(tenant_id), @secret_sha256, @scopes, @label)
ON CONFLICT (secret_sha256) DO NOTHING
RETURNING created_at;

-- name: ListKeys :many
-- All keys, or the key with this id.
SELECT id, tenant_id, scopes, label, created_at, expires_at,
       coalesce(expires_at <= payonce_now(), false)::boolean AS expired
FROM api_keys WHERE sqlc.narg(id)::uuid IS NULL OR id = sqlc.narg(id) ORDER BY created_at, id LIMIT @max_rows;

-- name: ExpireKey :one
-- Sets the end of a key, but never a later end than the key has.
UPDATE api_keys
SET expires_at = least(coalesce(expires_at, 'infinity'), payonce_now() + sqlc.arg(after)::interval)
WHERE id = @id
RETURNING expires_at;

-- name: ListTenants :many
SELECT * FROM tenants ORDER BY id LIMIT @max_rows;

-- name: SetRate :execrows
UPDATE tenants SET requests_per_second = @requests_per_second, request_burst = @request_burst WHERE id = @id;
