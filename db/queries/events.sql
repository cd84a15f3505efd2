-- Events get their places in the feed, and are delivered. Nothing here is on the path of a payment.

-- name: LockFeed :one
-- The place that was given out last. A dispatcher has this lock until its places are committed. A second
-- dispatcher gets no row, and leaves the work to the first.
SELECT position FROM event_feed FOR NO KEY UPDATE SKIP LOCKED;

-- name: FindNewEvents :many
-- Events without a place, oldest first. The feed is locked by a statement before, so this one sees all places that were
-- given out. An event that is written, and not committed yet, gets a later place.
SELECT e.tenant_id, e.payment_id, e.version FROM events AS e
WHERE e.position IS NULL
ORDER BY e.version
LIMIT @max_rows;

-- name: PlaceEvents :exec
-- Gives events their places, by a dispatcher that has locked the feed. A place never changes. CompleteKeys explains the
-- first comparison.
UPDATE events AS e SET position = coalesce(e.position, a.position)
FROM (
    SELECT unnest(@tenant_ids::text[]) AS tenant_id, unnest(@payment_ids::uuid[]) AS payment_id,
           unnest(@versions::bigint[]) AS version, unnest(@positions::bigint[]) AS position
) AS a
WHERE a.tenant_id || '' = a.tenant_id AND e.tenant_id = a.tenant_id AND e.payment_id = a.payment_id
  AND e.version = a.version;

-- name: AddDeliveries :exec
-- A delivery of each event to each endpoint that wants it. Of a disabled endpoint they wait, until it is enabled or the
-- event is pruned. A dispatcher whose commit was not acknowledged may have added them.
INSERT INTO event_deliveries (tenant_id, endpoint_id, payment_id, version)
SELECT e.tenant_id, w.id, e.payment_id, e.version
FROM (
    SELECT unnest(@tenant_ids::text[]) AS tenant_id, unnest(@payment_ids::uuid[]) AS payment_id,
           unnest(@versions::bigint[]) AS version
) AS a
JOIN events AS e ON e.tenant_id = a.tenant_id AND e.payment_id = a.payment_id AND e.version = a.version
JOIN webhook_endpoints AS w ON w.tenant_id = e.tenant_id AND w.deleted_at IS NULL
    AND (w.event_types = '{}' OR e.type = ANY (w.event_types))
WHERE a.tenant_id || '' = a.tenant_id
ON CONFLICT DO NOTHING;

-- name: AdvanceFeed :exec
UPDATE event_feed SET position = @position;

-- name: FindDueEndpoints :many
-- Endpoints with deliveries that are due: of those that work and of those that fail, those that have rested longest.
-- Each kind has workers of its own, so neither hides the other. It looks at each endpoint that is enabled. Their number
-- grows with the tenants, and not with the payments. What is due is as in GetDueDeliveries.
SELECT e.tenant_id, e.id, e.failing
FROM (
    SELECT w.tenant_id, w.id, (w.failures > 0)::boolean AS failing,
           row_number() OVER (PARTITION BY w.failures > 0 ORDER BY w.rest_until) AS place
    FROM webhook_endpoints AS w
    CROSS JOIN LATERAL (SELECT FROM event_deliveries AS d
                        WHERE d.tenant_id = w.tenant_id AND d.endpoint_id = w.id
                          AND d.due_at <= greatest(payonce_now(), w.enabled_at + interval '8 hours')
                          AND (d.due_at <= payonce_now() OR d.last_at < w.enabled_at)
                        LIMIT 1) AS due
    WHERE w.disabled_at IS NULL AND w.deleted_at IS NULL AND w.rest_until <= payonce_now()
) AS e
WHERE e.place <= @max_rows::integer
ORDER BY e.failing, e.place;

-- name: RestEndpoints :exec
-- No other job is made for these endpoints meanwhile. Competes with a job that ends, which writes the same column.
UPDATE webhook_endpoints AS w SET rest_until = payonce_now() + sqlc.arg(rest)::interval
FROM (SELECT unnest(@tenant_ids::text[]) AS tenant_id, unnest(@endpoint_ids::uuid[]) AS id) AS a
WHERE a.tenant_id || '' = a.tenant_id AND w.tenant_id = a.tenant_id AND w.id = a.id;

