-- Spreads the tables over the workers of Citus: run by api migrate --distribute, and again after every later migration. The heads of the migrations say
-- which table is of which kind. What is not named here stays on the coordinator, as River's tables do.

DO $$
DECLARE
    -- Sessions of others in this database. Citus' own name themselves.
    sessions constant text := $sql$
        SELECT string_agg(format('%s (process %s)', a.usename, a.pid), ', ' ORDER BY a.pid) FROM pg_stat_activity AS a
        WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND a.usename IS NOT NULL AND a.application_name NOT ILIKE 'citus%' $sql$;
    first_time boolean;
    others text;
    it text;
    guard record;
    guards text[] := '{}';
    spread regclass[] := '{}';
BEGIN
    -- One at a time.
    PERFORM pg_advisory_xact_lock(hashtextextended('payonce roles', 0));
    IF to_regclass('pg_dist_node') IS NOT NULL THEN -- else the next line could not be read
        SELECT NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'idempotency_keys'::regclass) INTO first_time
        FROM pg_dist_node WHERE isactive AND shouldhaveshards AND noderole = 'primary' LIMIT 1;
    END IF;
    IF first_time IS NULL THEN
        RAISE EXCEPTION 'there is nothing to distribute over: the database needs the extension citus, and workers that citus_add_node has made known'
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;

    -- Asked before a long copy, and once more at its end. Whoever connected before does not know that each of its transactions has to say BEGIN from now on.
    FOR look IN 1..2 LOOP
        FOR try IN 1..20 LOOP -- a session that has just ended takes a moment to go
            PERFORM pg_stat_clear_snapshot();
            EXECUTE sessions INTO others;
            EXIT WHEN others IS NULL OR NOT first_time;
            PERFORM pg_sleep(0.1);
        END LOOP;
        IF first_time AND others IS NOT NULL THEN
            RAISE EXCEPTION 'others are connected to this database: %; stop every api and reconciler, end all other sessions, distribute, and start them again', others
                USING ERRCODE = 'object_in_use';
        END IF;
        EXIT WHEN look = 2;

        -- One transaction for all, over one connection to each worker.
        SET LOCAL citus.multi_shard_modify_mode TO 'sequential';
        -- Guards are triggers. They look at their own row and at nothing else, so it does not matter where the row lies.
        SET LOCAL citus.enable_unsafe_triggers TO on;

        -- Citus has noted api_keys as soon as tenants is copied, for its foreign key; only then it is copied, too.
        FOREACH it IN ARRAY ARRAY['tenants', 'api_keys'] LOOP
            IF NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = it::regclass AND repmodel = 't') THEN
                PERFORM create_reference_table(it);
            END IF;
        END LOOP;
        -- All rows of a tenant are on one worker: the shards are colocated. The copy writes rows in any state, and guards take new rows only in their first. So guards go
        -- first, and come back when all is copied; nobody else sees the tables without them. Nor would they let the coordinator's own copy of the rows be removed.
        FOREACH it IN ARRAY ARRAY['idempotency_keys', 'idempotency_key_events', 'idempotency_key_tombstones', 'payments', 'refunds'] LOOP
            IF NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = it::regclass) THEN
                FOR guard IN SELECT t.tgname, pg_get_triggerdef(t.oid) AS definition FROM pg_trigger AS t WHERE t.tgrelid = it::regclass AND NOT t.tgisinternal LOOP
                    guards := guards || guard.definition;
                    EXECUTE format('DROP TRIGGER %I ON %I', guard.tgname, it);
                END LOOP;
                PERFORM create_distributed_table(it, 'tenant_id', colocate_with => CASE it WHEN 'idempotency_keys' THEN 'none' ELSE 'idempotency_keys' END);
                spread := spread || it::regclass;
            END IF;
        END LOOP;
        FOREACH it IN ARRAY spread LOOP
            PERFORM truncate_local_data_after_distributing_table(it);
        END LOOP;
        FOREACH it IN ARRAY guards LOOP
            EXECUTE it;
        END LOOP;
    END LOOP;
END $$;
