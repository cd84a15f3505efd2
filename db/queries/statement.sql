-- Reconciliation of the PSP's settlement files. One transaction for each account and day fills statement_lines by COPY
-- (internal/statement/tables.sql), and compares the lines with statement_movements. It only reads payments, refunds,
-- tenants and keys. It competes with transactions that resolve keys: for a payment that is resolved after the file was
-- read, the time of the resolution decides (FindAbsent).

-- name: FindAccounts :many
-- The accounts that are named, or all accounts if none is named. judged is the last day whose whole file was compared.
SELECT t.id AS tenant, t.psp, t.psp_account AS account, r.day AS judged
FROM tenants AS t
LEFT JOIN LATERAL (SELECT i.day FROM statement_runs AS i WHERE i.account = t.psp_account AND i.status = 'complete'
                   ORDER BY i.day DESC LIMIT 1) AS r ON true
WHERE cardinality(@accounts::text[]) = 0 OR t.psp_account = ANY (@accounts::text[])
ORDER BY t.psp_account;

-- name: TryLock :one
-- Takes a lock until the transaction ends. A second transaction does not wait: it gets false.
SELECT pg_try_advisory_xact_lock(hashtextextended(@name, 0)) AS locked, payonce_now()::timestamptz AS at;

-- name: FetchOurs :exec
-- Copies our movements that the day's lines refer to, or that have the PSP's id of a line, into statement_ours. The
-- comparison then reads only the temporary tables, in statements that are each about one tenant.
--
-- If we do not know the PSP's id of a charge, it is that of the line which says that the charge was executed. The day's
-- other lines name the charge by it.
INSERT INTO statement_ours (object, id, psp_id, amount_minor, currency, status)
(SELECT DISTINCT ON (m.object, m.id) m.object, m.id,
        CASE WHEN m.object = 'charge' AND l.executed
                  AND coalesce(starts_with(m.psp_id, sqlc.arg(own_prefix)::text), true) THEN l.psp_id
             ELSE m.psp_id END, m.amount_minor, m.currency, m.status
 FROM statement_lines AS l JOIN statement_movements AS m ON m.id = l.subject AND m.object = l.object
 WHERE l.day = @day AND m.tenant_id = @tenant_id AND m.origin = 'api'
 ORDER BY m.object, m.id, l.executed DESC, l.line)
UNION ALL
SELECT m.object, m.id, m.psp_id, m.amount_minor, m.currency, m.status
FROM statement_lines AS l
JOIN statement_movements AS m ON m.psp_id = l.psp_id AND m.object = l.object
WHERE l.day = @day AND m.tenant_id = @tenant_id AND m.origin = 'api'
ON CONFLICT (object, id) DO NOTHING;

-- name: FetchCharges :exec
-- Copies our payments whose charges the lines change. It does not matter who has asked for that. A charge that is not
-- confirmed here yet is known by the id of its object.
INSERT INTO statement_ours (object, id, psp_id, amount_minor, currency, status)
SELECT 'charge', p.id, l.charge_id, p.amount_minor, p.currency, p.status
FROM (SELECT DISTINCT s.charge_id FROM statement_lines AS s WHERE s.day = @day AND s.charge_id <> '') AS l
JOIN payments AS p ON p.psp_charge_id = l.charge_id
WHERE p.tenant_id = @tenant_id
UNION ALL
SELECT 'charge', p.id, l.charge_id, p.amount_minor, p.currency, p.status
FROM (SELECT DISTINCT s.charge_id FROM statement_lines AS s WHERE s.day = @day AND s.charge_id <> '') AS l
JOIN payments AS p ON p.psp_object_id = l.charge_id
    AND p.psp_charge_id IS DISTINCT FROM p.psp_object_id
WHERE p.tenant_id = @tenant_id
ON CONFLICT (object, id) DO NOTHING;

-- name: FetchElsewhere :exec
-- Copies what is stored of refunds and disputes that nothing of ours asked for, and that the day's lines name.
INSERT INTO statement_elsewhere (object, psp_id, amount_minor, currency, status)
SELECT 'refund', r.psp_refund_id, r.amount_minor, r.currency, r.status
FROM (SELECT DISTINCT s.psp_id FROM statement_lines AS s WHERE s.day = @day AND s.object = 'refund') AS l
JOIN refunds AS r ON r.psp_refund_id = l.psp_id AND r.origin || '' = 'provider'
WHERE r.tenant_id = @tenant_id
UNION ALL
SELECT 'dispute', d.psp_id, d.amount_minor, d.currency, d.status
FROM (SELECT DISTINCT s.psp_id, p.id FROM statement_lines AS s
      JOIN statement_ours AS p ON p.object = 'charge' AND p.psp_id = s.charge_id
      WHERE s.day = @day AND s.object = 'dispute') AS l
