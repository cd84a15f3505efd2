package postgres_test

import (
	"strings"
	"testing"

	"payonce/test/pgtest"
)

// ofTenants are the tables that belong to tenants. The heads of the other tables' files say why those do not.
var ofTenants = []string{"idempotency_keys", "idempotency_key_events", "idempotency_key_tombstones", "payments",
	"refunds"}

// Tables can be spread by tenant only if no key of theirs reaches over tenants.
func TestEveryKeyOfATenantsTableBeginsWithTheTenant(t *testing.T) {
	t.Parallel()
	keys := pgtest.Values[string](t, pgtest.New(t), `
		SELECT c.relname || ' ' || a.attname || ' ' || i.indexrelid::regclass AS key
		FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indrelid JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = i.indkey[0]
		WHERE i.indisunique AND c.relname = ANY ($1)
		UNION ALL
		SELECT c.relname || ' ' || a.attname || ' ' || f.conname
		FROM pg_constraint AS f JOIN pg_class AS c ON c.oid = f.conrelid JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = f.conkey[1]
		WHERE f.contype = 'f' AND c.relname = ANY ($1)`, ofTenants)
	seen := map[string]bool{}
	for _, key := range keys {
		words := strings.Fields(key)
		seen[words[0]] = true
		if words[1] != "tenant_id" {
			t.Errorf("%s of %s begins with %s", words[2], words[0], words[1])
		}
	}
	if len(seen) != len(ofTenants) || len(keys) != 8 { // five primary keys, two unique ones, one foreign one
		t.Errorf("the keys are %q", keys)
	}
}

// An index is used only by comparisons of its own collation: a tenant's id, and an account, must have one everywhere.
func TestTenantsAreComparedInOneWay(t *testing.T) {
	t.Parallel()
	otherwise := pgtest.Values[string](t, pgtest.New(t), `
		SELECT c.relname::text FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid
		WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND a.attcollation <> '"C"'::regcollation
		  AND (a.attname IN ('tenant_id', 'operation', 'psp_account', 'account') OR c.relname = 'tenants' AND a.attname = 'id')`)
	if len(otherwise) > 0 {
		t.Errorf("another collation is in %q", otherwise)
	}
}
