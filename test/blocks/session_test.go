package blocks

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"payonce/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// session is a connection as the processes have it, with all statements prepared, on a database of its own.
type session struct {
	t       *testing.T
	conn    *pgx.Conn
	all     map[string]*prepared
	forFile string // makes the temporary tables for a settlement file
	rows    int    // how many payments there will be
}

func newSession(t *testing.T) *session {
	t.Helper()
	pgtest.NeedsOneServer(t, "it counts the blocks there")
	db := pgtest.Open(t, pgtest.NewURL(t), pgtest.Limits())
	conn, err := db.Pool().Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Release)
	s := &session{t: t, conn: conn.Conn(), all: generatedStatements(t), rows: 100_000,
		forFile: read(t, "../../internal/statement/tables.sql")}
	if testing.Short() {
		s.rows = 20_000
	}
	s.elsewhere(read(t, "testdata/begin.sql"))
	s.prepare()
	return s
}

// prepare prepares each statement, and learns the types of its parameters. Those that read a settlement file are
// prepared when they are executed: their temporary tables last for one transaction.
func (s *session) prepare() {
	s.t.Helper()
	s.run(strings.ReplaceAll(s.forFile, "ON COMMIT DROP", ""))
	for name, p := range s.all {
		s.run(fmt.Sprintf("PREPARE %q AS %s", name, p.sql))
		types := s.run("SELECT unnest(parameter_types) FROM pg_prepared_statements WHERE name = '" + name + "'")
		for _, row := range types[0].Rows {
			p.types = append(p.types, string(row[0]))
		}
		if p.readsFile() {
			s.run(fmt.Sprintf("DEALLOCATE %q", name))
		}
	}
	s.run("DROP TABLE statement_lines, statement_absent, statement_ours, statement_elsewhere, statement_strangers")
}

// warm executes each statement once, as the first requests do. From then on, the session has its generic plan.
func (s *session) warm() {
	s.t.Helper()
	s.run("SET plan_cache_mode = force_generic_plan")
	for name := range statementsAsked {
		_, _, _ = s.execute(name, 1) // some fail where there are no rows
	}
}

// grow adds rows, by their numbers.
func (s *session) grow(from, to int) {
	s.t.Helper()
	s.elsewhere(strings.NewReplacer("$FROM", strconv.Itoa(from), "$TO", strconv.Itoa(to),
		"$ROWS", strconv.Itoa(s.rows)).Replace(read(s.t, "testdata/grow.sql")))
}

// elsewhere runs SQL on another connection: session_replication_role would throw away the plans of this one.
func (s *session) elsewhere(sql string) {
	s.t.Helper()
	conn, err := pgx.ConnectConfig(s.t.Context(), s.conn.Config())
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if _, err := conn.PgConn().Exec(s.t.Context(), sql).ReadAll(); err != nil {
		s.t.Fatal(err)
	}
}

func (s *session) run(sql string) []*pgconn.Result {
	s.t.Helper()
	results, err := s.conn.PgConn().Exec(s.t.Context(), sql).ReadAll()
	if err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
	return results
}

// blocks is how many blocks of tables and indexes this transaction has read so far. EXPLAIN has less: it leaves out
// foreign keys, and the parts of a statement that no other part reads.
const blocks = `SELECT coalesce(sum(pg_stat_get_xact_blocks_fetched(oid)), 0) FROM pg_class
	WHERE relnamespace IN ('public'::regnamespace, pg_my_temp_schema())`

// execute executes a statement for n rows, and undoes it. Rows are those that it returns or changes.
func (s *session) execute(name string, n int) (read, rows int, err error) {
	results, err := s.inTransaction(name, blocks, s.call(name, n), blocks)
	if err != nil {
		return 0, 0, err
	}
	before, done, after := results[0], results[1], results[2]
	rows = int(done.CommandTag.RowsAffected())
	if statementsAsked[name].counts && len(done.Rows) == 1 {
		rows = number(done)
	}
	return number(after) - number(before), rows, nil
}

// explain is the plan of a statement, as it was carried out.
func (s *session) explain(name string, n int) string {
	results, err := s.inTransaction(name, "EXPLAIN (ANALYZE, BUFFERS, TIMING off, SUMMARY off) "+s.call(name, n))
	if err != nil {
		return err.Error()
	}
	var plan []string
	for _, row := range results[0].Rows {
		plan = append(plan, string(row[0]))
	}
	return strings.Join(plan, "\n")
}

func (s *session) inTransaction(name string, steps ...string) ([]*pgconn.Result, error) {
	all := []string{"BEGIN"}
	before := statementsAsked[name].file
	if p := s.all[statementOf(name)]; p.readsFile() {
		all = append(all, "SET LOCAL enable_seqscan = on", s.forFile, before,
			fmt.Sprintf("PREPARE %q AS %s", statementOf(name), p.sql))
		defer s.run(fmt.Sprintf("DEALLOCATE %q", statementOf(name)))
	} else if before != "" {
		all = append(all, before)
	}
	defer s.run("ROLLBACK")
	var results []*pgconn.Result
	// One by one: a SET LOCAL may be passed on to other servers with all that is in the same message.
	for _, step := range append(all, steps...) {
		more, err := s.conn.PgConn().Exec(s.t.Context(), step).ReadAll()
		if err != nil {
			return nil, err
		}
		results = append(results, more...)
	}
	return results[len(results)-len(steps):], nil
}

// call executes a statement with the values that its row gives to its parameters.
func (s *session) call(name string, n int) string {
	var args []string
	p := s.all[statementOf(name)]
	for i, param := range p.params {
		args = append(args, statementsAsked[name].argument(param, p.types[i], n))
	}
	call := fmt.Sprintf("EXECUTE %q", statementOf(name))
	if len(args) > 0 {
		call += "(" + strings.Join(args, ", ") + ")"
	}
	return call
}

func number(r *pgconn.Result) int {
	n, _ := strconv.Atoi(string(r.Rows[0][0]))
	return n
}

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func (p *prepared) readsFile() bool {
	return slices.ContainsFunc([]string{"statement_lines", "statement_absent", "statement_ours", "statement_elsewhere",
		"statement_strangers"},
		func(table string) bool { return strings.Contains(p.sql, table) })
}
