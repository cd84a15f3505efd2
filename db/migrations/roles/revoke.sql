-- Takes everything in the schema from a role, before it gets what it needs, and what is everybody's of the tables that belong to who owns the migrations'
-- own: every role has that, too. Only from where something has been given, and of what the one who migrates may dispose of: other people's views in the
-- schema are theirs, and so is what an extension has made. To take a table is to take its columns, too.

SELECT format('REVOKE ALL ON %s %s FROM %s', CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, c.oid::regclass, who.name)
FROM pg_class AS c, (SELECT oid, quote_ident(rolname) AS name FROM pg_roles WHERE rolname = $1 UNION ALL SELECT 0, 'PUBLIC') AS who
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'v', 'S')
  AND pg_has_role(c.relowner, 'USAGE')
  AND (who.oid <> 0 OR c.relowner = (SELECT relowner FROM pg_class WHERE oid = to_regclass('goose_db_version')))
  AND NOT EXISTS (SELECT FROM pg_depend AS d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
  AND (EXISTS (SELECT FROM aclexplode(c.relacl) AS a WHERE a.grantee = who.oid)
       OR EXISTS (SELECT FROM pg_attribute AS f, aclexplode(f.attacl) AS a WHERE f.attrelid = c.oid AND a.grantee = who.oid))
