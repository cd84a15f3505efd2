-- Cases that only an operator can close.

-- name: OpenDeadLetter :exec
-- Seen again, an open finding stays one letter.
INSERT INTO dead_letters (id, kind, tenant_id, scope, key, generation, subject, reason, evidence)
VALUES (@id, @kind, @tenant_id, @scope, @key, @generation, @subject, @reason, @evidence)
ON CONFLICT (scope, key, generation, kind) WHERE status = 'open' DO NOTHING;

-- name: ListOpen :many
SELECT id, kind, tenant_id, scope, key, generation, subject, reason, evidence, opened_at, version
FROM dead_letters WHERE status = 'open' ORDER BY opened_at, id LIMIT @max_rows;
