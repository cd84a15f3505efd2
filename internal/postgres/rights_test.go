package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

// What the roles may do is what the statements of their processes need: no statement is without its rights, and no
// right is without its statement. PostgreSQL itself says what a statement needs: EXPLAIN is refused like the statement.

func contains(list []string, s string) bool { return slices.Contains(list, s) }

// bench is a connection of the superuser's, in a transaction, with every statement prepared.
type bench struct {
	tx    pgx.Tx
	all   map[string]string // by name
	takes map[string]string // what EXECUTE is given in parentheses, if anything
}

// explains runs EXPLAIN as a role. A statement that is refused for another reason than a right is a fault of the test.
const explains = `CREATE FUNCTION pg_temp.may(role text, statement text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('role', role, true);
    EXECUTE statement;
    PERFORM set_config('role', 'none', true);
    RETURN true;
EXCEPTION WHEN insufficient_privilege THEN
    RETURN false;
END $$`

func newBench(t *testing.T) *bench {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), pgtest.NewURL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	b := &bench{all: statements(t), takes: map[string]string{}}
	if b.tx, err = conn.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.PgConn().Exec(t.Context(), explains).ReadAll(); err != nil {
		t.Fatal(err)
	}
	if pgtest.OnCitus() {
		// The coordinator alone is asked. A role that is set, and a right that is taken away for a moment, are not for
		// the workers.
		if _, err := b.tx.Exec(t.Context(), "SET LOCAL citus.propagate_set_commands = 'none'"); err != nil {
			t.Fatal(err)
		}
		if _, err := b.tx.Exec(t.Context(), "SET LOCAL citus.enable_ddl_propagation = off"); err != nil {
			t.Fatal(err)
		}
	}
	// Who may make temporary tables may use them.
	run := "SET LOCAL ROLE payonce_reconciler"
	for _, name := range utilities {
		run += ";\n" + b.all[name]
	}
	if _, err := conn.PgConn().Exec(t.Context(), run+"; RESET ROLE").ReadAll(); err != nil {
		t.Fatal(err)
	}
	for name, sql := range b.all {
		if !runs(postgres.API, name) && !runs(postgres.Reconciler, name) {
			continue
		}
		prepared, err := b.tx.Prepare(t.Context(), name, sql)
		if err != nil {
			t.Fatalf("prepare %s: %v", name, err)
		}
		b.takes[name] = b.arguments(t, prepared.ParamOIDs)
	}
	return b
}

// arguments are NULLs. Citus needs the name of a tenant, to find a worker to ask.
func (b *bench) arguments(t *testing.T, types []uint32) string {
	t.Helper()
	var all []string
	for _, oid := range types {
		argument := "NULL"
		if pgtest.OnCitus() {
			var name string
			if err := b.tx.QueryRow(t.Context(), "SELECT format_type($1, NULL)", oid).Scan(&name); err != nil {
				t.Fatal(err)
			}
			if value, ok := ofType[name]; ok {
				argument = "'" + value + "'"
			}
		}
		all = append(all, argument)
	}
	if all == nil {
		return ""
	}
	return "(" + strings.Join(all, ", ") + ")"
}

// may tells whether a role may run a statement.
func (b *bench) may(t *testing.T, role postgres.Role, name string) (ok bool) {
	t.Helper()
	statement := fmt.Sprintf("EXPLAIN EXECUTE %q%s", name, b.takes[name])
	if err := b.tx.QueryRow(t.Context(), "SELECT pg_temp.may($1, $2)", role, statement).Scan(&ok); err != nil {
		t.Fatalf("explain %s as %s: %v", name, role, err)
	}
	return ok
}

func TestEveryStatementHasItsRights(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, list := range [][]string{byNeither, byAPI, byReconciler, ofRiver, utilities} {
		for _, name := range list {
			if _, ok := b.all[name]; !ok {
				t.Errorf("%s is no statement of the program's any more", name)
			}
		}
	}
	for _, role := range []postgres.Role{postgres.API, postgres.Reconciler} {
		for name := range b.takes {
			if runs(role, name) && !b.may(t, role, name) {
				t.Errorf("%s may not run %s", role, name)
			}
		}
	}
}

// right is one that a role has been given, on a table or on one column of it.
type right struct{ Table, Column, Privilege string }

func (r right) String() string {
	if r.Column == "" {
		return r.Privilege + " ON " + r.Table
	}
	return r.Privilege + " (" + r.Column + ") ON " + r.Table
}

