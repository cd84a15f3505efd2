-- Rows $FROM to $TO of every table, without the guards. All belong to one tenant. n % 100 says what row n is.
SET session_replication_role = replica;
INSERT INTO idempotency_keys (tenant_id, operation, key, status, fingerprint, attempt, generation, lease_id, subject,
    created_at, reserved_at, locked_until, reconcile_after, unknown_since, finished_at, expires_at, delete_after,
    response_status, response_content_type, response_location, response_schema_version, response_body)
SELECT 'acme', operation, key, status, sha256('x'), 1, 1, id, id, at, at, CASE WHEN status = 'in_progress' THEN due END,
    CASE WHEN status = 'unknown' THEN due END, CASE WHEN status = 'unknown' THEN at END,
    CASE WHEN status NOT IN ('in_progress', 'unknown') THEN at END,
    CASE WHEN n % 100 IN (5, 6, 7) OR n % 100 BETWEEN 40 AND 59 THEN at ELSE at + interval '100 years' END, CASE
        WHEN status = 'expired' THEN due END,
    CASE WHEN done THEN 201 END, CASE WHEN done THEN 'application/json' END, CASE WHEN done THEN '/payments/' || id END,
    CASE WHEN done THEN 1 END, CASE WHEN done THEN convert_to(repeat('x', 300), 'UTF8') END
FROM (
    SELECT *, status IN ('completed', 'expired') AS done,
           at + CASE WHEN n % 100 IN (1, 3, 6, 8) THEN interval '100 years' ELSE '0' END AS due
    FROM (
        SELECT n, timestamptz '2026-01-01Z' + n * interval '1 second' AS at, o.operation, o.name || n AS key,
               (o.head || lpad(to_hex(n), 24, '0'))::uuid AS id, CASE
                   WHEN o.name = 'refund-' THEN
                       CASE WHEN n % 100 IN (11, 13, 14) THEN 'in_progress' WHEN n % 100 = 12
                           THEN 'failed_retryable' ELSE 'completed' END
                   WHEN n % 100 IN (0, 1, 8) THEN 'in_progress' WHEN n % 100 < 4 THEN 'unknown'
                   WHEN n % 100 = 4 THEN 'failed_retryable' WHEN n % 100 < 7 OR n % 100 BETWEEN 50 AND 59
                       THEN 'expired' ELSE 'completed' END AS status
        FROM generate_series($FROM, $TO) AS n,
             (VALUES ('POST /payments', 'key-', '00000000'), ('POST /payments/{id}/refunds', 'refund-', '0000000f'))
                 AS o (operation, name, head)
        WHERE o.name = 'key-' OR n % 100 BETWEEN 9 AND 14) AS numbered) AS made;
INSERT INTO idempotency_key_events (tenant_id, operation, key, generation, attempt, actor, from_status,
    to_status, reason)
SELECT 'acme', 'POST /payments', 'key-' || n, 1, 1, 'test', 'in_progress', 'unknown', 'test'
FROM generate_series($FROM, $TO) AS n, generate_series(1, 2);
INSERT INTO idempotency_key_tombstones (tenant_id, operation, key, generation, dead_letter_hold)
SELECT 'acme', 'POST /payments', p || n, 1, CASE WHEN n % 100 = 24 THEN 'decline' ELSE 'none' END::dead_letter_hold
FROM generate_series($FROM, $TO) AS n, (VALUES ('key-'), ('old-')) AS o (p)
WHERE p = 'old-' OR n % 100 IN (5, 6, 24) OR n % 100 BETWEEN 50 AND 59;

INSERT INTO payments (tenant_id, id, idempotency_key, generation, customer_id, amount_minor, currency, payment_method,
    status, psp_object_id, psp_charge_id, refund_held_minor, refunded_minor, created_at, reference)
SELECT 'acme', ('00000000' || lpad(to_hex(n), 24, '0'))::uuid, 'key-' || n, 1, 'customer-' || n % ($ROWS / 50), 12000,
    'USD', 'pm_ok', CASE WHEN n % 100 < 4 THEN 'processing' WHEN n % 100 IN (4, 8) THEN 'failed' ELSE 'succeeded' END,
    CASE WHEN n % 100 IN (2, 3) THEN 'object-' || n WHEN n % 100 IN (10, 12) THEN 'charge-' || n END,
    CASE WHEN n % 100 = 8 THEN NULL WHEN n % 100 = 18 THEN 'operator:' || n WHEN n % 100 > 4 THEN 'charge-' || n END,
    0, 0, timestamptz '2026-01-01Z' + n * interval '1 second',
    CASE WHEN n % 2 = 1 THEN 'reference-' || n % ($ROWS / 50) END
