-- A key that was deleted keeps a tombstone: the number of its last generation. Used again, the key goes on from there. So tenant, operation, key and
-- generation never name two payments, and the PSP never sees one pass-through key for two of them (ADR 0023).

-- +goose Up
-- No key is deleted between the look at the payments below and the trigger.
LOCK TABLE idempotency_keys IN SHARE ROW EXCLUSIVE MODE;

CREATE TABLE idempotency_key_tombstones (
    scope      text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    generation integer NOT NULL CHECK (generation >= 1),
    PRIMARY KEY (scope, key)
);

-- Keys that were deleted before there were tombstones: their payments and refunds are still here.
INSERT INTO idempotency_key_tombstones (scope, key, generation)
SELECT m.scope, m.key, max(m.generation)
FROM (SELECT tenant_id || ' POST /payments' AS scope, idempotency_key AS key, generation FROM payments
      UNION ALL
      SELECT tenant_id || ' POST /payments/{id}/refunds', idempotency_key, generation FROM refunds) AS m
WHERE NOT EXISTS (SELECT FROM idempotency_keys AS k WHERE k.scope = m.scope AND k.key = m.key)
GROUP BY m.scope, m.key;

CREATE TRIGGER idempotency_key_tombstones_never_deleted
    BEFORE DELETE OR TRUNCATE ON idempotency_key_tombstones EXECUTE FUNCTION history_is_append_only();

-- Every deletion of a key leaves its tombstone, also one by a person at a psql prompt. It is written with the rights of the owner: no role of a process
-- may write tombstones otherwise.
-- +goose StatementBegin
CREATE FUNCTION deleted_keys_leave_tombstones() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO idempotency_key_tombstones AS t (scope, key, generation)
    SELECT d.scope, d.key, d.generation FROM deleted AS d
    ON CONFLICT (scope, key) DO UPDATE SET generation = greatest(t.generation, excluded.generation);
    RETURN NULL;
END $$;
-- +goose StatementEnd
-- Nobody else can put a trigger with this function on a table of their own. To fire the trigger below takes no right.
REVOKE EXECUTE ON FUNCTION deleted_keys_leave_tombstones() FROM PUBLIC;
CREATE TRIGGER idempotency_keys_leave_tombstones
    AFTER DELETE ON idempotency_keys REFERENCING OLD TABLE AS deleted
    FOR EACH STATEMENT EXECUTE FUNCTION deleted_keys_leave_tombstones();

-- A key begins in progress, as attempt 1 of generation 1, or of the generation after its tombstone's.
-- +goose StatementBegin
CREATE FUNCTION idempotency_keys_begin() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.status = 'in_progress' AND NEW.attempt = 1 AND EXISTS (
            SELECT FROM idempotency_key_tombstones AS t
            WHERE t.scope = NEW.scope AND t.key = NEW.key AND t.generation = NEW.generation - 1) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'a key begins in progress, as attempt 1 of generation 1, or of the generation after its last one'
        USING ERRCODE = 'check_violation', CONSTRAINT = 'idempotency_keys_begins_in_progress';
END $$;
-- +goose StatementEnd
DROP TRIGGER idempotency_keys_guard_insert ON idempotency_keys;
CREATE TRIGGER idempotency_keys_guard_insert
    BEFORE INSERT ON idempotency_keys FOR EACH ROW
    WHEN (NEW.status <> 'in_progress' OR NEW.attempt <> 1 OR NEW.generation <> 1)
    EXECUTE FUNCTION idempotency_keys_begin();

-- A dead letter about an earlier payment of a key does not hold the payment that has the key now. Without a subject a letter is about the key, whatever
-- it stands for. And evidence does not complete a key with a decline while an open letter says that money moved: a statement that has waited for the key's
-- row does not see a letter that was opened meanwhile, but this does.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION dead_lettered_keys_stay() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM dead_letters AS d
               WHERE d.scope = OLD.scope AND d.key = OLD.key AND d.generation = OLD.generation AND d.status = 'open'
                 AND (d.subject IS NULL OR d.subject = OLD.subject)
                 AND CASE NEW.status
                     WHEN 'completed' THEN 'succeeded' IN (d.evidence #>> '{record,status}', d.evidence #>> '{answer,status}')
                     WHEN 'expired' THEN true
                     ELSE d.kind <> 'job_discarded' END) THEN
        RAISE EXCEPTION 'a key with an open dead letter does not go from % to %', OLD.status, NEW.status
            USING ERRCODE = 'check_violation', CONSTRAINT = 'idempotency_keys_dead_lettered_stay';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd

