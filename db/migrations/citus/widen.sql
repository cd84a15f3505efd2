-- Tells what gives a role, on tables that Citus has spread or copied, the rights that the role's file has just given it on the coordinator. Citus hands on
-- rights on whole tables only: who may write some columns of a table gets to write all. What must not change is then held by the guards alone.

SELECT format('GRANT %s ON %s TO %I', string_agg(DISTINCT a.privilege_type, ', '), c.oid::regclass, $1::text)
FROM pg_dist_partition AS p JOIN pg_class AS c ON c.oid = p.logicalrelid
CROSS JOIN LATERAL (SELECT c.relacl AS acl UNION ALL SELECT f.attacl FROM pg_attribute AS f WHERE f.attrelid = c.oid AND f.attacl IS NOT NULL) AS rights
CROSS JOIN LATERAL aclexplode(rights.acl) AS a
WHERE c.relnamespace = current_schema()::regnamespace AND a.grantee = (SELECT oid FROM pg_roles WHERE rolname = $1)
GROUP BY c.oid
UNION ALL
-- PostgreSQL numbers the rows of an identity column with nobody's rights. Citus asks the sequence with those of who inserts.
SELECT format('GRANT USAGE ON SEQUENCE %s TO %I', s.oid::regclass, $1::text)
FROM pg_dist_partition AS p JOIN pg_depend AS d ON d.refobjid = p.logicalrelid AND d.deptype = 'i' JOIN pg_class AS s ON s.oid = d.objid AND s.relkind = 'S'
WHERE s.relnamespace = current_schema()::regnamespace