FROM generate_series($FROM, $TO) AS n WHERE n % 100 <> 1;
INSERT INTO refunds (tenant_id, id, payment_id, idempotency_key, generation, amount_minor, currency, status,
    psp_refund_id, created_at)
SELECT 'acme', ('0000000f' || lpad(to_hex(n), 24, '0'))::uuid, ('00000000' || lpad(to_hex(n), 24, '0'))::uuid,
    'refund-' || n, 1, 100, 'USD', CASE WHEN n % 100 = 13 THEN 'processing' WHEN n % 100 IN (12, 14) THEN 'failed'
        ELSE 'succeeded' END,
    CASE n % 100 WHEN 9 THEN 'operator:' || n WHEN 10 THEN 'refund-' || n END,
    timestamptz '2026-01-01Z' + n * interval '1 second'
FROM generate_series($FROM, $TO) AS n WHERE n % 100 IN (9, 10, 12, 13, 14);
INSERT INTO refunds (tenant_id, id, payment_id, origin, amount_minor, currency, status, psp_refund_id, created_at)
SELECT 'acme', ('0000000c' || lpad(to_hex(n), 24, '0'))::uuid, ('00000000' || lpad(to_hex(n), 24, '0'))::uuid,
    'provider', 100, 'USD', CASE n % 100 WHEN 9 THEN 'processing' ELSE 'succeeded' END, 'outside-' || n,
    timestamptz '2026-01-01Z' + n * interval '1 second'
FROM generate_series($FROM, $TO) AS n WHERE n % 100 BETWEEN 9 AND 14;
INSERT INTO disputes (tenant_id, payment_id, psp_id, amount_minor, currency, status, opened_at)
SELECT 'acme', ('00000000' || lpad(to_hex(n), 24, '0'))::uuid, 'dispute-' || n, 100, 'USD',
    CASE n % 100 WHEN 9 THEN 'inquiry' ELSE 'needs_response' END, timestamptz '2026-01-01Z' + n * interval '1 second'
FROM generate_series($FROM, $TO) AS n WHERE n % 100 BETWEEN 9 AND 14;

INSERT INTO dead_letters (id, kind, finding, status, tenant_id, operation, key, generation, subject, reason, evidence,
    opened_at, resolved_at, action, actor, resolution_reason)
SELECT ('0000000d' || lpad(to_hex(n), 24, '0'))::uuid,
    CASE WHEN n % 100 = 24 THEN 'job_discarded' ELSE 'unknown_movement' END, 'finding-' || n,
    CASE WHEN done THEN 'resolved' ELSE 'open' END, 'acme', 'POST /payments', 'key-' || n, 1,
    ('00000000' || lpad(to_hex(n), 24, '0'))::uuid, 'test', '{}', at,
    CASE WHEN done THEN at END, CASE WHEN done THEN 'dismiss' END, CASE WHEN done THEN 'ann' END,
    CASE WHEN done THEN 'test' END
FROM (SELECT n, n % 100 IN (13, 14) OR n % 100 > 24 AS done, timestamptz '2026-01-01Z' + n * interval '1 second' AS at
      FROM generate_series($FROM, $TO) AS n WHERE n % 100 = 2 OR n % 100 BETWEEN 13 AND 34) AS made;
INSERT INTO operator_actions (dead_letter_id, dead_letter_version, actor, action, reason, outcome)
SELECT ('0000000d' || lpad(to_hex(n), 24, '0'))::uuid, 1, 'ann', 'dismiss', 'test', 'done'
FROM generate_series($FROM, $TO) AS n WHERE n % 100 IN (13, 14);
INSERT INTO operator_actions (endpoint_id, tenant_id, actor, action, outcome)
SELECT ('0000000b' || lpad(to_hex(n), 24, '0'))::uuid, 'acme', 'ann', 'resend', 'done'
FROM generate_series($FROM, $TO) AS n WHERE n % 100 = 13;

INSERT INTO webhook_events (id, sent_at, body, received_at, processed_at, result)
SELECT 'event-' || n, at, 'x', at, CASE WHEN n % 100 > 0 THEN at END, CASE WHEN n % 100 > 0 THEN 'resolved' END
FROM (SELECT n, timestamptz '2026-01-01Z' + n * interval '1 second' AS at FROM generate_series($FROM, $TO)
    AS n) AS made;