JOIN disputes AS d ON d.payment_id = l.id AND d.psp_id = l.psp_id
WHERE d.tenant_id = @tenant_id
ON CONFLICT (object, psp_id) DO NOTHING;

-- name: FetchStrangers :exec
-- Copies the ids of movements that a line refers to and FetchOurs has not found. They are another tenant's. No index
-- is on an id alone, so each tenant is searched by the primary key.
INSERT INTO statement_strangers (object, id)
SELECT 'charge', p.id
FROM (SELECT l.subject FROM statement_lines AS l
      WHERE l.day = @day AND l.object = 'charge' AND l.subject IS NOT NULL
        AND NOT EXISTS (SELECT FROM statement_ours AS o WHERE o.object = l.object AND o.id = l.subject)) AS l
CROSS JOIN tenants AS t
CROSS JOIN LATERAL (SELECT DISTINCT ON (i.tenant_id) * FROM payments AS i
                    WHERE i.tenant_id = t.id AND i.id = l.subject) AS p
UNION ALL
SELECT 'refund', r.id
FROM (SELECT l.subject FROM statement_lines AS l
      WHERE l.day = @day AND l.object = 'refund' AND l.subject IS NOT NULL
        AND NOT EXISTS (SELECT FROM statement_ours AS o WHERE o.object = l.object AND o.id = l.subject)) AS l
CROSS JOIN tenants AS t
CROSS JOIN LATERAL (SELECT DISTINCT ON (i.tenant_id) * FROM refunds AS i
                    WHERE i.tenant_id = t.id AND i.id = l.subject) AS r;

-- name: AdoptByPSPID :exec
-- A line may refer to no movement of the tenant, but have the PSP's id of one. Then the line is about that movement.
UPDATE statement_lines AS l SET subject = m.id, by_psp_id = true
FROM statement_ours AS m
WHERE l.day = @day AND m.object = l.object AND m.psp_id = l.psp_id
  AND NOT EXISTS (SELECT FROM statement_ours AS named WHERE named.id = l.subject AND named.object = l.object);

-- name: WriteLineBreaks :execrows
-- Writes every break that a line of the day shows. Of several lines about one movement, one line is compared with our
-- books: a line with the PSP's id that we know, if there is one, and otherwise the first line. Each further line is a
-- duplicate, and so is each further line with the same PSP's id. An operator may have confirmed a movement without
-- knowing the PSP's id: our id then begins with own_prefix, and it is no break that the line has another id.
--
-- A line about no movement of ours may change a payment of ours: then that payment is the break's subject, unless our
-- books have the object already as the line says (as_known). Such an object may have several lines, of which the last
-- one counts: a dispute has one when it is opened and one when it is won. A refund of ours has two if its money came
-- back. If that was known before its success, it is declined here, under the same id. If other programs use the account
-- (shared), a line without a reference that changes no payment of ours is of_others.
--
-- A break is raised again when the status of our movement has changed, or what others have done to a payment: while the
-- movement was processing, nobody has judged the break.
INSERT INTO statement_breaks AS b (
    account, day, object, kind, psp_id, subject, charge_id, reference, other_tenant, lines, their_amount_minor,
    their_currency, their_status, our_amount_minor, our_currency, our_status, our_psp_id, moved_at, first_seen,
    last_seen, raised_by, seen_by)
SELECT DISTINCT ON (x.object, k.kind, x.psp_id, x.subject)
       @account, @day, x.object, k.kind, x.psp_id, coalesce(x.subject, x.changed),
       CASE WHEN x.changed IS NULL THEN '' ELSE x.charge_id END, x.reference,
       x.subject IS NULL AND EXISTS (SELECT FROM statement_strangers AS o WHERE o.id = x.named AND o.object = x.object),
       x.lines, x.amount_minor, x.currency, x.status, x.our_amount_minor, x.our_currency, x.our_status, x.our_psp_id,
       x.created_at, @seen_at, @seen_at, @run_id, @run_id
