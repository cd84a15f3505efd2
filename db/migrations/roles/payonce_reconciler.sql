-- The rights of the reconciler: it resolves keys, runs jobs, compares settlement files, prunes, and serves operators.
-- It cannot begin a payment or reserve a key: it may not write the fingerprint, the subject, the lease_id, the attempt
-- or the generation of a key. It may delete what is pruned. A test takes each right away and expects a statement to
-- fail, so no right is superfluous.

GRANT SELECT ON goose_db_version, installation, tenants, api_keys TO payonce_reconciler;

GRANT SELECT, DELETE,
      UPDATE (status, locked_until, reconcile_after, finished_at, expires_at,
              response_status, response_content_type, response_location, response_schema_version, response_body,
              unknown_since, lookup_failures, delete_after, dead_letter_hold)
    ON idempotency_keys TO payonce_reconciler;
-- A line of the timeline never changes. It is deleted with its key when the audit window is over.
GRANT SELECT, DELETE,
      INSERT (tenant_id, operation, key, generation, attempt, actor, from_status, to_status, reason, evidence)
    ON idempotency_key_events TO payonce_reconciler;

-- A key that expires gets a tombstone, whose generation only grows. So does a key without a row that a dead letter is
-- about; the tombstone keeps the hold.
GRANT SELECT, INSERT (tenant_id, operation, key, generation), UPDATE (generation, dead_letter_hold)
    ON idempotency_key_tombstones TO payonce_reconciler;

GRANT SELECT,
      UPDATE (status, psp_charge_id, decline_code, refund_held_minor, refunded_minor, moved_outside_minor, updated_at)
    ON payments TO payonce_reconciler;
-- What others have done is never deleted. A later status replaces the earlier one.
GRANT SELECT,
      INSERT (tenant_id, payment_id, psp_id, amount_minor, currency, reason, status, evidence_due_by, opened_at,
              updated_at),
      UPDATE (amount_minor, currency, reason, status, evidence_due_by, opened_at, updated_at)
    ON disputes TO payonce_reconciler;
GRANT SELECT,
      INSERT (tenant_id, id, payment_id, origin, amount_minor, currency, status, psp_refund_id, decline_code,
              created_at, updated_at),
      UPDATE (status, psp_refund_id, decline_code, updated_at)
    ON refunds TO payonce_reconciler;

-- An event never changes, but gets its place in the feed. It is deleted with its deliveries.
GRANT SELECT, DELETE, UPDATE (position),
      INSERT (tenant_id, payment_id, version, type, status, psp_charge_id, decline_code, refunded_minor, changed_at,
              disputes, refund, dispute_id)
    ON events TO payonce_reconciler;
GRANT SELECT, UPDATE (position) ON event_feed TO payonce_reconciler;
-- Where events go is for the merchant to say. Whether it works is for the reconciler.
GRANT SELECT, DELETE, UPDATE (rest_until, failures, failing_since, last_failure, disabled_at,
                              disabled_reason)
    ON webhook_endpoints TO payonce_reconciler;
GRANT SELECT, DELETE, INSERT (tenant_id, endpoint_id, payment_id, version),
      UPDATE (due_at, attempts, first_at, last_at, last_status, last_answer, last_error, delivered_at)
    ON event_deliveries TO payonce_reconciler;

GRANT SELECT, DELETE, UPDATE (processed_at, result) ON webhook_events TO payonce_reconciler;

-- A dead letter begins open and is changed only by its resolution. The trigger on river_job writes dead letters with
-- the rights of the role that updates the job: this one.
GRANT SELECT,
      INSERT (id, kind, finding, tenant_id, operation, key, generation, subject, reason, evidence),
      UPDATE (status, version, resolved_at, action, actor, resolution_reason)
    ON dead_letters TO payonce_reconciler;
GRANT SELECT, INSERT (dead_letter_id, dead_letter_version, actor, action, reason, outcome, detail)
    ON operator_actions TO payonce_reconciler;

GRANT SELECT,
      INSERT (account, object, scanned_to, updated_at, resume_after, walk_began),
      UPDATE (scanned_to, updated_at, resume_after, walk_began, failed_runs)
    ON ledger_watermarks TO payonce_reconciler;
GRANT SELECT ON statement_movements TO payonce_reconciler;
GRANT SELECT, INSERT (id, account, day, started_at, status, lines, breaks, pending)
    ON statement_runs TO payonce_reconciler;
GRANT SELECT, DELETE, INSERT (account, day, object, subject) ON statement_pending TO payonce_reconciler;
-- A run of a day replaces what it keeps of the day.
GRANT SELECT, DELETE,
      INSERT (account, day, line, line_id, type, object, psp_id, payment, amount_minor, currency, fee_minor, net_minor,
              balance_currency, booked_at)
    ON booked_lines TO payonce_reconciler;
GRANT SELECT, DELETE, INSERT (account, payout_id, line_id) ON paid_lines TO payonce_reconciler;
GRANT SELECT, DELETE,
      INSERT (account, day, currency, object, type, others, lines, theirs_minor, ours_minor, ours, fee_minor, net_minor)
    ON statement_sums TO payonce_reconciler;
GRANT SELECT,
      INSERT (account, day, object, kind, psp_id, subject, charge_id, reference, other_tenant, lines,
              their_amount_minor, their_currency, their_status, our_amount_minor, our_currency, our_status, our_psp_id,
              moved_at, first_seen, last_seen, raised_by, seen_by),
      UPDATE (charge_id, reference, other_tenant, lines,
              their_amount_minor, their_currency, their_status, our_amount_minor, our_currency, our_status, our_psp_id,
              moved_at, last_seen, gone_at, raised_by, seen_by)
    ON statement_breaks TO payonce_reconciler;

-- River's tables. The args, the queue and the unique key of a job are written once.
GRANT SELECT, DELETE,
      INSERT (id, args, created_at, kind, max_attempts, metadata, priority, queue, scheduled_at, state, tags,
              unique_key, unique_states),
      UPDATE (kind, state, attempt, attempted_at, attempted_by, errors, max_attempts, finalized_at, metadata,
              scheduled_at)
    ON river_job TO payonce_reconciler;
GRANT USAGE ON SEQUENCE river_job_id_seq TO payonce_reconciler;
GRANT SELECT, DELETE, INSERT (leader_id, elected_at, expires_at), UPDATE (expires_at)
    ON river_leader TO payonce_reconciler;
GRANT SELECT, DELETE, INSERT (created_at, metadata, name, paused_at, updated_at), UPDATE (updated_at)
    ON river_queue TO payonce_reconciler;
-- River rebuilds its indexes every night. Before PostgreSQL 17 only the owner can do so, and River logs the refusal.
DO $$
BEGIN
    IF current_setting('server_version_num')::integer >= 170000 THEN
        GRANT MAINTAIN ON river_job TO payonce_reconciler;
    END IF;
END $$;