-- An event of each payment, and a newer one of some that is not dispatched yet. Of the first endpoint, all deliveries
-- are over but a few that are due. Those of the second wait.
INSERT INTO events (tenant_id, payment_id, version, type, status, refunded_minor, changed_at, position)
SELECT 'acme', ('00000000' || lpad(to_hex(n), 24, '0'))::uuid, n + further, 'payment.succeeded', 'succeeded', 0,
    timestamptz '2026-01-01Z', CASE further WHEN 0 THEN n END
FROM generate_series($FROM, $TO) AS n, (VALUES (0), (1000000)) AS v (further) WHERE further = 0 OR n % 100 = 16;
INSERT INTO event_deliveries (tenant_id, endpoint_id, payment_id, version, due_at, delivered_at)
SELECT 'acme', ('0000000b' || lpad(to_hex(w), 24, '0'))::uuid, ('00000000' || lpad(to_hex(n), 24, '0'))::uuid, n,
    CASE WHEN w > 1 OR n % 100 = 17 THEN timestamptz '2026-01-01Z' + n * interval '1 second' END,
    CASE WHEN w = 1 AND n % 100 <> 17 THEN timestamptz '2026-01-01Z' END
FROM generate_series($FROM, $TO) AS n, generate_series(1, 3) AS w;
INSERT INTO river_job (state, max_attempts, args, kind, finalized_at)
SELECT CASE WHEN n % 100 = 0 THEN 'available' ELSE 'completed' END::river_job_state, 25, '{}', 'resolve',
    CASE WHEN n % 100 > 0 THEN now() END
FROM generate_series($FROM, $TO) AS n;

-- A thousand breaks a day, of which fifty are open, and two runs.
INSERT INTO statement_breaks (account, day, object, kind, psp_id, subject, reference, other_tenant, lines,
    their_amount_minor, moved_at, first_seen, last_seen, gone_at, raised_by, seen_by)
SELECT 'acme', date '2026-01-01' + n / 1000, 'charge', 'amount', 'charge-' || n,
    ('00000000' || lpad(to_hex(n), 24, '0'))::uuid, '', false, 1, 1, at, at, at, CASE WHEN n % 20 > 0 THEN at END,
    ('0000000e' || lpad(to_hex(n / 500), 24, '0'))::uuid, ('0000000e' || lpad(to_hex(n / 500), 24, '0'))::uuid
FROM (SELECT n, timestamptz '2026-01-01Z' + n * interval '1 second' AS at FROM generate_series($FROM, $TO)
    AS n) AS made;
INSERT INTO statement_runs (id, account, day, started_at, status, lines, breaks, pending)
SELECT ('0000000e' || lpad(to_hex(n), 24, '0'))::uuid, 'acme', date '2026-01-01' + n / 2,
    timestamptz '2026-01-01Z' + n * interval '1 second', 'complete', 1, 1, 1
FROM generate_series($FROM, $TO) AS n;
INSERT INTO statement_pending (account, day, object, subject)
SELECT 'acme', date '2026-01-01' + n / 1000, 'charge', ('00000000' || lpad(to_hex(n), 24, '0'))::uuid
FROM generate_series($FROM, $TO) AS n;
-- A thousand lines a day, of which one is a payout that has paid 500 of them.
INSERT INTO booked_lines (account, day, line, line_id, type, object, psp_id, payment, fee_minor, net_minor,
    balance_currency, booked_at)
SELECT 'acme', date '2026-01-01' + n / 1000, -n, 'line-' || n, 'x', CASE n % 1000 WHEN 0 THEN 'payout' ELSE '' END,
    'charge-' || n, ('00000000' || lpad(to_hex(n), 24, '0'))::uuid, 1, 1, 'USD', now()
FROM generate_series($FROM, $TO) AS n;
INSERT INTO paid_lines (account, payout_id, line_id)
SELECT 'acme', 'charge-' || n / 1000 * 1000, 'line-' || n FROM generate_series($FROM, $TO) AS n WHERE n % 2 = 0;
INSERT INTO statement_sums (account, day, currency, object, type, others, lines, theirs_minor, ours_minor, ours,
    fee_minor, net_minor)
SELECT 'acme', date '2026-01-01' + n / 10, 'USD', '', 'type-' || n % 10, false, 1, 1, 1, 1, 1, 1
FROM generate_series($FROM, $TO) AS n;
RESET session_replication_role;