FROM (
    SELECT l.object, l.psp_id, l.charge_id, l.reference, l.subject AS named, l.by_psp_id, l.amount_minor, l.currency,
           l.executed, l.status, l.created_at, m.id AS subject, c.id AS changed,
           sqlc.arg(shared)::boolean AND m.id IS NULL AND c.id IS NULL AND l.reference = '' AS of_others,
           m.amount_minor AS our_amount_minor, m.currency AS our_currency,
           m.status AS our_status, m.psp_id AS our_psp_id,
           e.amount_minor = l.amount_minor AND e.currency = l.currency
               AND CASE l.status WHEN 'succeeded' THEN e.status IN ('succeeded', 'reversed', 'lost')
                                 WHEN 'declined' THEN e.status IN ('reversed', 'won', 'closed')
                                 ELSE e.status <> 'inquiry' END AS as_known,
           row_number() OVER (PARTITION BY l.object, l.psp_id ORDER BY l.line DESC) AS nth_last,
           row_number() OVER (PARTITION BY l.object, m.id, CASE WHEN m.id IS NULL THEN l.psp_id END
                              ORDER BY l.executed DESC, (m.psp_id = l.psp_id) DESC NULLS LAST, l.line) AS nth_about,
           row_number() OVER (PARTITION BY l.object, l.psp_id ORDER BY l.line) AS nth_id,
           count(*) OVER (PARTITION BY l.object, l.psp_id) AS lines
    FROM statement_lines AS l
    LEFT JOIN statement_ours AS m ON m.id = l.subject AND m.object = l.object
    LEFT JOIN statement_ours AS c ON c.object = 'charge' AND c.psp_id = l.charge_id AND m.id IS NULL
    LEFT JOIN statement_elsewhere AS e ON e.object = l.object AND e.psp_id = l.psp_id AND m.id IS NULL
    WHERE l.day = @day AND l.status <> ''
) AS x
CROSS JOIN LATERAL (VALUES
    ('missing_here', NOT x.of_others AND x.subject IS NULL AND CASE
        WHEN x.changed IS NULL THEN x.nth_id = 1 AND x.executed
        ELSE x.nth_last = 1 AND x.as_known IS NOT TRUE END),
    ('duplicate', NOT x.of_others AND x.changed IS NULL AND x.executed AND (x.nth_about > 1 OR x.nth_id > 1)),
    ('status', CASE WHEN x.executed THEN x.nth_about = 1 AND x.our_status NOT IN ('succeeded', 'reversed')
                         AND NOT (x.object = 'refund' AND x.our_status = 'declined' AND x.our_psp_id = x.psp_id)
                    ELSE x.our_status = 'succeeded'
                         AND (x.nth_about = 1 OR x.object = 'refund' AND x.psp_id = x.our_psp_id) END),
    ('psp_id', x.nth_about = 1 AND x.executed AND x.our_status = 'succeeded'
        AND (x.by_psp_id OR (x.our_psp_id <> x.psp_id AND NOT starts_with(x.our_psp_id, sqlc.arg(own_prefix)::text)))),
    ('amount', x.nth_about = 1 AND x.executed AND x.our_amount_minor <> x.amount_minor),
    ('currency', x.nth_about = 1 AND x.executed AND x.our_currency <> x.currency)
) AS k (kind, found)
WHERE k.found
ORDER BY x.object, k.kind, x.psp_id, x.subject, x.nth_id
ON CONFLICT (account, day, object, kind, psp_id, coalesce(subject, '00000000-0000-0000-0000-000000000000')) DO UPDATE
SET charge_id = excluded.charge_id, reference = excluded.reference, other_tenant = excluded.other_tenant,
    lines = excluded.lines, their_amount_minor = excluded.their_amount_minor, their_currency = excluded.their_currency,
    their_status = excluded.their_status,
    our_amount_minor = excluded.our_amount_minor, our_currency = excluded.our_currency,
    our_status = excluded.our_status, our_psp_id = excluded.our_psp_id, moved_at = excluded.moved_at,
    last_seen = excluded.last_seen, gone_at = NULL,
    raised_by = CASE WHEN b.gone_at IS NULL AND b.our_status IS NOT DISTINCT FROM excluded.our_status
                          AND (b.kind <> 'missing_here' OR
                               (b.their_status, b.their_amount_minor, b.their_currency) IS NOT DISTINCT FROM
                               (excluded.their_status, excluded.their_amount_minor, excluded.their_currency))
                     THEN b.raised_by ELSE excluded.raised_by END, seen_by = excluded.seen_by;