-- name: GetDueDeliveries :many
-- What is due at an endpoint, oldest first, with where it goes. Nothing, once the endpoint is disabled or deleted. What
-- was tried before the endpoint was enabled again is due, too, and is tried as if it was new. It waits for 8 hours at
-- most, so the index need not be read further.
SELECT w.url, w.secret, w.failures, w.failing_since,
       coalesce(w.failing_since + sqlc.arg(give_up)::interval <= payonce_now(), false)::boolean AS fails_too_long,
       d.payment_id, d.version, d.due_at::timestamptz AS due_at,
       (CASE WHEN d.last_at < w.enabled_at THEN 0 ELSE d.attempts END)::integer AS attempts,
       (CASE WHEN w.previous_until > payonce_now() THEN w.previous_secret END)::bytea AS previous_secret
FROM webhook_endpoints AS w
CROSS JOIN LATERAL (SELECT i.payment_id, i.version, i.due_at, i.attempts, i.last_at FROM event_deliveries AS i
                    WHERE i.tenant_id = w.tenant_id AND i.endpoint_id = w.id
                      AND i.due_at <= greatest(payonce_now(), w.enabled_at + interval '8 hours')
                      AND (i.due_at <= payonce_now() OR i.last_at < w.enabled_at)
                    ORDER BY i.due_at
                    LIMIT @max_rows) AS d
WHERE w.tenant_id = @tenant_id AND w.id = @endpoint_id AND w.disabled_at IS NULL AND w.deleted_at IS NULL;

-- name: RecordDeliveries :many
-- What came of deliveries to an endpoint. A delivery is tried again, until it has been tried for long enough. Competes
-- with a merchant who asks for it once more: then due_at is another one, and the outcome of the earlier try is not
-- written. ExpireLease explains IS TRUE.
UPDATE event_deliveries AS d
SET attempts = r.attempts + 1, first_at = coalesce(d.first_at, r.at), last_at = r.at,
    last_status = nullif(r.status, 0), last_answer = nullif(r.answer, ''), last_error = nullif(r.error, ''),
    delivered_at = CASE WHEN r.delivered THEN r.at END,
    due_at = CASE WHEN NOT r.final AND greatest(coalesce(d.first_at, r.at),
                      (SELECT w.enabled_at FROM webhook_endpoints AS w
                       WHERE w.tenant_id = @tenant_id AND w.id = @endpoint_id::uuid)
                  ) > r.since THEN r.next_at END
FROM (
    SELECT o.*, n.at, n.at - sqlc.arg(give_up)::interval AS since,
           n.at + o.wait_millis * interval '1 millisecond' AS next_at
    FROM (
        SELECT @endpoint_id::uuid AS endpoint_id, unnest(@payment_ids::uuid[]) AS payment_id,
               unnest(@versions::bigint[]) AS version, unnest(@due_ats::timestamptz[]) AS due_at,
               unnest(@delivered::boolean[]) AS delivered, unnest(@final::boolean[]) AS final,
               unnest(@statuses::integer[]) AS status, unnest(@answers::text[]) AS answer,
               unnest(@errors::text[]) AS error, unnest(@wait_millis::bigint[]) AS wait_millis,
               unnest(@attempts::integer[]) AS attempts
    ) AS o, (SELECT payonce_now() AS at OFFSET 0) AS n
    OFFSET 0
) AS r
WHERE r.answer = r.answer || '' AND d.tenant_id = @tenant_id AND d.endpoint_id = r.endpoint_id
  AND d.payment_id = r.payment_id AND d.version = r.version AND (d.due_at = r.due_at) IS TRUE
RETURNING (CASE WHEN d.delivered_at IS NOT NULL THEN 'delivered' WHEN d.due_at IS NOT NULL THEN 'failed'
           ELSE 'given_up' END)::text AS outcome;

