package operator

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"payonce/internal/operator/internal/dbsqlc"
	"payonce/test/pgtest"
)

// A part of a list that cannot have what is asked for is not read. Otherwise the list of the unknown keys would walk
// over all finished ones. It must hold for a plan that does not know the arguments: pgx prepares its statements.
func TestListDoesNotReadAPartThatCannotHaveTheStatus(t *testing.T) {
	t.Parallel()
	o := setup(t)
	const keys, times = "'acme', 'POST /payments', 'k'", "'9999-01-01', " // as the parameters of the query follow
	for name, row := range map[string]struct {
		ask    func(*dbsqlc.Queries)
		args   string
		unread []string // the parts that must not be read
	}{
		"unknown keys": {func(q *dbsqlc.Queries) { _, _ = q.ListKeys(t.Context(), dbsqlc.ListKeysParams{}) },
			"'unknown', NULL, " + times + keys + ", 21, '9999-01-01'", []string{"b", "c"}},
		"completed keys": {func(q *dbsqlc.Queries) { _, _ = q.ListKeys(t.Context(), dbsqlc.ListKeysParams{}) },
			"'completed', NULL, " + times + keys + ", 21, '9999-01-01'", []string{"a", "c"}},
		"expired keys": {func(q *dbsqlc.Queries) { _, _ = q.ListKeys(t.Context(), dbsqlc.ListKeysParams{}) },
			"'expired', NULL, " + times + keys + ", 21, '9999-01-01'", []string{"a", "b"}},
		"webhooks that wait": {func(q *dbsqlc.Queries) {
			_, _ = q.ListWebhooks(t.Context(), dbsqlc.ListWebhooksParams{})
		}, "'waiting', '9999-01-01', '', 21, '9999-01-01'", []string{"b"}},
		"processed webhooks": {func(q *dbsqlc.Queries) {
			_, _ = q.ListWebhooks(t.Context(), dbsqlc.ListWebhooksParams{})
		}, "'resolved', '9999-01-01', '', 21, '9999-01-01'", []string{"a"}},
		"open breaks": {func(q *dbsqlc.Queries) { _, _ = q.ListBreaks(t.Context(), dbsqlc.ListBreaksParams{}) },
			"true, NULL, NULL, 9223372036854775807, 21", []string{"b"}},
		"breaks that are gone": {func(q *dbsqlc.Queries) {
			_, _ = q.ListBreaks(t.Context(), dbsqlc.ListBreaksParams{})
		}, "false, NULL, NULL, 9223372036854775807, 21", []string{"a"}},
	} {
		var heard pgtest.Overheard
		row.ask(dbsqlc.New(&heard))
		plan := o.explain(heard.SQL, "", row.args)
		for _, part := range []string{"a", "b", "c"} {
			scan := regexp.MustCompile(` on (?:idempotency_keys|webhook_events|statement_breaks) ` + part + ` .*`)
			for _, line := range scan.FindAllString(plan, -1) {
				unread := strings.Contains(line, "never executed")
				if want := strings.Contains(strings.Join(row.unread, ""), part); unread != want {
					t.Errorf("%s: part %s is unread: %t, want %t\n%s", name, part, unread, want, plan)
				}
			}
		}
	}
}

// Each part of a list has an index of its own. It names the rows that are in the index: otherwise PostgreSQL could not
// use the index, and would read the whole table.
func TestEachPartOfAListIsReadByItsOwnIndex(t *testing.T) {
	t.Parallel()
	o := setup(t)
	for name, row := range map[string]struct {
		ask     func(*dbsqlc.Queries)
		args    string
		indexes []string
	}{
		"keys": {func(q *dbsqlc.Queries) { _, _ = q.ListKeys(t.Context(), dbsqlc.ListKeysParams{}) },
			"NULL, NULL, '9999-01-01', '', '', '', 21, '9999-01-01'", []string{"idempotency_keys_locked_until",
				"idempotency_keys_reconcile_after", "idempotency_keys_expires_at", "idempotency_keys_delete_after"}},
		"webhooks": {func(q *dbsqlc.Queries) { _, _ = q.ListWebhooks(t.Context(), dbsqlc.ListWebhooksParams{}) },
			"NULL, '9999-01-01', '', 21, '9999-01-01'",
			[]string{"webhook_events_waiting", "webhook_events_processed_at"}},
		"latest keys": {func(q *dbsqlc.Queries) { _, _ = q.LatestKeys(t.Context(), 10) }, "10",
			[]string{"idempotency_keys_locked_until", "idempotency_keys_reconcile_after",
				"idempotency_keys_expires_at"}},
	} {
		var heard pgtest.Overheard
		row.ask(dbsqlc.New(&heard))
		plan := o.explain(heard.SQL, "SET LOCAL enable_seqscan = off", row.args)
		for _, index := range row.indexes {
			if !strings.Contains(plan, index) {
				t.Errorf("%s: %s is not used\n%s", name, index, plan)
			}
		}
	}
}

// explain is the generic plan of a statement as it was carried out.
func (f *fixture) explain(sql, setting, args string) string {
	f.t.Helper()
	tx, err := f.pool.Begin(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	prepare := "SET LOCAL plan_cache_mode = force_generic_plan; " + setting + "; PREPARE list AS " + sql
	pgtest.Exec(f.t, tx, prepare, pgx.QueryExecModeSimpleProtocol)
	lines := pgtest.Values[string](f.t, tx, "EXPLAIN (ANALYZE, TIMING off) EXECUTE list ("+args+")",
		pgx.QueryExecModeSimpleProtocol)
	pgtest.Exec(f.t, tx, "DEALLOCATE list")
	return strings.Join(lines, "\n")
}