-- name: FindAbsent :exec
-- Copies our movements of the day. ForgetPresent then deletes the movements that are in the files read so far. The
-- range of ids lets PostgreSQL use the primary key, and created_at decides. latest is the latest time that the PSP can
-- have given the movement: the money moved before there was evidence of it, so before the key was finished. If the key
-- was deleted, only the PSP's memory of the key (horizon) limits the time. An open movement has no such time yet: one
-- that is processing, or that has failed and whose key may be used again.
INSERT INTO statement_absent (object, subject, psp_id, amount_minor, currency, created_at, latest)
SELECT m.object, m.id, coalesce(m.psp_id, ''), m.amount_minor, m.currency, m.created_at,
       CASE m.status WHEN 'succeeded'
            THEN least(coalesce(m.finished, m.created_at + sqlc.arg(horizon)::interval),
                       m.created_at + sqlc.arg(most)::interval) + sqlc.arg(skew)::interval
            ELSE 'infinity' END
FROM (SELECT o.object, o.id, o.psp_id, o.amount_minor, o.currency, o.created_at, o.status,
             (SELECT CASE o.status WHEN 'succeeded' THEN k.finished_at ELSE 'infinity' END FROM idempotency_keys AS k
              WHERE k.tenant_id = o.tenant_id AND k.operation = o.operation AND k.key = o.idempotency_key
                AND k.subject = o.id AND (o.status = 'succeeded' OR k.status <> 'expired')) AS finished
      FROM statement_movements AS o
      WHERE o.tenant_id = @tenant_id AND o.origin = 'api' AND o.status NOT IN ('declined', 'reversed')
        AND o.id >= sqlc.arg(first_id)::uuid AND o.id < sqlc.arg(last_id)::uuid
        AND o.created_at >= sqlc.arg(created_from)::timestamptz
        AND o.created_at < sqlc.arg(created_until)::timestamptz) AS m
WHERE m.status <> 'failed' OR m.finished IS NOT NULL;

-- name: ForgetBooked :exec
-- Deletes what an earlier run of the day has kept.
WITH paid AS (
    DELETE FROM paid_lines AS p USING booked_lines AS b
    WHERE b.account = @account AND b.day = @day AND b.object = 'payout'
      AND p.account = b.account AND p.payout_id = b.psp_id
), sums AS (
    DELETE FROM statement_sums AS s WHERE s.account = @account AND s.day = @day
)
DELETE FROM booked_lines AS l WHERE l.account = @account AND l.day = @day;

-- name: KeepBooked :exec
-- Keeps the lines of the day, and sums them up together with our movements of the day that have succeeded
-- (statement_absent, before ForgetPresent). A movement is of a payment of ours if it is that payment or changes it. The
-- sign is that of the balance. A small amount may be nothing in the balance's currency: then the object says the sign.
-- Refunds and disputes of others, and refunds whose money came back, have no day in our books that is that of the file.
-- For these, a line's side counts on our side, too, if our books say that the money has moved to that side.
WITH kept AS (
    INSERT INTO booked_lines (account, day, line, line_id, type, object, psp_id, payment, amount_minor, currency,
        fee_minor, net_minor, balance_currency, booked_at)
    SELECT @account, l.day, l.line, l.line_id, l.type, l.object, l.psp_id, coalesce(m.id, c.id),
           CASE WHEN l.status = '' THEN NULL
                WHEN l.fee_minor::numeric + l.net_minor < 0 THEN -l.amount_minor
                WHEN l.fee_minor::numeric + l.net_minor = 0 AND l.object <> 'charge' THEN -l.amount_minor
                ELSE l.amount_minor END, nullif(l.currency, ''),
           l.fee_minor, l.net_minor, l.balance_currency, l.created_at
    FROM statement_lines AS l
    LEFT JOIN statement_ours AS m ON l.object = 'charge' AND m.object = 'charge' AND m.id = l.subject
    LEFT JOIN (SELECT o.psp_id, (array_agg(o.id))[1] AS id FROM statement_ours AS o
               WHERE o.object = 'charge' AND o.psp_id IS NOT NULL GROUP BY o.psp_id) AS c ON c.psp_id = l.charge_id
    WHERE l.day = @day
    RETURNING object, type, payment, amount_minor, currency, fee_minor, net_minor, balance_currency
)
INSERT INTO statement_sums (account, day, currency, object, type, others, lines, theirs_minor, ours_minor, ours,
    fee_minor, net_minor)
