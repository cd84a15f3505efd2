-- The endpoints that receive the events of a tenant, and the tenant's feed.

-- name: LockTenant :one
-- Before each change of what a tenant wants. So two changes never count the endpoints at the same time.
SELECT feed FROM tenants WHERE id = @id FOR NO KEY UPDATE;

-- name: SetTells :exec
-- After such a change, in its transaction. tells: the tenant has the feed or an endpoint. feed_after: NULL leaves it.
UPDATE tenants SET feed = @feed, tells = @tells, feed_after = coalesce(sqlc.narg(feed_after)::bigint, feed_after)
WHERE id = @id;

-- name: CountEndpoints :one
SELECT count(*) FROM webhook_endpoints WHERE tenant_id = @tenant_id AND deleted_at IS NULL;

-- name: CreateEndpoint :one
INSERT INTO webhook_endpoints (tenant_id, id, url, description, event_types, secret)
VALUES (@tenant_id, @id, @url, @description, @event_types, @secret)
RETURNING created_at;

-- name: ListEndpoints :many
-- The endpoints of a tenant, or the endpoint with this id, oldest first. waiting is how many deliveries are due or will
-- be, counted up to max_waiting. Secrets are read by the reconciler alone.
SELECT p.tenant_id, p.id, p.url, p.description, p.event_types, p.previous_until, p.disabled_reason, p.disabled_at,
       p.failing_since, p.last_failure, p.created_at,
       coalesce(p.previous_until > payonce_now(), false)::boolean AS overlaps, w.waiting
FROM webhook_endpoints AS p
CROSS JOIN LATERAL (
    SELECT count(*) AS waiting FROM (
        SELECT FROM event_deliveries AS d
        WHERE d.tenant_id = p.tenant_id AND d.endpoint_id = p.id AND d.due_at IS NOT NULL
        LIMIT @max_waiting) AS i) AS w
WHERE p.tenant_id = @tenant_id AND p.deleted_at IS NULL AND (sqlc.narg(id)::uuid IS NULL OR p.id = sqlc.narg(id))
ORDER BY p.created_at, p.id LIMIT @max_rows;

-- name: ListAllEndpoints :many
-- For operators: the endpoints of all tenants or of one, a page of them, from behind this place on.
SELECT p.tenant_id, p.id, p.url, p.description, p.event_types, p.previous_until, p.disabled_reason, p.disabled_at,
       p.failing_since, p.last_failure, p.created_at,
       coalesce(p.previous_until > payonce_now(), false)::boolean AS overlaps, w.waiting
FROM webhook_endpoints AS p
CROSS JOIN LATERAL (
    SELECT count(*) AS waiting FROM (
        SELECT FROM event_deliveries AS d
        WHERE d.tenant_id = p.tenant_id AND d.endpoint_id = p.id AND d.due_at IS NOT NULL
        LIMIT @max_waiting) AS i) AS w
WHERE p.deleted_at IS NULL AND (sqlc.narg(tenant)::text IS NULL OR p.tenant_id = sqlc.narg(tenant))
  AND (p.tenant_id, p.id) > (@after_tenant::text, @after_id::uuid)
ORDER BY p.tenant_id, p.id LIMIT @max_rows;

-- name: FindPageBack :one
-- Where a part of a tenant's feed begins that ends before this place, with so many events between. No row: the feed
-- has fewer events there. The places are given out to all tenants, so no number of places is a bound.
SELECT e.payment_id, e.version, e.position::bigint AS position FROM events AS e
WHERE e.tenant_id = @tenant_id AND e.position < @before::bigint
ORDER BY e.position DESC LIMIT 1 OFFSET @between::integer;

-- name: ListDeliveries :many
-- For operators: the deliveries to an endpoint, the newest event first, from this part of the feed. It reads the feed
-- backwards: deliveries have no index by time, because each would cost a write. LATERAL has it look up each event's
-- delivery. A plan that expects one delivery at the endpoint reads all of them for each event.
SELECT e.payment_id, e.version, e.type, d.attempts, d.due_at, d.last_at, d.last_status, d.last_answer,
       d.last_error, d.delivered_at
FROM events AS e
CROSS JOIN LATERAL (
    SELECT i.attempts, i.due_at, i.last_at, i.last_status, i.last_answer, i.last_error, i.delivered_at
    FROM event_deliveries AS i
    WHERE i.tenant_id = e.tenant_id AND i.endpoint_id = @endpoint_id AND i.payment_id = e.payment_id
      AND i.version = e.version
    LIMIT 1) AS d
WHERE e.tenant_id = @tenant_id AND e.position >= @first::bigint AND e.position < @before::bigint
ORDER BY e.position DESC LIMIT @max_rows;

-- name: GetDelivery :one
-- For operators: one of these.
SELECT e.payment_id, e.version, e.type, d.attempts, d.due_at, d.last_at, d.last_status, d.last_answer,
       d.last_error, d.delivered_at
FROM events AS e
JOIN event_deliveries AS d ON d.tenant_id = e.tenant_id AND d.payment_id = e.payment_id AND d.version = e.version
WHERE e.tenant_id = @tenant_id AND d.endpoint_id = @endpoint_id AND e.payment_id = @payment_id
  AND e.version = @version;

-- name: ListTold :many
-- For operators: the events of a payment, the newest first, each with its deliveries. url: of an endpoint that exists.
SELECT e.version, e.type, d.endpoint_id, coalesce(d.attempts, 0)::integer AS attempts, d.due_at, d.delivered_at, w.url
FROM events AS e
LEFT JOIN event_deliveries AS d ON d.tenant_id = e.tenant_id AND d.payment_id = e.payment_id AND d.version = e.version
LEFT JOIN webhook_endpoints AS w ON w.tenant_id = d.tenant_id AND w.id = d.endpoint_id AND w.deleted_at IS NULL
WHERE e.tenant_id = @tenant_id AND e.payment_id = @payment_id
ORDER BY e.version DESC, d.endpoint_id LIMIT @max_rows;

