-- Creates the roles, and gives them their rights on the database itself. `api roles` runs it as an administrator: a
-- superuser, or a role that may create roles and owns the database. It may run again at any time. It may run in several
-- databases of a server at the same time; they share the roles.

DO $$
DECLARE
    ours  constant text[] := ARRAY['payonce_migrator', 'payonce_api', 'payonce_reconciler'];
    here  constant text := quote_ident(current_schema());
    -- Roles of PostgreSQL that only read how the server is. pg_database_owner stands for the owner of the database,
    -- and the owner is checked below.
    looking constant text[] := ARRAY[
        'pg_database_owner', 'pg_monitor', 'pg_read_all_settings', 'pg_read_all_stats', 'pg_stat_scan_tables'];
    it    record;
    found text;
BEGIN
    -- One run at a time in this database. A run in another database may create the same role: see the exception below.
    PERFORM pg_advisory_xact_lock(hashtextextended('payonce roles', 0));

    FOR it IN SELECT name FROM unnest(ours) AS name WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) LOOP
        BEGIN
            EXECUTE format('CREATE ROLE %I LOGIN', it.name);
        EXCEPTION WHEN duplicate_object OR unique_violation THEN
            NULL; -- a run in another database has created it
        END;
    END LOOP;

    -- An administrator may have created the roles by hand, with memberships. A membership is allowed if it gives no
    -- more rights here, such as a cloud's role for its kind of login. Of PostgreSQL's own roles only those in `looking`
    -- are allowed, because each release may add others.
    SELECT string_agg(r.rolname, ', ' ORDER BY r.rolname) INTO found FROM pg_roles AS r
    WHERE r.rolname = ANY (ours) AND EXISTS (
        SELECT FROM pg_roles AS g -- r itself is one of them
        WHERE pg_has_role(r.oid, g.oid, 'MEMBER')
          AND (g.rolsuper OR g.rolcreaterole OR g.rolcreatedb OR g.rolreplication OR g.rolbypassrls
               OR (g.rolname <> r.rolname AND g.rolname = ANY (ours))
               OR (starts_with(g.rolname, 'pg_') AND g.rolname <> ALL (looking))
               OR (g.oid = (SELECT datdba FROM pg_database WHERE datname = current_database())
                   -- The migrator may own the database: it owns all tables anyway.
                   AND (g.rolname <> r.rolname OR r.rolname <> 'payonce_migrator'))));
    IF found IS NOT NULL THEN
        RAISE EXCEPTION 'more is granted to % than Payonce''s roles may have: look at its attributes and memberships',
            found USING ERRCODE = 'invalid_grant_operation';
    END IF;

    -- The migrator becomes the owner of every table, view, routine and enum of the administrator, and of the role that
    -- has migrated until now. Objects of an extension keep their owner.
    FOR it IN
        WITH former AS (
            SELECT oid FROM pg_roles WHERE rolname = current_user
            UNION SELECT relowner FROM pg_class WHERE oid = to_regclass('goose_db_version')
        ), things AS (
            SELECT 'pg_class'::regclass AS catalog, c.oid, c.relowner AS owner, c.relnamespace AS namespace,
                   CASE c.relkind WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END AS kind, c.oid::regclass::text AS name
            FROM pg_class AS c WHERE c.relkind IN ('r', 'v')
            UNION ALL
            SELECT 'pg_proc'::regclass, p.oid, p.proowner, p.pronamespace, 'ROUTINE', p.oid::regprocedure::text
            FROM pg_proc AS p
            UNION ALL
            SELECT 'pg_type'::regclass, t.oid, t.typowner, t.typnamespace, 'TYPE', t.oid::regtype::text
            FROM pg_type AS t WHERE t.typtype = 'e'
        )
        SELECT t.kind, t.name FROM things AS t
        WHERE t.namespace = current_schema()::regnamespace AND t.owner IN (SELECT oid FROM former)
          AND t.owner <> 'payonce_migrator'::regrole
          AND NOT EXISTS (
              SELECT FROM pg_depend AS d WHERE d.classid = t.catalog AND d.objid = t.oid AND d.deptype = 'e')
          AND to_regclass('goose_db_version') IS NOT NULL
    LOOP
        IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
            GRANT payonce_migrator TO CURRENT_USER; -- only a member of a role can make the role an owner
        END IF;
        -- The new owner must have the right to create objects in the schema.
        EXECUTE format('GRANT CREATE ON SCHEMA %s TO payonce_migrator', here);
        EXECUTE format('ALTER %s %s OWNER TO payonce_migrator', it.kind, it.name);
    END LOOP;

    -- PUBLIC cannot create tables in the schema; since PostgreSQL 15 this is the default. PostgreSQL looks for a
    -- temporary table before it looks for ours, so only the reconciler may create temporary tables: it needs them for
    -- settlement files.
    EXECUTE format('REVOKE CREATE ON SCHEMA %s FROM PUBLIC', here);
    EXECUTE format('GRANT USAGE, CREATE ON SCHEMA %s TO payonce_migrator', here);
    EXECUTE format('GRANT USAGE ON SCHEMA %s TO payonce_api, payonce_reconciler', here);
    -- DatabaseRights in internal/postgres repeats these rights for a copy of the database.
    EXECUTE format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC', current_database());
    EXECUTE format('GRANT CONNECT ON DATABASE %I TO payonce_migrator, payonce_api, payonce_reconciler',
        current_database());
    EXECUTE format('GRANT TEMPORARY ON DATABASE %I TO payonce_reconciler', current_database());

    -- A GRANT or REVOKE without the right to do so is only a warning in PostgreSQL. So the result is checked.
    IF NOT has_schema_privilege('payonce_migrator', current_schema(), 'CREATE')
       OR has_schema_privilege('payonce_api', current_schema(), 'CREATE')
       OR has_database_privilege('payonce_api', current_database(), 'TEMPORARY')
       OR NOT has_database_privilege('payonce_reconciler', current_database(), 'TEMPORARY') THEN
        RAISE EXCEPTION 'the administrator % must own database % and its schema %',
            current_user, current_database(), current_schema() USING ERRCODE = 'insufficient_privilege';
    END IF;
END $$;