SELECT @account, @day, s.currency, s.object, s.type, s.others, sum(s.lines), coalesce(sum(s.theirs), 0),
       coalesce(sum(s.ours), 0), count(s.ours), coalesce(sum(s.fee), 0), coalesce(sum(s.net), 0)
FROM (
    SELECT k.balance_currency, k.object, CASE k.object WHEN '' THEN k.type ELSE '' END,
           k.payment IS NULL AND k.object IN ('charge', 'refund', 'dispute'), 1, NULL::bigint, NULL::bigint,
           k.fee_minor, k.net_minor
    FROM kept AS k
    UNION ALL
    SELECT k.currency, k.object, '', k.payment IS NULL, 0,
           k.amount_minor, NULL, NULL, NULL
    FROM kept AS k WHERE k.amount_minor IS NOT NULL
    UNION ALL
    SELECT a.currency, a.object, '', false, 0, NULL,
           CASE a.object WHEN 'charge' THEN a.amount_minor ELSE -a.amount_minor END, NULL, NULL
    FROM statement_absent AS a WHERE a.latest < 'infinity'
    UNION ALL
    SELECT n.currency, n.object, '', false, 0, NULL, n.side * n.amount_minor, NULL, NULL
    FROM (SELECT DISTINCT m.object, m.psp_id, m.amount_minor, m.currency, m.status,
                 CASE WHEN l.fee_minor::numeric + l.net_minor < 0 THEN -1 ELSE 1 END AS side
          FROM statement_lines AS l
          JOIN (SELECT e.object, e.psp_id, e.amount_minor, e.currency, e.status FROM statement_elsewhere AS e
                WHERE NOT EXISTS (SELECT FROM statement_ours AS o WHERE o.object = e.object AND o.psp_id = e.psp_id)
                UNION ALL
                SELECT o.object, o.psp_id, o.amount_minor, o.currency, o.status FROM statement_ours AS o
                WHERE o.object = 'refund' AND o.status = 'reversed') AS m ON m.object = l.object AND m.psp_id = l.psp_id
          WHERE l.day = @day AND l.status <> '') AS n
    WHERE n.status IN ('reversed', 'won')
       OR n.side < 0 AND n.status IN ('succeeded', 'needs_response', 'under_review', 'lost')
) AS s (currency, object, type, others, lines, theirs, ours, fee, net)
GROUP BY s.currency, s.object, s.type, s.others;

-- name: DayPayouts :many
-- The payouts among the day's lines.
SELECT DISTINCT b.psp_id FROM booked_lines AS b
WHERE b.account = @account AND b.day = @day AND b.object = 'payout' AND b.psp_id <> '';

-- name: KeepPaid :exec
-- Keeps which lines a payout has paid.
INSERT INTO paid_lines (account, payout_id, line_id)
SELECT @account, @payout_id, unnest(@line_ids::text[]) ON CONFLICT DO NOTHING;

-- name: Books :many
-- Both books of a day side by side, with a row for the net of each currency: all but what was paid out (object 'net').
SELECT s.currency, s.object, s.type, s.others, s.lines, s.theirs_minor::text AS theirs_minor,
       s.ours_minor::text AS ours_minor, s.ours, (s.net_minor + s.fee_minor)::text AS gross_minor,
       s.fee_minor::text AS fee_minor, s.net_minor::text AS net_minor
FROM (
    SELECT b.currency, b.object, b.type, b.others, b.lines, b.theirs_minor, b.ours_minor, b.ours, b.fee_minor,
           b.net_minor
    FROM statement_sums AS b WHERE b.account = @account AND b.day = @day
    UNION ALL
    SELECT n.currency, 'net', '', false, sum(n.lines)::bigint, sum(n.theirs_minor), sum(n.ours_minor),
           sum(n.ours)::bigint, sum(n.fee_minor), sum(n.net_minor)
    FROM statement_sums AS n WHERE n.account = @account AND n.day = @day AND n.object <> 'payout' GROUP BY n.currency
) AS s
ORDER BY s.currency, array_position(ARRAY['charge', 'refund', 'dispute', 'fee', '', 'net', 'payout'],
    s.object), s.others, s.type;