func (b *bench) rights(t *testing.T, role postgres.Role) []right {
	t.Helper()
	rows, err := b.tx.Query(t.Context(), `
		SELECT c.relname::text AS "table", '' AS "column", a.privilege_type AS privilege FROM pg_class AS c, aclexplode(c.relacl) AS a
		WHERE c.relnamespace = 'public'::regnamespace AND a.grantee = $1::regrole
		UNION ALL
		SELECT c.relname, f.attname, a.privilege_type FROM pg_class AS c, pg_attribute AS f, aclexplode(f.attacl) AS a
		WHERE c.relnamespace = 'public'::regnamespace AND f.attrelid = c.oid AND a.grantee = $1::regrole`, role)
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByName[right])
	if err != nil || len(all) == 0 {
		t.Fatalf("%s has no rights: %v", role, err)
	}
	if pgtest.OnCitus() {
		// What a role may do to columns of a distributed table, it may do to the whole of it. Who takes that away takes
		// both. The sequence is asked when a line is written, and EXPLAIN writes none.
		given := slices.Clone(all)
		all = slices.DeleteFunc(all, func(r right) bool {
			return r.Column != "" && slices.Contains(given, right{Table: r.Table, Privilege: r.Privilege}) ||
				r.Table == "idempotency_key_events_id_seq"
		})
	}
	return all
}

func TestNoRightIsWithoutItsStatement(t *testing.T) {
	t.Parallel()
	for _, role := range []postgres.Role{postgres.API, postgres.Reconciler} {
		t.Run(string(role), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			for _, r := range b.rights(t, role) {
				// The sequence is asked when a job is inserted, and EXPLAIN inserts none. To rebuild its indexes is no
				// statement of River's list.
				if r.Table != "river_job_id_seq" && r.Privilege != "MAINTAIN" && !b.needs(t, role, r) {
					t.Errorf("%s has %s, and runs no statement that needs it", role, r)
				}
			}
		})
	}
}

// needs tells whether a statement that a role runs fails without a right.
func (b *bench) needs(t *testing.T, role postgres.Role, r right) bool {
	t.Helper()
	nested, err := b.tx.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = nested.Rollback(context.Background()) }()
	revoke := "REVOKE " + r.Privilege
	if r.Column != "" {
		revoke += " (" + pgx.Identifier{r.Column}.Sanitize() + ")"
	}
	if _, err := nested.Exec(t.Context(), revoke+" ON "+r.Table+" FROM "+string(role)); err != nil {
		t.Fatal(err)
	}
	for name := range b.takes {
		if runs(role, name) && strings.Contains(b.all[name], r.Table) && !b.may(t, role, name) {
			return true
		}
	}
	return false
}

// ours are relations that no extension has made. Citus puts views of its own beside our tables.
const ours = "NOT EXISTS (SELECT FROM pg_depend AS d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')"

// A table that a later migration adds is nobody's until somebody has said whose. Then it is here no longer.
func TestTablesOfNobodyAreKnown(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	rows, err := b.tx.Query(t.Context(), `SELECT relname::text FROM pg_class AS c
		WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'v', 'm', 'p', 'f') AND `+ours+` ORDER BY relname`)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	var given []string
	for _, role := range []postgres.Role{postgres.API, postgres.Reconciler} {
		for _, r := range b.rights(t, role) {
			given = append(given, r.Table)
		}
	}
	left := slices.DeleteFunc(tables, func(table string) bool { return contains(given, table) })
	if want := []string{"river_migration", "river_notification"}; !slices.Equal(left, want) {
		t.Errorf("nobody may use %q, want %q: say in db/migrations/roles who may", left, want)
	}
}

// What everybody may, the roles may.
func TestNothingIsEverybodys(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var open []string
	err := b.tx.QueryRow(t.Context(), `SELECT coalesce(array_agg(c.relname::text), '{}') FROM pg_class AS c
		WHERE c.relnamespace = 'public'::regnamespace AND `+ours+` AND (
			EXISTS (SELECT FROM aclexplode(c.relacl) AS a WHERE a.grantee = 0)
			OR EXISTS (SELECT FROM pg_attribute AS f, aclexplode(f.attacl) AS a WHERE f.attrelid = c.oid AND a.grantee = 0))`).Scan(&open)
	if err != nil || len(open) > 0 {
		t.Errorf("everybody has rights on %q: %v", open, err)
	}
	var definers []string
	err = b.tx.QueryRow(t.Context(), `SELECT coalesce(array_agg(proname || ' returns ' || prorettype::regtype), '{}') FROM pg_proc
		WHERE pronamespace = 'public'::regnamespace AND prosecdef`).Scan(&definers)
	if err != nil || len(definers) > 0 {
		t.Errorf("%q run with the rights of their owner: %v", definers, err)
	}
}