-- name: RestEndpoint :many
-- What came of a batch of deliveries to an endpoint: how long it rests now, since when it fails, how the last try has
-- failed, and why it is disabled, if it is. Without an outcome, it ends the lease. Competes with a merchant who deletes
-- it. RecordPayments explains the selected times.
UPDATE webhook_endpoints AS w
SET rest_until = c.rest_until,
    failures = CASE WHEN @succeeded::boolean THEN 0 ELSE w.failures END + CASE WHEN @failed::boolean THEN 1 ELSE 0 END,
    failing_since = CASE WHEN @failed THEN coalesce(CASE WHEN NOT @succeeded THEN w.failing_since END, c.at)
                         WHEN NOT @succeeded THEN w.failing_since END,
    last_failure = CASE WHEN @failed THEN @failure::text WHEN NOT @succeeded THEN w.last_failure END,
    disabled_at = CASE WHEN @reason::text <> '' THEN c.at END, disabled_reason = nullif(@reason, '')
FROM (SELECT @tenant_id::text AS tenant_id, payonce_now() AS at, payonce_now() + sqlc.arg(rest)::interval AS rest_until
      OFFSET 0) AS c
WHERE w.tenant_id = c.tenant_id AND w.tenant_id = @tenant_id AND w.id = @endpoint_id
  AND w.disabled_at IS NULL AND w.deleted_at IS NULL
RETURNING (w.disabled_at IS NOT NULL)::boolean AS disabled;

-- name: FindOldEvents :many
-- Events that have been kept for long enough, oldest first. The version is a time, in microseconds. The last event of a
-- tenant stays: a reader of the feed who has missed nothing has it as the cursor.
SELECT e.tenant_id, e.payment_id, e.version FROM events AS e
WHERE e.position IS NOT NULL
  AND e.version <= (extract(epoch FROM payonce_now() - sqlc.arg(older_than)::interval) * 1000000)::bigint
  AND EXISTS (SELECT FROM events AS n WHERE n.tenant_id = e.tenant_id AND n.position > e.position)
ORDER BY e.version
LIMIT @max_rows;

-- name: DeleteDeliveriesOfEvents :exec
DELETE FROM event_deliveries AS d
USING (
    SELECT unnest(@tenant_ids::text[]) AS tenant_id, unnest(@payment_ids::uuid[]) AS payment_id,
           unnest(@versions::bigint[]) AS version
) AS a
WHERE a.tenant_id || '' = a.tenant_id AND d.tenant_id = a.tenant_id AND d.payment_id = a.payment_id
  AND d.version = a.version;

-- name: DeleteEvents :exec
DELETE FROM events AS e
USING (
    SELECT unnest(@tenant_ids::text[]) AS tenant_id, unnest(@payment_ids::uuid[]) AS payment_id,
           unnest(@versions::bigint[]) AS version
) AS a
WHERE a.tenant_id || '' = a.tenant_id AND e.tenant_id = a.tenant_id AND e.payment_id = a.payment_id
  AND e.version = a.version;

-- name: FindDeletedEndpoints :many
-- Endpoints that were deleted an hour ago or more. By then, no dispatcher adds deliveries to them.
SELECT w.tenant_id, w.id FROM webhook_endpoints AS w
WHERE w.deleted_at <= payonce_now() - interval '1 hour'
ORDER BY w.deleted_at
LIMIT @max_rows;

-- name: DeleteDeliveriesOf :execrows
-- Some deliveries of a deleted endpoint. SweepLeases explains ctid.
DELETE FROM event_deliveries AS d
USING (SELECT unnest(ARRAY(
    SELECT i.ctid FROM event_deliveries AS i
    WHERE i.tenant_id = @tenant_id AND i.endpoint_id = @endpoint_id
    LIMIT @max_rows
)) AS place) AS found
WHERE found.place::text = found.place::text || '' AND d.tenant_id = @tenant_id AND d.ctid = found.place;

-- name: DeleteEndpoint :exec
-- The row goes, once its deliveries are gone.
DELETE FROM webhook_endpoints AS w
WHERE w.tenant_id = @tenant_id AND w.id = @endpoint_id AND w.deleted_at IS NOT NULL;