-- name: Payouts :many
-- The payouts of a day, with the lines that they have paid, as far as we have them.
SELECT b.psp_id AS payout_id, b.balance_currency AS currency, (-b.net_minor::numeric)::text AS amount_minor,
       count(p.line_id) AS lines, count(l.line) AS known, coalesce(sum(l.net_minor), 0)::text AS known_minor
FROM booked_lines AS b
LEFT JOIN paid_lines AS p ON p.account = b.account AND p.payout_id = b.psp_id
LEFT JOIN LATERAL (SELECT i.line, i.net_minor FROM booked_lines AS i
                   WHERE i.account = p.account AND i.line_id = p.line_id LIMIT 1) AS l ON true
WHERE b.account = @account AND b.day = @day AND b.object = 'payout' AND b.psp_id <> ''
GROUP BY b.line, b.psp_id, b.balance_currency, b.net_minor
ORDER BY b.line;

-- name: LinesOfPayment :many
-- The lines about a payment of ours, and the payout that has paid each.
SELECT b.booked_at, b.type, b.balance_currency AS currency, (b.net_minor::numeric + b.fee_minor)::text AS gross_minor,
       b.fee_minor::text AS fee_minor, b.net_minor::text AS net_minor,
       coalesce((SELECT p.payout_id FROM paid_lines AS p
                 WHERE p.account = b.account AND p.line_id = b.line_id LIMIT 1), '')::text AS payout_id
FROM booked_lines AS b WHERE b.payment = @payment::uuid
ORDER BY b.booked_at, b.line LIMIT @max_rows;

-- name: CountAbsent :one
-- How many of these movements may be in an earlier day's file, how many in a later day's file, and how many cannot be
-- judged yet. No other file is read for an open movement: its day is judged again when it is final.
SELECT count(*) FILTER (WHERE created_at < sqlc.arg(early)::timestamptz AND latest < 'infinity') AS before,
       count(*) FILTER (WHERE latest > sqlc.arg(late)::timestamptz AND latest < 'infinity') AS after,
       count(*) FILTER (WHERE latest > sqlc.arg(late)::timestamptz) AS pending
FROM statement_absent;

-- name: ForgetPresent :exec
-- Deletes the movements that the file of a day has: they are not absent.
DELETE FROM statement_absent AS a
USING statement_lines AS l WHERE l.day = @day AND l.subject = a.subject AND l.object = a.object;

-- name: WriteAbsences :execrows
-- Writes a break for each absent movement that no later file can have.
INSERT INTO statement_breaks AS b (
    account, day, object, kind, psp_id, subject, reference, other_tenant, lines, our_amount_minor, our_currency,
    our_status, our_psp_id, moved_at, first_seen, last_seen, raised_by, seen_by)
SELECT @account, @day, a.object, 'missing_there', a.psp_id, a.subject, '', false, 0, a.amount_minor, a.currency,
       'succeeded', a.psp_id, a.created_at, @seen_at, @seen_at, @run_id, @run_id
FROM statement_absent AS a
WHERE a.latest <= sqlc.arg(late)::timestamptz
ON CONFLICT (account, day, object, kind, psp_id, coalesce(subject, '00000000-0000-0000-0000-000000000000')) DO UPDATE
SET last_seen = excluded.last_seen, gone_at = NULL,
    raised_by = CASE WHEN b.gone_at IS NULL THEN b.raised_by ELSE excluded.raised_by END, seen_by = excluded.seen_by;

-- name: MarkGone :many
-- Marks the breaks of the day that this run has not found, and the absences of other days that a line has ended.
-- listed says that the break was such an absence, or one of this day. One batch: the index of the open breaks has them
-- in this order.
UPDATE statement_breaks AS b SET gone_at = sqlc.arg(seen_at)::timestamptz
WHERE b.id = ANY (ARRAY(
    SELECT o.id FROM statement_breaks AS o
    WHERE o.account = @account AND o.gone_at IS NULL
      AND (o.day = @day AND o.seen_by <> @run_id
           OR o.day <> @day AND o.kind = 'missing_there'
              AND EXISTS (SELECT FROM statement_lines AS l
                          WHERE l.executed AND l.subject = o.subject AND l.object = o.object))
    ORDER BY o.day, o.id LIMIT @max_rows))