DROP TRIGGER idempotency_keys_dead_lettered_stay ON idempotency_keys;
CREATE TRIGGER idempotency_keys_dead_lettered_stay BEFORE UPDATE ON idempotency_keys FOR EACH ROW
    WHEN ((OLD.status = 'unknown' AND NEW.status = 'failed_retryable') OR (OLD.status <> 'expired' AND NEW.status = 'expired')
          OR (OLD.status IN ('unknown', 'failed_retryable') AND NEW.status = 'completed' AND NEW.response_status = 402))
    EXECUTE FUNCTION dead_lettered_keys_stay();

-- A finding about a key names the payment, too: a resolved letter about an earlier one must not keep a new letter from being opened.
ALTER TABLE dead_letters DISABLE TRIGGER dead_letters_resolved_once;
UPDATE dead_letters SET finding = finding || ' ' || subject
WHERE starts_with(finding, 'key ') AND subject IS NOT NULL AND right(finding, 36) <> subject::text;
ALTER TABLE dead_letters ENABLE TRIGGER dead_letters_resolved_once;

-- As in migration 14. A job for a key also carries the payment or refund that the key stood for.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION discarded_jobs_become_letters() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO dead_letters (id, kind, finding, tenant_id, scope, key, generation, subject, reason, evidence)
    SELECT gen_random_uuid(), 'job_discarded',
           -- The next claim makes another job for the key. Given up as well, it is the same case.
           CASE WHEN about.a_key THEN concat_ws(' ', 'job', NEW.kind, NEW.args ->> 'scope', NEW.args ->> 'key', NEW.args ->> 'generation',
                                                NEW.args ->> 'subject')
                ELSE 'job ' || NEW.id END,
           CASE WHEN about.a_key THEN split_part(NEW.args ->> 'scope', ' ', 1) END,
           CASE WHEN about.a_key THEN NEW.args ->> 'scope' END,
           CASE WHEN about.a_key THEN NEW.args ->> 'key' END,
           CASE WHEN about.a_key THEN (NEW.args ->> 'generation')::integer END,
           CASE WHEN about.a_key THEN (NEW.args ->> 'subject')::uuid END,
           left(format('job %s given up after %s attempts', NEW.kind, NEW.attempt), 500),
           jsonb_build_object('jobId', NEW.id, 'kind', NEW.kind, 'args', NEW.args, 'attempts', NEW.attempt,
               'error', left(coalesce(NEW.errors[array_upper(NEW.errors, 1)] ->> 'error', ''), 2000))
    FROM (SELECT NEW.args ?& ARRAY['scope', 'key', 'generation'] AS a_key) AS about
    ON CONFLICT (kind, finding) WHERE status = 'open' DO NOTHING;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- As in migration 22. Replacing a function drops its settings.
-- +goose StatementBegin
DO $$
DECLARE
    guard text;
BEGIN
    FOREACH guard IN ARRAY ARRAY['deleted_keys_leave_tombstones', 'idempotency_keys_begin', 'dead_lettered_keys_stay', 'discarded_jobs_become_letters'] LOOP
        EXECUTE format('ALTER FUNCTION %I() SET search_path = %I, pg_temp', guard, current_schema());
    END LOOP;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER idempotency_keys_leave_tombstones ON idempotency_keys;
DROP FUNCTION deleted_keys_leave_tombstones;
DROP TRIGGER idempotency_keys_guard_insert ON idempotency_keys;
CREATE TRIGGER idempotency_keys_guard_insert
    BEFORE INSERT ON idempotency_keys FOR EACH ROW
    WHEN (NEW.status <> 'in_progress' OR NEW.attempt <> 1 OR NEW.generation <> 1)
    EXECUTE FUNCTION idempotency_keys_guard();
DROP FUNCTION idempotency_keys_begin;
DROP TABLE idempotency_key_tombstones;
