-- Distributes the tables over the workers of Citus. `api migrate --distribute` runs it, and then every later
-- `api migrate` runs it again. The first comment of each migration says which kind its tables are. A table that is not
-- named here stays on the coordinator, as River's tables do.

DO $$
DECLARE
    -- The other sessions in this database. Citus' own sessions have a name that begins with citus.
    sessions constant text := $sql$
        SELECT string_agg(format('%s (process %s)', a.usename, a.pid), ', ' ORDER BY a.pid) FROM pg_stat_activity AS a
        WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND a.usename IS NOT NULL
          AND a.application_name NOT ILIKE 'citus%' $sql$;
    first_time boolean;
    others text;
    it text;
    guard record;
    guards text[] := '{}';
    spread regclass[] := '{}';
BEGIN
    -- One run at a time, and not together with changes of rights.
    PERFORM pg_advisory_xact_lock(hashtextextended('payonce roles', 0));
    IF to_regclass('pg_dist_node') IS NOT NULL THEN -- without Citus the next statement would be an error
        SELECT NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'idempotency_keys'::regclass)
        INTO first_time
        FROM pg_dist_node WHERE isactive AND shouldhaveshards AND noderole = 'primary' LIMIT 1;
    END IF;
    IF first_time IS NULL THEN
        RAISE EXCEPTION 'there is nothing to distribute over: the database needs the extension citus, and '
            'workers that citus_add_node has made known'
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;

    -- Other sessions are looked for before the long copy, and again at its end. A process that connected earlier does
    -- not know that each of its pipelines must be a transaction block from now on.
    FOR look IN 1..2 LOOP
        FOR try IN 1..20 LOOP -- a session that has just ended is still listed for a moment
            PERFORM pg_stat_clear_snapshot();
            EXECUTE sessions INTO others;
            EXIT WHEN others IS NULL OR NOT first_time;
            PERFORM pg_sleep(0.1);
        END LOOP;
        IF first_time AND others IS NOT NULL THEN
            RAISE EXCEPTION 'others are connected to this database: %; stop every api and reconciler, end all '
                'other sessions, distribute, and start them again', others USING ERRCODE = 'object_in_use';
        END IF;
        EXIT WHEN look = 2;

        -- All tables are distributed in one transaction, over one connection to each worker.
        SET LOCAL citus.multi_shard_modify_mode TO 'sequential';
        -- The guards are triggers. A guard reads only its own row, so it works on every worker.
        SET LOCAL citus.enable_unsafe_triggers TO on;

        -- When tenants is copied, Citus lists api_keys in pg_dist_partition, too, because of its foreign key. It is not
        -- copied before the second call. So the condition asks for repmodel t, the mark of a reference table.
        FOREACH it IN ARRAY ARRAY['tenants', 'api_keys'] LOOP
            IF NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = it::regclass AND repmodel = 't') THEN
                PERFORM create_reference_table(it);
            END IF;
        END LOOP;
        -- All rows of a tenant are on one worker: the shards are colocated. The copy inserts rows in any status, and a
        -- guard refuses a new row that is not in its first status. A guard would also refuse to truncate the rows on
        -- the coordinator. So the guards are dropped, and created again after the copy. It is one transaction, so no
        -- other session sees the tables without guards.
        FOREACH it IN ARRAY ARRAY[
            'idempotency_keys', 'idempotency_key_events', 'idempotency_key_tombstones', 'payments', 'refunds',
            'disputes', 'events', 'webhook_endpoints', 'event_deliveries'] LOOP
            IF NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = it::regclass) THEN
                FOR guard IN
                    SELECT t.tgname, pg_get_triggerdef(t.oid) AS definition
                    FROM pg_trigger AS t WHERE t.tgrelid = it::regclass AND NOT t.tgisinternal
                LOOP
                    guards := guards || guard.definition;
                    EXECUTE format('DROP TRIGGER %I ON %I', guard.tgname, it);
                END LOOP;
                PERFORM create_distributed_table(it, 'tenant_id',
                    colocate_with => CASE it WHEN 'idempotency_keys' THEN 'none' ELSE 'idempotency_keys' END);
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