RETURNING b.id, b.day, b.object, b.kind, b.psp_id, b.subject,
          (b.kind = 'missing_there' AND EXISTS (
              SELECT FROM statement_lines AS l
              WHERE l.executed AND l.subject = b.subject AND l.object = b.object))::boolean AS listed;

-- name: ForgetPending :exec
-- Deletes what the day's last run has left pending.
DELETE FROM statement_pending WHERE account = @account AND day = @day;

-- name: ForgetListed :exec
-- Deletes the movements that were pending because no file had them, and that are in the day's file. An open break says
-- that a file of the other day has the movement, too: then that day must still be judged again.
DELETE FROM statement_pending AS p
USING statement_lines AS l
WHERE l.day = @day AND l.executed AND p.account = @account AND p.day <> @day
  AND p.subject = l.subject AND p.object = l.object
  AND (SELECT b.id FROM statement_breaks AS b
       WHERE b.account = p.account AND b.day = p.day AND b.gone_at IS NULL
         AND b.subject = p.subject AND b.object = p.object LIMIT 1) IS NULL;

-- name: WritePending :exec
-- Notes the movements that this run could not judge: those that are absent and can still be listed, and those that a
-- line is about and that are open. For a failed movement the line is evidence that this run has told (raised_by). The
-- next run of the day sees what came of it.
INSERT INTO statement_pending (account, day, object, subject)
SELECT @account, @day, p.object, p.subject
FROM (
    SELECT a.object, a.subject FROM statement_absent AS a WHERE a.latest > sqlc.arg(late)::timestamptz
    UNION
    SELECT o.object, o.id FROM statement_lines AS l JOIN statement_ours AS o ON o.id = l.subject AND o.object = l.object
    WHERE l.day = @day AND o.status = 'processing'
    UNION
    SELECT b.object, b.subject FROM statement_breaks AS b
    WHERE b.account = @account AND b.day = @day AND b.gone_at IS NULL AND b.kind = 'status'
      AND b.our_status = 'failed' AND b.raised_by = @run_id AND b.subject IS NOT NULL
) AS p (object, subject);

-- name: WriteRun :exec
INSERT INTO statement_runs (id, account, day, started_at, status, lines, breaks, pending)
VALUES (@id, @account, @day, @started_at, @status, @lines, @breaks, @pending);

-- name: ListPending :many
-- The pending movements of an account, of the days before one day, in the order of statement_pending_by_day.
SELECT day, object, subject FROM statement_pending
WHERE account = @account AND day < @before
  AND (day, object, subject) > (sqlc.arg(after_day)::date, sqlc.arg(after_object)::text, sqlc.arg(after_subject)::uuid)
ORDER BY day, object, subject LIMIT @max_rows;

-- name: FinalMovements :many
-- Those of the pending movements that are final, and that no file after a time (known) can have. moved says that they
-- have succeeded. Each LATERAL reads one row by its primary key.
SELECT p.day::date AS day, p.object::text AS object, p.subject::uuid AS subject,
       (m.status = 'succeeded')::boolean AS moved
FROM (SELECT unnest(@days::date[]) AS day, unnest(@objects::text[]) AS object,
             unnest(@subjects::uuid[]) AS subject) AS p
CROSS JOIN LATERAL (SELECT m.id, m.status, m.operation, m.idempotency_key FROM statement_movements AS m
                    WHERE m.tenant_id = @tenant_id AND m.id = p.subject AND m.object = p.object LIMIT 1) AS m
LEFT JOIN LATERAL (SELECT k.status, k.finished_at FROM idempotency_keys AS k
                   WHERE k.tenant_id = @tenant_id AND k.operation = m.operation AND k.key = m.idempotency_key
                     AND k.subject = m.id LIMIT 1) AS k ON true
WHERE m.status <> 'processing' AND (m.status <> 'failed' OR coalesce(k.status, 'expired') = 'expired')
  AND coalesce(k.finished_at, '-infinity') <= sqlc.arg(known)::timestamptz - sqlc.arg(skew)::interval;

