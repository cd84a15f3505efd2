-- The rights of the API: it reserves and completes keys, writes payments and refunds, stores webhooks, and serves
-- operators and merchants. It deletes nothing, and creates no tenant and no API key. It cannot write a column of ours
-- whose DEFAULT is the database's clock, but when a delivery is due, and until when an endpoint rests. A test takes
-- each right away and expects a statement to fail, so no right is superfluous.

GRANT SELECT ON goose_db_version, installation, tenants, api_keys, ledger_watermarks, statement_runs, statement_breaks,
    booked_lines, paid_lines, statement_sums
    TO payonce_api;

-- INSERT has the columns of a new key. UPDATE has every column but the key's name and created_at.
GRANT SELECT,
      INSERT (tenant_id, operation, key, status, fingerprint, attempt, generation, lease_id, subject, created_at,
              reserved_at, locked_until, expires_at),
      UPDATE (status, fingerprint, attempt, generation, lease_id, subject, reserved_at, locked_until, reconcile_after,
              finished_at, expires_at,
              response_status, response_content_type, response_location, response_schema_version, response_body,
              unknown_since, lookup_failures, delete_after, dead_letter_hold)
    ON idempotency_keys TO payonce_api;
GRANT SELECT, INSERT (tenant_id, operation, key, generation, attempt, actor, from_status, to_status, reason, evidence)
    ON idempotency_key_events TO payonce_api;

-- A dead letter about a key without a row makes a tombstone, which keeps its hold.
GRANT SELECT, INSERT (tenant_id, operation, key, generation), UPDATE (generation, dead_letter_hold)
    ON idempotency_key_tombstones TO payonce_api;

-- A payment begins without a charge. Who pays, how much and how never changes.
GRANT SELECT,
      INSERT (id, tenant_id, idempotency_key, generation, customer_id, amount_minor, currency, payment_method,
              description, metadata, reference, status),
      UPDATE (status, psp_charge_id, psp_object_id, decline_code, refund_held_minor, refunded_minor,
              moved_outside_minor, updated_at)
    ON payments TO payonce_api;
GRANT SELECT ON disputes TO payonce_api;
GRANT SELECT,
      INSERT (id, payment_id, tenant_id, idempotency_key, generation, amount_minor, currency, reason, status),
      UPDATE (status, psp_refund_id, decline_code, updated_at)
    ON refunds TO payonce_api;

-- An event never changes.
GRANT SELECT, INSERT (tenant_id, payment_id, version, type, status, psp_charge_id, decline_code, refunded_minor,
                      changed_at, disputes, refund, dispute_id)
    ON events TO payonce_api;

-- What merchants want to hear, and where. The reconciler delivers.
GRANT UPDATE (feed, tells, feed_after) ON tenants TO payonce_api;
GRANT SELECT,
      INSERT (tenant_id, id, url, description, event_types, secret),
      UPDATE (secret, previous_secret, previous_until, disabled_at, disabled_reason, failing_since, last_failure,
              failures, rest_until, enabled_at, deleted_at)
    ON webhook_endpoints TO payonce_api;
GRANT SELECT, INSERT (tenant_id, endpoint_id, payment_id, version),
      UPDATE (due_at, attempts, first_at, delivered_at)
    ON event_deliveries TO payonce_api;

GRANT SELECT, INSERT (id, sent_at, body, processed_at, result), UPDATE (processed_at, result) ON webhook_events
    TO payonce_api;

-- A dead letter begins open and is changed only by its resolution.
GRANT SELECT,
      INSERT (id, kind, finding, tenant_id, operation, key, generation, subject, reason, evidence),
      UPDATE (status, version, resolved_at, action, actor, resolution_reason)
    ON dead_letters TO payonce_api;
GRANT SELECT, INSERT (dead_letter_id, dead_letter_version, endpoint_id, tenant_id, actor, action, reason, outcome,
                      detail)
    ON operator_actions TO payonce_api;

-- The API inserts jobs, and the reconciler runs them. An operator may run a discarded job again. River also sets the
-- kind of a job that is already in the queue, to the value that it has.
GRANT SELECT,
      INSERT (id, args, created_at, kind, max_attempts, metadata, priority, queue, scheduled_at, state, tags,
              unique_key, unique_states),
      UPDATE (kind, state, max_attempts, finalized_at, metadata, scheduled_at)
    ON river_job TO payonce_api;
GRANT USAGE ON SEQUENCE river_job_id_seq TO payonce_api;
