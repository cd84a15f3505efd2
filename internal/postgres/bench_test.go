package postgres_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

func newBench(t *testing.T) *bench {
	t.Helper()
	pgtest.NeedsOneServer(t, "on several, rights are those of whole tables, and more than a statement needs")
	conn := pgtest.Connect(t, pgtest.NewURL(t))
	b := &bench{tx: pgtest.Begin(t, conn), all: statements(t), takes: map[string]string{}}
	if _, err := conn.PgConn().Exec(t.Context(), explains).ReadAll(); err != nil {
		t.Fatal(err)
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
		b.takes[name] = arguments(len(prepared.ParamOIDs))
	}
	return b
}

// arguments are NULLs.
func arguments(n int) string {
	if n == 0 {
		return ""
	}
	return "(NULL" + strings.Repeat(", NULL", n-1) + ")"
}

func TestEveryStatementHasItsRights(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, role := range []postgres.Role{postgres.API, postgres.Reconciler} {
		for name := range b.takes {
			if runs(role, name) && !b.may(t, role, name) {
				t.Errorf("%s may not run %s", role, name)
			}
		}
	}
}

// A table that a later migration adds is nobody's until somebody has said whose. Then it is here no longer.
func TestTablesOfNobodyAreKnown(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	tables := pgtest.Values[string](t, b.tx, `SELECT relname::text FROM pg_class AS c
		WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'v', 'm', 'p', 'f') AND `+ours+` ORDER BY relname`)
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

// bench is a connection of the superuser's, in a transaction, with every statement prepared.
type bench struct {
	tx    pgx.Tx
	all   map[string]string // by name
	takes map[string]string // what EXECUTE is given in parentheses, if anything
}

// may tells whether a role may run a statement.
func (b *bench) may(t *testing.T, role postgres.Role, name string) bool {
	t.Helper()
	statement := fmt.Sprintf("EXPLAIN EXECUTE %q%s", name, b.takes[name])
	return pgtest.Value[bool](t, b.tx, "SELECT pg_temp.may($1, $2)", role, statement)
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
	return all
}

// ours are relations that no extension has made.
const ours = "NOT EXISTS (SELECT FROM pg_depend AS d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')"
