-- Returns the statements that take all rights in the schema from a role, before the role gets the rights that it needs.
-- Every role also has the rights of PUBLIC, so PUBLIC loses its rights on the tables of the owner of goose_db_version.
--
-- A statement is returned only where a right was granted, and only for objects of an owner whose rights the current
-- role has. Objects of other owners and of extensions stay as they are. REVOKE on a table also revokes the rights on
-- its columns.

SELECT format('REVOKE ALL ON %s %s FROM %s', CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END,
              c.oid::regclass, who.name)
FROM pg_class AS c,
     (SELECT oid, quote_ident(rolname) AS name FROM pg_roles WHERE rolname = $1 UNION ALL SELECT 0, 'PUBLIC') AS who
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'v', 'S')
  AND pg_has_role(c.relowner, 'USAGE')
  AND (who.oid <> 0 OR c.relowner = (SELECT relowner FROM pg_class WHERE oid = to_regclass('goose_db_version')))
  AND NOT EXISTS (SELECT FROM pg_depend AS d
                  WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
  AND (EXISTS (SELECT FROM aclexplode(c.relacl) AS a WHERE a.grantee = who.oid)
       OR EXISTS (SELECT FROM pg_attribute AS f, aclexplode(f.attacl) AS a
                  WHERE f.attrelid = c.oid AND a.grantee = who.oid))
