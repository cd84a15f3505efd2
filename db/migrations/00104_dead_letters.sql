-- Cases that only an operator can close, what became of each, and who did it. They stay until someone closes them.
--
-- dead_letters and operator_actions are local tables: a dead letter may be about nobody, and operators see those of all tenants in one list. What is
-- about a key is found by tenant, operation and key. What it forbids the key is written to the key's own row (dead_letter_hold).

-- +goose Up
CREATE TABLE dead_letters (
    id                uuid PRIMARY KEY,
    kind              text NOT NULL,
    -- What was found, by name: the same finding is one case, however often and by whomever it is seen.
    finding           text COLLATE "C" NOT NULL,
    status            text NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'resolved')),
    -- The key that the letter is about. A charge that nobody asked for belongs to no key of ours, a failed job perhaps to nothing at all.
    tenant_id         text COLLATE "C",
    operation         text COLLATE "C",
    key               text COLLATE "C",
    generation        integer,
    -- The payment or refund in question.
    subject           uuid,
    reason            text NOT NULL CHECK (char_length(reason) <= 500),
    evidence          jsonb NOT NULL,
    -- What the letter forbids its key while it is open. That a job has failed says nothing about the key, which may be released by another job.
    hold              dead_letter_hold NOT NULL GENERATED ALWAYS AS (CASE
                          WHEN kind = 'job_discarded' THEN 'expiry'::dead_letter_hold
                          WHEN 'succeeded' IN (evidence #>> '{record,status}', evidence #>> '{answer,status}') THEN 'decline'
                          ELSE 'release' END) STORED,
    opened_at         timestamptz NOT NULL DEFAULT payonce_now(),
    -- Moves with every change: two operators cannot both resolve one letter.
    version           integer NOT NULL DEFAULT 1,
    resolved_at       timestamptz,
    action            text
        CONSTRAINT dead_letters_action_known CHECK (action IN ('retry', 'executed', 'not_executed', 'dismiss')),
    -- Labels of API keys are not unique. Who decided is named by the label and the key's id, such as
    -- "ann (api key 01937b2e-7c41-7c3a-9d0e-5a1f0c9b2d44)": a label has 100 characters, and the rest 47.
    actor             text CHECK (char_length(actor) BETWEEN 1 AND 150),
    resolution_reason text CHECK (char_length(resolution_reason) BETWEEN 1 AND 500),

    CONSTRAINT dead_letters_key_whole_or_absent
        CHECK (num_nulls(tenant_id, operation, key, generation) IN (0, 4)),
    CONSTRAINT dead_letters_resolution_iff_resolved
        CHECK (num_nonnulls(resolved_at, action, actor, resolution_reason) = CASE status WHEN 'resolved' THEN 4 ELSE 0 END)
);

CREATE UNIQUE INDEX dead_letters_one_open_per_finding ON dead_letters (kind, finding) WHERE status = 'open';
CREATE INDEX dead_letters_resolved_findings ON dead_letters (kind, finding) WHERE status = 'resolved';
CREATE INDEX dead_letters_open_by_key ON dead_letters (tenant_id, operation, key) WHERE status = 'open';
CREATE INDEX dead_letters_by_status ON dead_letters (status, opened_at, id);

-- Everything that an operator did or was refused.
CREATE TABLE operator_actions (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at             timestamptz NOT NULL DEFAULT payonce_now(),
    letter_id      uuid NOT NULL REFERENCES dead_letters (id),
    letter_version integer NOT NULL,
    actor          text NOT NULL CHECK (char_length(actor) BETWEEN 1 AND 150),
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
    IF OLD.status = 'resolved' OR NEW.version <> OLD.version + 1 OR NEW.status <> 'resolved'
       OR (NEW.id, NEW.kind, NEW.finding, NEW.tenant_id, NEW.operation, NEW.key, NEW.generation, NEW.subject, NEW.reason,
           NEW.evidence, NEW.opened_at)
          IS DISTINCT FROM (OLD.id, OLD.kind, OLD.finding, OLD.tenant_id, OLD.operation, OLD.key, OLD.generation, OLD.subject,
           OLD.reason, OLD.evidence, OLD.opened_at) THEN
        RAISE EXCEPTION 'letter % changes only once, by its resolution', OLD.id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'dead_letters_resolved_once';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER dead_letters_guard BEFORE UPDATE ON dead_letters FOR EACH ROW EXECUTE FUNCTION dead_letters_guard();

-- A job that the queue gives up becomes a letter in the very statement that gives it up, whoever that is: the worker after the
-- last attempt, or the rescuer of a process that died. The queue itself forgets discarded jobs after some days. Jobs of the
-- schedule have one attempt and are no case: the next one is on its way. Key, letter and hold as in OpenDeadLetter (db/queries/deadletters.sql): the key's row
-- is locked first. One statement may give up jobs about several keys, whose rows are then locked in any order. In the rare circle with a group commit, the
-- group gives up first (its lock_timeout is below deadlock_timeout), and tries its members one by one.
-- +goose StatementBegin
CREATE FUNCTION discarded_jobs_become_letters() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM idempotency_keys AS k
    WHERE k.tenant_id = NEW.args ->> 'tenant' AND k.operation = NEW.args ->> 'operation' AND k.key = NEW.args ->> 'key' FOR NO KEY UPDATE;

    WITH opened AS (
        INSERT INTO dead_letters (id, kind, finding, tenant_id, operation, key, generation, subject, reason, evidence)
        SELECT gen_random_uuid(), 'job_discarded',
               -- The next claim makes another job for the key. Given up as well, it is the same case.
               CASE WHEN about.a_key THEN concat_ws(' ', 'job', NEW.kind, NEW.args ->> 'tenant', NEW.args ->> 'operation', NEW.args ->> 'key',
                                                    NEW.args ->> 'generation', NEW.args ->> 'subject')
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
        ON CONFLICT (kind, finding) WHERE status = 'open' DO NOTHING
        RETURNING tenant_id, operation, key, generation, subject, hold
    )
    UPDATE idempotency_keys AS k SET dead_letter_hold = o.hold
    FROM opened AS o
    WHERE k.tenant_id = NEW.args ->> 'tenant' AND k.tenant_id = o.tenant_id AND k.operation = o.operation AND k.key = o.key AND k.generation = o.generation
      AND (o.subject IS NULL OR k.subject = o.subject) AND k.dead_letter_hold < o.hold;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER discarded_jobs_become_letters AFTER UPDATE ON river_job FOR EACH ROW
    WHEN (NEW.state = 'discarded' AND OLD.state <> 'discarded' AND NEW.max_attempts > 1)
    EXECUTE FUNCTION discarded_jobs_become_letters();

-- It looks at our tables, not at a temporary one of the same name.
-- +goose StatementBegin
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION discarded_jobs_become_letters() SET search_path = %I, pg_temp', current_schema());
END $$;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER discarded_jobs_become_letters ON river_job;
DROP FUNCTION discarded_jobs_become_letters;
DROP TABLE operator_actions;
DROP TABLE dead_letters;
DROP FUNCTION dead_letters_guard;
