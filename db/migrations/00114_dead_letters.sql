-- Dead letters: cases that only an operator can close, how each was closed, and by whom.
--
-- dead_letters and operator_actions are local tables. A dead letter may be about no tenant, and operators see the dead
-- letters of all tenants in one list. The dead letters about a key are found by tenant, operation and key. What they
-- forbid is in the key's own row (dead_letter_hold).

-- +goose Up
CREATE TABLE dead_letters (
    id                uuid PRIMARY KEY,
    kind              text NOT NULL,
    -- A name for what was found. A finding has one open dead letter, however often it is found.
    finding           text COLLATE "C" NOT NULL,
    status            text NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'resolved')),
    -- The key that the dead letter is about. NULL for a charge that belongs to no key of ours, and for a failed job
    -- that is not about a key.
    tenant_id         text COLLATE "C",
    operation         text COLLATE "C",
    key               text COLLATE "C",
    generation        integer,
    -- The payment or refund that it is about.
    subject           uuid,
    reason            text NOT NULL CHECK (char_length(reason) <= 500),
    evidence          jsonb NOT NULL,
    -- What the dead letter forbids while it is open. A failed job says nothing about the key, and another job may
    -- release the key.
    hold              dead_letter_hold NOT NULL GENERATED ALWAYS AS (CASE
                          WHEN kind = 'job_discarded' THEN 'expiry'::dead_letter_hold
                          -- pending: money that has left a payment is held, so its charge was executed.
                          WHEN 'succeeded' IN (evidence #>> '{record,status}', evidence #>> '{answer,status}')
                               OR evidence #>> '{record,status}' = 'pending' THEN 'decline'
                          ELSE 'release' END) STORED,
    opened_at         timestamptz NOT NULL DEFAULT payonce_now(),
    -- Grows with every change, so two operators cannot both resolve one dead letter.
    version           integer NOT NULL DEFAULT 1,
    resolved_at       timestamptz,
    action            text
        -- answered: closed without an operator, when the key was completed meanwhile.
        CONSTRAINT dead_letters_action_known
            CHECK (action IN ('retry', 'executed', 'not_executed', 'dismiss', 'answered')),
    -- Labels of API keys are not unique, so the operator is named by label and id, such as
    -- "ann (api key 01937b2e-7c41-7c3a-9d0e-5a1f0c9b2d44)". A label has at most 100 characters, and the rest has 47.
    actor             text CHECK (char_length(actor) BETWEEN 1 AND 150),
    resolution_reason text CHECK (char_length(resolution_reason) BETWEEN 1 AND 500),

    CONSTRAINT dead_letters_key_whole_or_absent
        CHECK (num_nulls(tenant_id, operation, key, generation) IN (0, 4)),
    CONSTRAINT dead_letters_resolution_iff_resolved
        CHECK (num_nonnulls(resolved_at, action, actor, resolution_reason)
            = CASE status WHEN 'resolved' THEN 4 ELSE 0 END)
);

-- IS NOT NULL is for the reason that 00113_payments.sql gives: each index serves only the statements that it is for.
CREATE UNIQUE INDEX dead_letters_one_open_per_finding ON dead_letters (kind, finding)
    WHERE status = 'open' AND finding IS NOT NULL;
CREATE INDEX dead_letters_resolved_findings ON dead_letters (kind, finding) WHERE status = 'resolved';
CREATE INDEX dead_letters_open_by_key ON dead_letters (tenant_id, operation, key)
    WHERE status = 'open' AND key IS NOT NULL;
CREATE INDEX dead_letters_by_status ON dead_letters (status, opened_at, id) WHERE opened_at IS NOT NULL;

-- The audit: every decision of an operator about a dead letter, every decision that was refused, and what operators
-- have done to the endpoints of merchants. No foreign key names an endpoint: the audit outlives it.
CREATE TABLE operator_actions (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at             timestamptz NOT NULL DEFAULT payonce_now(),
    dead_letter_id      uuid REFERENCES dead_letters (id),
    dead_letter_version integer,
    endpoint_id    uuid,
    tenant_id      text COLLATE "C",
    actor          text NOT NULL CHECK (char_length(actor) BETWEEN 1 AND 150),
    action         text NOT NULL,
    reason         text CHECK (char_length(reason) BETWEEN 1 AND 500), -- of a decision
    outcome        text NOT NULL CHECK (outcome IN ('done', 'refused')),
    detail         text NOT NULL DEFAULT '' CHECK (char_length(detail) <= 500),
    CONSTRAINT operator_actions_about_one_thing CHECK (
        num_nonnulls(dead_letter_id, dead_letter_version, reason) = CASE WHEN endpoint_id IS NULL THEN 3 ELSE 0 END
        AND (endpoint_id IS NULL) = (tenant_id IS NULL))
);
CREATE INDEX operator_actions_by_dead_letter ON operator_actions (dead_letter_id, id) WHERE dead_letter_id IS NOT NULL;
CREATE INDEX operator_actions_by_endpoint ON operator_actions (endpoint_id, id) WHERE endpoint_id IS NOT NULL;

CREATE TRIGGER operator_actions_never_rewritten
    BEFORE UPDATE OR DELETE OR TRUNCATE ON operator_actions EXECUTE FUNCTION history_is_append_only();
