-- The operator's desk: letters about more than keys, what became of each, and who did it.

-- +goose Up
ALTER TABLE dead_letters
    -- A charge that nobody asked for belongs to no key of ours, a failed job perhaps to nothing at all.
    ALTER COLUMN tenant_id DROP NOT NULL,
    ALTER COLUMN scope DROP NOT NULL,
    ALTER COLUMN key DROP NOT NULL,
    ALTER COLUMN generation DROP NOT NULL,
    ALTER COLUMN subject DROP NOT NULL,
    -- What was found, by name: the same finding is one case, however often and by whomever it is seen.
    ADD COLUMN finding           text COLLATE "C",
    ADD COLUMN resolved_at       timestamptz,
    ADD COLUMN action            text
        CONSTRAINT dead_letters_action_known CHECK (action IN ('retry', 'executed', 'not_executed', 'dismiss')),
    ADD COLUMN actor             text CHECK (char_length(actor) BETWEEN 1 AND 100),
    ADD COLUMN resolution_reason text CHECK (char_length(resolution_reason) BETWEEN 1 AND 500);

UPDATE dead_letters SET finding = format('key %s %s %s', scope, key, generation);

ALTER TABLE dead_letters
    ALTER COLUMN finding SET NOT NULL,
    ADD CONSTRAINT dead_letters_key_whole_or_absent
        CHECK (num_nulls(tenant_id, scope, key, generation) IN (0, 4)),
    ADD CONSTRAINT dead_letters_resolution_iff_resolved
        CHECK (num_nonnulls(resolved_at, action, actor, resolution_reason) = CASE status WHEN 'resolved' THEN 4 ELSE 0 END);

DROP INDEX dead_letters_one_open_per_finding;
CREATE UNIQUE INDEX dead_letters_one_open_per_finding ON dead_letters (kind, finding) WHERE status = 'open';
CREATE INDEX dead_letters_resolved_findings ON dead_letters (kind, finding) WHERE status = 'resolved';
CREATE INDEX dead_letters_open_by_key ON dead_letters (scope, key) WHERE status = 'open';
CREATE INDEX dead_letters_by_status ON dead_letters (status, opened_at, id);

-- Everything that an operator did or was refused.
CREATE TABLE operator_actions (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at             timestamptz NOT NULL DEFAULT clock_timestamp(),
    letter_id      uuid NOT NULL REFERENCES dead_letters (id),
    letter_version integer NOT NULL,
    actor          text NOT NULL CHECK (char_length(actor) BETWEEN 1 AND 100),
    action         text NOT NULL,
    reason         text NOT NULL CHECK (char_length(reason) BETWEEN 1 AND 500),
    outcome        text NOT NULL CHECK (outcome IN ('done', 'refused')),
    detail         text NOT NULL DEFAULT '' CHECK (char_length(detail) <= 500)
);
CREATE INDEX operator_actions_by_letter ON operator_actions (letter_id, id);

CREATE TRIGGER operator_actions_never_rewritten
    BEFORE UPDATE OR DELETE OR TRUNCATE ON operator_actions EXECUTE FUNCTION history_is_append_only();
CREATE TRIGGER dead_letters_never_deleted
    BEFORE DELETE OR TRUNCATE ON dead_letters EXECUTE FUNCTION history_is_append_only();

-- A resolved letter is closed for good, and the version moves by one with every change.
-- +goose StatementBegin
CREATE FUNCTION dead_letters_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'letter % changes only once, by its resolution', OLD.id
        USING ERRCODE = 'check_violation', CONSTRAINT = 'dead_letters_resolved_once';
END $$;
-- +goose StatementEnd
CREATE TRIGGER dead_letters_resolved_once BEFORE UPDATE ON dead_letters FOR EACH ROW
    WHEN (OLD.status = 'resolved' OR NEW.version <> OLD.version + 1 OR NEW.status <> 'resolved'
          OR (NEW.id, NEW.kind, NEW.finding, NEW.tenant_id, NEW.scope, NEW.key, NEW.generation, NEW.subject, NEW.reason,
              NEW.evidence, NEW.opened_at)
             IS DISTINCT FROM (OLD.id, OLD.kind, OLD.finding, OLD.tenant_id, OLD.scope, OLD.key, OLD.generation, OLD.subject,
              OLD.reason, OLD.evidence, OLD.opened_at))
    EXECUTE FUNCTION dead_letters_guard();

