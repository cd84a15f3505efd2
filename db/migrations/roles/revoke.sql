-- Takes everything in the schema from a role, before it gets what it needs. Only from where something has been given, and of what the one who migrates
-- may dispose of: other people's views in the schema are theirs. To take a table is to take its columns, too.

SELECT format('REVOKE ALL ON %s %s FROM %I', CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, c.oid::regclass, r.rolname)
FROM pg_class AS c, pg_roles AS r
WHERE r.rolname = $1 AND c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'v', 'S')
  AND pg_has_role(c.relowner, 'USAGE')
  AND (EXISTS (SELECT FROM aclexplode(c.relacl) AS a WHERE a.grantee = r.oid)
       OR EXISTS (SELECT FROM pg_attribute AS f, aclexplode(f.attacl) AS a WHERE f.attrelid = c.oid AND a.grantee = r.oid))
