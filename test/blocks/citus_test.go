package blocks

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"payonce/db/migrations/citus"
	"payonce/test/pgtest"
)

// Citus refuses some statements, and answers others in another way. Each statement is executed before and after the
// same rows are distributed. It must return the same rows, and leave the same rows in every table.
func TestEveryStatementAnswersOnCitusAsOnOneServer(t *testing.T) {
	c, url := pgtest.OwnCitus(t)
	onOneServer := answers(t, url, func(s *session) {
		s.elsewhere(read(t, "testdata/begin.sql"))
		s.elsewhere(`CREATE OR REPLACE FUNCTION payonce_now() RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$
			BEGIN RETURN '2026-06-01Z'; END $$`)
		s.grow(5000, s.rows)
		s.elsewhere("ANALYZE")
	})
	if err := pgtest.Distribute(t, c); err != nil {
		t.Fatal(err)
	}
	onCitus := answers(t, url, func(s *session) {
		for _, p := range s.all {
			p.sql = citus.NameTenant(p.sql)
		}
	})
	for name, want := range onOneServer {
		if got := onCitus[name]; got != want {
			t.Errorf("%s: on Citus\n%.1000s\non one server\n%.1000s", name, got, want)
		}
	}
}

// answers executes each statement on a session of its own.
func answers(t *testing.T, url string, arrange func(*session)) map[string]string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	s := &session{t: t, conn: conn, all: generatedStatements(t), rows: 8199,
		forFile: read(t, "../../internal/statement/tables.sql")}
	arrange(s)
	s.prepare()
	tables := s.tables()
	all := map[string]string{}
	for name := range statementsAsked {
		for range 5 { // then PostgreSQL thinks of a plan for any values
			_, _ = s.inTransaction(name, s.call(name, 1))
		}
		for _, n := range []int{1, 32} {
			all[fmt.Sprintf("%s for %d", name, n)] = s.answer(name, n, tables)
		}
	}
	return all
}

// answer is what a statement returns, and what is in the tables after it.
func (s *session) answer(name string, n int, tables []string) string {
	steps := append([]string{s.call(name, n)}, tables...)
	if s.all[statementOf(name)].readsFile() {
		for _, table := range []string{"lines", "absent", "ours", "elsewhere", "strangers"} {
			steps = append(steps, "SELECT t::text FROM statement_"+table+" AS t ORDER BY 1")
		}
	}
	results, err := s.inTransaction(name, steps...)
	if err != nil {
		return err.Error()
	}
	var all strings.Builder
	for _, result := range results {
		for _, row := range result.Rows {
			fmt.Fprintf(&all, "%q\n", row)
		}
	}
	fmt.Fprintln(&all, results[0].CommandTag)
	return all.String()
}

// tables are queries for a digest of each table, without its identity columns: each worker has its own numbers.
func (s *session) tables() (queries []string) {
	for _, row := range s.run(`SELECT format('SELECT %L, count(*), sum(hashtextextended(concat_ws(''|'', %s), 0)::numeric)
			FROM %I', c.relname, string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum), c.relname)
		FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND a.attidentity = ''
		WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace AND c.relname !~ '^(river|goose)'
		GROUP BY c.relname ORDER BY 1`)[0].Rows {
		queries = append(queries, string(row[0]))
	}
	return queries
}