-- What an operator has still to decide about is neither released nor pruned. That a job has failed says nothing about the key, which may
-- be released by another one.
-- +goose StatementBegin
CREATE FUNCTION dead_lettered_keys_stay() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM dead_letters AS d
               WHERE d.scope = OLD.scope AND d.key = OLD.key AND d.generation = OLD.generation AND d.status = 'open'
                 AND (d.kind <> 'job_discarded' OR NEW.status = 'expired')) THEN
        RAISE EXCEPTION 'a key with an open dead letter does not go from % to %', OLD.status, NEW.status
            USING ERRCODE = 'check_violation', CONSTRAINT = 'idempotency_keys_dead_lettered_stay';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER idempotency_keys_dead_lettered_stay BEFORE UPDATE ON idempotency_keys FOR EACH ROW
    WHEN ((OLD.status = 'unknown' AND NEW.status = 'failed_retryable') OR (OLD.status <> 'expired' AND NEW.status = 'expired'))
    EXECUTE FUNCTION dead_lettered_keys_stay();

-- A job that the queue gives up becomes a letter in the very statement that gives it up, whoever that is: the worker after the
-- last attempt, or the rescuer of a process that died. The queue itself forgets discarded jobs after some days. Jobs of the
-- schedule have one attempt and are no case: the next one is on its way.
-- +goose StatementBegin
CREATE FUNCTION discarded_jobs_become_letters() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO dead_letters (id, kind, finding, tenant_id, scope, key, generation, reason, evidence)
    SELECT gen_random_uuid(), 'job_discarded',
           -- The next claim makes another job for the key. Given up as well, it is the same case.
           CASE WHEN about.a_key THEN format('job %s %s %s %s', NEW.kind, NEW.args ->> 'scope', NEW.args ->> 'key', NEW.args ->> 'generation')
                ELSE 'job ' || NEW.id END,
           CASE WHEN about.a_key THEN split_part(NEW.args ->> 'scope', ' ', 1) END,
           CASE WHEN about.a_key THEN NEW.args ->> 'scope' END,
           CASE WHEN about.a_key THEN NEW.args ->> 'key' END,
           CASE WHEN about.a_key THEN (NEW.args ->> 'generation')::integer END,
           left(format('job %s given up after %s attempts', NEW.kind, NEW.attempt), 500),
           jsonb_build_object('jobId', NEW.id, 'kind', NEW.kind, 'args', NEW.args, 'attempts', NEW.attempt,
               'error', left(coalesce(NEW.errors[array_upper(NEW.errors, 1)] ->> 'error', ''), 2000))
    FROM (SELECT NEW.args ?& ARRAY['scope', 'key', 'generation'] AS a_key) AS about
    ON CONFLICT (kind, finding) WHERE status = 'open' DO NOTHING;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER discarded_jobs_become_letters AFTER UPDATE ON river_job FOR EACH ROW
    WHEN (NEW.state = 'discarded' AND OLD.state <> 'discarded' AND NEW.max_attempts > 1)
    EXECUTE FUNCTION discarded_jobs_become_letters();

-- +goose Down
DROP TRIGGER discarded_jobs_become_letters ON river_job;
DROP FUNCTION discarded_jobs_become_letters;
DROP TRIGGER idempotency_keys_dead_lettered_stay ON idempotency_keys;
DROP FUNCTION dead_lettered_keys_stay;
DROP TABLE operator_actions;
DROP TRIGGER dead_letters_resolved_once ON dead_letters;
DROP TRIGGER dead_letters_never_deleted ON dead_letters;
DROP FUNCTION dead_letters_guard;
DROP INDEX dead_letters_one_open_per_finding, dead_letters_resolved_findings, dead_letters_open_by_key, dead_letters_by_status;
DELETE FROM dead_letters WHERE scope IS NULL OR subject IS NULL;
ALTER TABLE dead_letters
    DROP COLUMN finding, DROP COLUMN resolved_at, DROP COLUMN action, DROP COLUMN actor, DROP COLUMN resolution_reason,
    ALTER COLUMN tenant_id SET NOT NULL, ALTER COLUMN scope SET NOT NULL, ALTER COLUMN key SET NOT NULL,
    ALTER COLUMN generation SET NOT NULL, ALTER COLUMN subject SET NOT NULL;
CREATE UNIQUE INDEX dead_letters_one_open_per_finding
    ON dead_letters (scope, key, generation, kind) WHERE status = 'open';