-- name: ForgetUnmoved :many
-- Deletes pending movements that were not executed in the end, and returns the days of the others: an open break says
-- that a line of the day has the movement.
WITH asked AS (
    SELECT unnest(@days::date[]) AS day, unnest(@objects::text[]) AS object, unnest(@subjects::uuid[]) AS subject
), forgotten AS (
    DELETE FROM statement_pending AS p USING asked AS a
    WHERE p.account = @account AND p.day = a.day AND p.object = a.object AND p.subject = a.subject
      AND (SELECT b.id FROM statement_breaks AS b
           WHERE b.account = @account AND b.day = a.day AND b.gone_at IS NULL
             AND b.subject = a.subject AND b.object = a.object LIMIT 1) IS NULL
    RETURNING p.day, p.object, p.subject
)
SELECT DISTINCT a.day::date AS day FROM asked AS a
WHERE NOT EXISTS (SELECT FROM forgotten AS f WHERE f.day = a.day AND f.object = a.object AND f.subject = a.subject);

-- name: MissingDays :many
-- The days up to last_day, oldest first, without a run that compared the whole file. A day whose runs all began before
-- the day was over (partial) is among them. It looks at the last days, and before them back to the last day that was
-- compared, or to the tenant's first day. So nothing is forgotten, however long no reconciler has run.
SELECT t.psp_account AS account, d.day::date AS day
FROM tenants AS t
LEFT JOIN LATERAL (
    SELECT r.day FROM statement_runs AS r
    WHERE r.account = t.psp_account AND r.status = 'complete'
      AND r.day <= sqlc.arg(last_day)::date - sqlc.arg(days)::integer
    ORDER BY r.day DESC LIMIT 1) AS judged ON true
CROSS JOIN LATERAL (
    SELECT sqlc.arg(last_day)::date - n AS day
    FROM generate_series(0, sqlc.arg(last_day)::date - least(
        sqlc.arg(last_day)::date - sqlc.arg(days)::integer + 1,
        coalesce(judged.day + 1, (t.created_at AT TIME ZONE 'UTC')::date))) AS n) AS d
WHERE d.day >= (t.created_at AT TIME ZONE 'UTC')::date
  AND NOT EXISTS (SELECT FROM statement_runs AS r
                  WHERE r.account = t.psp_account AND r.day = d.day AND r.status = 'complete')
ORDER BY t.psp_account, d.day;

-- name: OpenBreaks :many
-- The breaks of a day in pages. With raised_by, only the breaks that this run has found and the run before has not.
-- Ages are in seconds.
SELECT id, account, day, object, kind, psp_id, subject, charge_id, reference, other_tenant, lines,
       their_amount_minor, their_currency, their_status, our_amount_minor, our_currency, our_status, our_psp_id,
       moved_at, first_seen, extract(epoch FROM payonce_now() - first_seen)::bigint AS age,
       extract(epoch FROM payonce_now() - moved_at)::bigint AS movement_age
FROM statement_breaks
WHERE account = @account AND day = @day AND gone_at IS NULL AND id > @after
  AND (sqlc.narg(raised_by)::uuid IS NULL OR raised_by = sqlc.narg(raised_by))
ORDER BY id LIMIT @max_rows;

-- name: Totals :many
-- The breaks of the days of some runs, by kind and currency. For the kind amount, the difference is at stake; for every
-- other kind, the amount that moved. The ages of breaks count from when they were first seen.
SELECT kind, coalesce(their_currency, our_currency, '')::text AS currency, count(*) AS breaks,
       coalesce(sum(CASE kind WHEN 'amount' THEN abs(their_amount_minor::numeric - our_amount_minor)
                              ELSE coalesce(their_amount_minor, our_amount_minor) END), 0)::text AS at_stake_minor,
       count(*) FILTER (WHERE first_seen > payonce_now() - interval '1 day') AS to_one_day,
       count(*) FILTER (WHERE first_seen <= payonce_now() - interval '1 day'
                          AND first_seen > payonce_now() - interval '7 days') AS to_seven_days,
       count(*) FILTER (WHERE first_seen <= payonce_now() - interval '7 days') AS older,
       max(extract(epoch FROM payonce_now() - moved_at))::bigint AS oldest_movement
FROM unnest(@run_ids::uuid[]) AS asked (id)
CROSS JOIN LATERAL (SELECT i.account, i.day FROM statement_runs AS i WHERE i.id = asked.id LIMIT 1) AS r
CROSS JOIN LATERAL (SELECT * FROM statement_breaks AS i
                    WHERE i.account = r.account AND i.day = r.day AND i.gone_at IS NULL OFFSET 0) AS b
GROUP BY 1, 2 ORDER BY 1, 2;