-- name: WithdrawEndpoint :execrows
-- The pruner deletes the row, with its deliveries.
UPDATE webhook_endpoints SET deleted_at = payonce_now()
WHERE tenant_id = @tenant_id AND id = @id AND deleted_at IS NULL;

-- name: RotateSecret :exec
-- Until the end of the overlap, each request is signed with the old secret, too. If an earlier rotation still overlaps,
-- the secret from before that rotation stays until its own end: the answer of that rotation may be lost, and then
-- nobody has its secret. The times are selected, as in RecordPayments.
UPDATE webhook_endpoints AS w
SET secret = @secret,
    previous_secret = CASE WHEN c.until > c.at THEN
                           CASE WHEN w.previous_until > c.at THEN w.previous_secret ELSE w.secret END END,
    previous_until = CASE WHEN c.until > c.at THEN
                          CASE WHEN w.previous_until > c.at THEN w.previous_until ELSE c.until END END
FROM (SELECT @tenant_id::text AS tenant_id, now.at, now.at + sqlc.arg(overlap)::interval AS until
      FROM (SELECT payonce_now() AS at OFFSET 0) AS now OFFSET 0) AS c
WHERE w.tenant_id = c.tenant_id AND w.tenant_id = @tenant_id AND w.id = @id AND w.deleted_at IS NULL;

-- name: EnableEndpoint :execrows
-- What has waited is delivered now. Competes with the job that delivers to the endpoint: an endpoint that is enabled
-- keeps its rest, because that job may be running.
UPDATE webhook_endpoints
SET disabled_at = NULL, disabled_reason = NULL, failing_since = NULL, last_failure = NULL, failures = 0,
    rest_until = payonce_now(), enabled_at = payonce_now()
WHERE tenant_id = @tenant_id AND id = @id AND deleted_at IS NULL AND disabled_at IS NOT NULL;

-- name: FindInFeed :one
-- Whether events are written for the tenant, where its feed begins, and the place of an event in it: 0 if it has none.
SELECT t.tells, t.feed_after, coalesce((
    SELECT e.position FROM events AS e
    WHERE e.tenant_id = @tenant_id AND e.payment_id = @payment_id AND e.version = @version), 0)::bigint AS position
FROM tenants AS t WHERE t.id = @tenant_id;

-- name: ReadFeed :many
-- The events of a tenant that have a place in its feed, from the place after this one on.
SELECT e.payment_id, e.version, e.type FROM events AS e
WHERE e.tenant_id = @tenant_id AND e.position > @after::bigint
ORDER BY e.position LIMIT @max_rows;

-- name: Redeliver :many
-- Makes an event due again, for one endpoint, or for all that are enabled and get its type. Competes with the job that
-- delivers: a try that is running finds another due_at, so its outcome is not written.
INSERT INTO event_deliveries (tenant_id, endpoint_id, payment_id, version)
SELECT e.tenant_id, p.id, e.payment_id, e.version
FROM events AS e JOIN webhook_endpoints AS p ON p.tenant_id = e.tenant_id AND p.deleted_at IS NULL
WHERE e.tenant_id = @tenant_id AND e.payment_id = @payment_id AND e.version = @version
  AND CASE WHEN sqlc.narg(endpoint_id)::uuid IS NULL
           THEN p.disabled_at IS NULL AND (p.event_types = '{}' OR e.type = ANY (p.event_types))
           ELSE p.id = sqlc.narg(endpoint_id) END
ORDER BY p.id
ON CONFLICT (tenant_id, endpoint_id, payment_id, version) DO UPDATE
SET due_at = excluded.due_at, attempts = 0, first_at = NULL, delivered_at = NULL
RETURNING endpoint_id;

-- name: RedeliverSince :execrows
-- Makes the events of this part of a tenant's feed due again that have happened since a time, for one endpoint, if it
-- gets their types. Competes with the job that delivers, as Redeliver does. The version is a time, in microseconds.
INSERT INTO event_deliveries (tenant_id, endpoint_id, payment_id, version)
SELECT e.tenant_id, p.id, e.payment_id, e.version
FROM events AS e JOIN webhook_endpoints AS p ON p.tenant_id = e.tenant_id AND p.deleted_at IS NULL
WHERE e.tenant_id = @tenant_id AND p.id = @endpoint_id AND e.version >= @since::bigint
  AND e.position >= @first::bigint AND e.position < @before::bigint
  AND (p.event_types = '{}' OR e.type = ANY (p.event_types))
ORDER BY e.position
ON CONFLICT (tenant_id, endpoint_id, payment_id, version) DO UPDATE
SET due_at = excluded.due_at, attempts = 0, first_at = NULL, delivered_at = NULL;

-- name: AuditEndpoint :exec
-- What an operator does to an endpoint of a tenant, in the transaction that does it.
INSERT INTO operator_actions (endpoint_id, tenant_id, actor, action, outcome, detail)
VALUES (@endpoint_id::uuid, @tenant_id::text, @actor, @action, 'done', @detail);

-- name: ListEndpointActions :many
-- What operators have done to an endpoint, the newest first.
SELECT at, actor, action, detail FROM operator_actions
WHERE endpoint_id = @endpoint_id::uuid AND tenant_id = @tenant_id::text ORDER BY id DESC LIMIT @max_rows;
