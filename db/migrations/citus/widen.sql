-- Returns the GRANT statements that repeat a role's rights on the tables that Citus has distributed or copied. The
-- file of the role has just given these rights on the coordinator. Citus passes on only rights on whole tables: a role
-- that may write some columns gets the right to write all columns. Then only the guards protect the columns that must
-- not change.

SELECT format('GRANT %s ON %s TO %I', string_agg(DISTINCT a.privilege_type, ', '), c.oid::regclass, $1::text)
FROM pg_dist_partition AS p JOIN pg_class AS c ON c.oid = p.logicalrelid
CROSS JOIN LATERAL (
    SELECT c.relacl AS acl
    UNION ALL
    SELECT f.attacl FROM pg_attribute AS f WHERE f.attrelid = c.oid AND f.attacl IS NOT NULL) AS rights
CROSS JOIN LATERAL aclexplode(rights.acl) AS a
WHERE c.relnamespace = current_schema()::regnamespace AND a.grantee = (SELECT oid FROM pg_roles WHERE rolname = $1)
GROUP BY c.oid
UNION ALL
-- For an identity column, PostgreSQL uses the sequence without checking rights. Citus uses it with the rights of the
-- role that inserts.
SELECT format('GRANT USAGE ON SEQUENCE %s TO %I', s.oid::regclass, $1::text)
FROM pg_dist_partition AS p JOIN pg_depend AS d ON d.refobjid = p.logicalrelid AND d.deptype = 'i'
JOIN pg_class AS s ON s.oid = d.objid AND s.relkind = 'S'
WHERE s.relnamespace = current_schema()::regnamespace
