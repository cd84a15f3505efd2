-- What every function of a transaction (citus.go) asks first: the shard of the tenant's keys, which is locked against a
-- move until the end of the transaction, as Citus itself locks a shard for a writer. Without this lock, a payment that
-- is acknowledged during a move would be lost. A move or a split takes all shards of the tenant together, so one lock
-- is enough. If the shard has moved away, 40001 says that nothing was written, and the call is sent again.
--
-- A session that Citus has opened has none of the settings of ours. So the first call sets them for the whole session:
-- it plans once, and by indexes (ADR 0052). To set them for each function would cost every call. A session of a client
-- keeps its own: under force_generic_plan, Citus would pass on no call of it.
--
-- SECURITY DEFINER: only the owner of a table may lock its shards. All names say their schema, because to set
-- search_path costs each call more than the rest of this function does.
CREATE OR REPLACE FUNCTION payonce_shard(keys regclass, tenant text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    shard constant bigint := pg_catalog.get_shard_id_for_distribution_column(keys, tenant);
    nothing boolean;
BEGIN
    IF pg_catalog.current_setting('payonce.plans', true) IS DISTINCT FROM 'yes'
       AND pg_catalog.starts_with(pg_catalog.current_setting('application_name'), 'citus_internal') THEN
        PERFORM pg_catalog.set_config('plan_cache_mode', 'force_generic_plan', false),
                pg_catalog.set_config('enable_seqscan', 'off', false), pg_catalog.set_config('jit', 'off', false),
                pg_catalog.set_config('enable_bitmapscan', 'off', false),
                pg_catalog.set_config('payonce.plans', 'yes', false);
    END IF;
    nothing := pg_catalog.lock_shard_metadata(5, ARRAY[shard]) IS NULL; -- 5 is ShareLock. PERFORM would run a query.
    IF EXISTS (SELECT FROM pg_catalog.pg_dist_placement AS p JOIN pg_catalog.pg_dist_local_group AS l
                   ON l.groupid OPERATOR(pg_catalog.=) p.groupid
               WHERE p.shardid OPERATOR(pg_catalog.=) shard) THEN
        RETURN shard;
    ELSIF EXISTS (SELECT FROM pg_catalog.pg_dist_local_group AS l WHERE l.groupid OPERATOR(pg_catalog.=) 0) THEN
        RAISE EXCEPTION 'Citus has not passed the call on to the worker of the tenant'
            USING ERRCODE = 'feature_not_supported',
                  HINT = 'It passes on no call in a transaction block, or under plan_cache_mode = force_generic_plan.';
    END IF;
    RAISE EXCEPTION 'the tenant has moved to another worker' USING ERRCODE = 'serialization_failure';
END $$;

-- The shards of the tables of tenants: a row for each shard of the keys and each table. A reference table has one
-- shard, which is on every server.
CREATE OR REPLACE FUNCTION payonce_shards() RETURNS TABLE (keys bigint, of_table text, shard bigint)
LANGUAGE sql STABLE AS $$
    SELECT k.shardid, s.logicalrelid::regclass::text, s.shardid
    FROM pg_dist_shard AS k JOIN pg_dist_shard AS s ON s.shardminvalue = k.shardminvalue OR s.shardminvalue IS NULL
    JOIN pg_dist_partition AS p ON p.logicalrelid = s.logicalrelid
    WHERE k.logicalrelid = 'idempotency_keys'::regclass
      AND p.colocationid IN (SELECT o.colocationid FROM pg_dist_partition AS o
                             WHERE o.logicalrelid IN ('idempotency_keys'::regclass, 'tenants'::regclass))
    ORDER BY 1, 2
$$;

-- The text of a statement for one shard: {payments} becomes payments_102042. It is for the shards that a split has made
-- after the last `api migrate`.
CREATE OR REPLACE FUNCTION payonce_on_shard(statement text, shard bigint) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE it record;
BEGIN
    FOR it IN SELECT s.of_table, s.shard FROM payonce_shards() AS s WHERE s.keys = payonce_on_shard.shard
    LOOP
        statement := replace(statement, format('{%s}', it.of_table), format('%s_%s', it.of_table, it.shard));
    END LOOP;
    RETURN statement;
END $$;

-- Returns the GRANT statements that repeat a role's rights on the tables that Citus has distributed or copied. The
-- file of the role has just given these rights on the coordinator. Citus passes on only rights on whole tables: a role
-- that may write some columns gets the right to write all columns. Then only the guards protect the columns that must
-- not change.
CREATE OR REPLACE FUNCTION payonce_wide_grants(of_role text) RETURNS SETOF text LANGUAGE sql STABLE AS $$
    SELECT format('GRANT %s ON %s TO %I', string_agg(DISTINCT a.privilege_type, ', '), c.oid::regclass, of_role)
    FROM pg_dist_partition AS p JOIN pg_class AS c ON c.oid = p.logicalrelid
    CROSS JOIN LATERAL (
        SELECT c.relacl AS acl
        UNION ALL
        SELECT f.attacl FROM pg_attribute AS f WHERE f.attrelid = c.oid AND f.attacl IS NOT NULL) AS rights
    CROSS JOIN LATERAL aclexplode(rights.acl) AS a
    WHERE c.relnamespace = current_schema()::regnamespace
      AND a.grantee = (SELECT oid FROM pg_roles WHERE rolname = of_role)
    GROUP BY c.oid
    UNION ALL
    -- For an identity column, PostgreSQL uses the sequence without checking rights. Citus uses it with the rights of
    -- the role that inserts.
    SELECT format('GRANT USAGE ON SEQUENCE %s TO %I', s.oid::regclass, of_role)
    FROM pg_dist_partition AS p JOIN pg_depend AS d ON d.refobjid = p.logicalrelid AND d.deptype = 'i'
    JOIN pg_class AS s ON s.oid = d.objid AND s.relkind = 'S'
    WHERE s.relnamespace = current_schema()::regnamespace
$$;