CREATE TRIGGER dead_letters_never_deleted
    BEFORE DELETE OR TRUNCATE ON dead_letters EXECUTE FUNCTION history_is_append_only();

-- A dead letter changes once: from open to resolved. The version grows by one.
-- +goose StatementBegin
CREATE FUNCTION dead_letters_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.status = 'resolved' OR NEW.version <> OLD.version + 1 OR NEW.status <> 'resolved'
       OR (NEW.id, NEW.kind, NEW.finding, NEW.tenant_id, NEW.operation, NEW.key, NEW.generation, NEW.subject,
           NEW.reason, NEW.evidence, NEW.opened_at)
          IS DISTINCT FROM (OLD.id, OLD.kind, OLD.finding, OLD.tenant_id, OLD.operation, OLD.key, OLD.generation,
           OLD.subject, OLD.reason, OLD.evidence, OLD.opened_at) THEN
        RAISE EXCEPTION 'dead letter % changes only once, by its resolution', OLD.id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dead_letters_resolved_once';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER dead_letters_guard BEFORE UPDATE ON dead_letters FOR EACH ROW EXECUTE FUNCTION dead_letters_guard();

-- A job that River discards becomes a dead letter, in the same statement. A job is discarded by its worker after the
-- last attempt, or by River's rescuer when the worker's process has died. River deletes discarded jobs after some days.
-- A scheduled job has one attempt and makes no dead letter: the next job of the schedule does the same work.
--
-- The key's row is locked first, as for OpenDeadLetter (db/queries/deadletters.sql). One statement may discard jobs
-- about several keys, and locks their rows in any order. So a deadlock with a group commit is possible, and rare. Then
-- the group gives up first (its lock_timeout is below deadlock_timeout), and tries its members one by one.
-- +goose StatementBegin
CREATE FUNCTION discarded_jobs_become_dead_letters() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM idempotency_keys AS k
    WHERE k.tenant_id = NEW.args ->> 'tenant' AND k.operation = NEW.args ->> 'operation'
      AND k.key = NEW.args ->> 'key' FOR NO KEY UPDATE;

    WITH opened AS (
        INSERT INTO dead_letters (id, kind, finding, tenant_id, operation, key, generation, subject, reason, evidence)
        SELECT gen_random_uuid(), 'job_discarded',
               -- ClaimDue makes another job for the key later. If that one is discarded, too, it is the same case.
               CASE WHEN about.a_key THEN concat_ws(' ', 'job', NEW.kind, NEW.args ->> 'tenant',
                                                    NEW.args ->> 'operation', NEW.args ->> 'key',
                                                    NEW.args ->> 'generation', NEW.args ->> 'subject')
                    WHEN NEW.kind = 'statement_day' -- The day gets another job when River has deleted this one.
                        THEN concat_ws(' ', 'job', NEW.kind, NEW.args ->> 'account', NEW.args ->> 'day')
                    ELSE 'job ' || NEW.id END,
               CASE WHEN about.a_key THEN NEW.args ->> 'tenant' END,
               CASE WHEN about.a_key THEN NEW.args ->> 'operation' END,
               CASE WHEN about.a_key THEN NEW.args ->> 'key' END,
               CASE WHEN about.a_key THEN (NEW.args ->> 'generation')::integer END,
               CASE WHEN about.a_key THEN (NEW.args ->> 'subject')::uuid END,
               left(format('job %s given up after %s attempts', NEW.kind, NEW.attempt), 500),
               jsonb_build_object('jobId', NEW.id, 'kind', NEW.kind, 'args', NEW.args, 'attempts', NEW.attempt,
                   'error', left(coalesce(NEW.errors[array_upper(NEW.errors, 1)] ->> 'error', ''), 2000))
        FROM (SELECT NEW.args ?& ARRAY['tenant', 'operation', 'key', 'generation'] AS a_key) AS about
        ON CONFLICT (kind, finding) WHERE status = 'open' AND finding IS NOT NULL DO NOTHING
        RETURNING tenant_id, operation, key, generation, subject, hold
    )
    UPDATE idempotency_keys AS k SET dead_letter_hold = o.hold
    FROM opened AS o
    WHERE k.tenant_id = NEW.args ->> 'tenant' AND k.tenant_id = o.tenant_id AND k.operation = o.operation
      AND k.key = o.key AND k.generation = o.generation
      AND (o.subject IS NULL OR k.subject = o.subject) AND k.dead_letter_hold < o.hold;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER discarded_jobs_become_dead_letters AFTER UPDATE ON river_job FOR EACH ROW
    WHEN (NEW.state = 'discarded' AND OLD.state <> 'discarded' AND NEW.max_attempts > 1)
    EXECUTE FUNCTION discarded_jobs_become_dead_letters();

-- The fixed search_path makes the function use our tables, and not temporary tables with the same names.
-- +goose StatementBegin
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION discarded_jobs_become_dead_letters() SET search_path = %I, pg_temp',
                   current_schema());
END $$;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER discarded_jobs_become_dead_letters ON river_job;
DROP FUNCTION discarded_jobs_become_dead_letters;
DROP TABLE operator_actions;
DROP TABLE dead_letters;
DROP FUNCTION dead_letters_guard;
