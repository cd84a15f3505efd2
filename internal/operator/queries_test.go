package operator

import (
	"context"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/operator/internal/dbsqlc"
	"payonce/internal/payment"
	"payonce/internal/postgres"
	"payonce/internal/query"
	"payonce/test/pgproxy"
	"payonce/test/pgtest"
)

// rounds has one of the rounds to the database fail, and counts them.
type rounds struct{ seen, lost atomic.Int64 }

func (r *rounds) choose([]string) pgproxy.Action {
	if r.seen.Add(1) == r.lost.Load() {
		return pgproxy.CutBefore
	}
	return pgproxy.Pass
}

// begin counts from now, and has the nth round fail. Without an n, none fails.
func (r *rounds) begin(n int64) {
	r.seen.Store(0)
	r.lost.Store(n)
}

// firstPage reads a list as it is without any filter.
func firstPage[T any](l Listing[T]) func(context.Context) (any, error) {
	return pageOf(l, url.Values{})
}

func pageOf[T any](l Listing[T], values url.Values) func(context.Context) (any, error) {
	return func(ctx context.Context) (any, error) { return l(&query.Query{Values: values})(ctx) }
}

// lateness is what two readings of the same may say differently.
var lateness = regexp.MustCompile(`Seconds":\d+`)

// somethingInEachList makes a run, a break, a webhook that waits and a job, and lets the keys' lookups be due.
func (f *fixture) somethingInEachList() {
	f.t.Helper()
	f.exec(`INSERT INTO statement_runs (id, account, day, started_at, status, lines, breaks, pending)
		VALUES (gen_random_uuid(), 'acme', date '2026-11-20', now(), 'complete', 3, 1, 0)`)
	f.exec(`INSERT INTO statement_breaks (account, day, object, kind, psp_id, reference, other_tenant, lines, moved_at,
			first_seen, last_seen, raised_by, seen_by)
		VALUES ('acme', date '2026-11-20', 'charge', 'amount', 'ch_1', '', false, 1, now(), now(), now(),
		        gen_random_uuid(), gen_random_uuid())`)
	f.exec(`INSERT INTO webhook_events (id, sent_at, body) VALUES ('evt_1', now(), '{}')`)
	f.exec(`INSERT INTO river_job (kind, max_attempts, args, state) VALUES ('resolve', 5, '{}', 'available')`)
	f.exec(`UPDATE idempotency_keys SET reconcile_after = clock_timestamp() WHERE status = 'unknown'`)
}

// A read that fails must not look like one that finds nothing, or that finds only a part. So each round of each read
// fails once.
func TestReadThatFailsHasAnErrorOrHasReadAll(t *testing.T) {
	if testing.Short() {
		t.Skip("long: a fault at every read")
	}
	t.Parallel()
	o := setup(t)
	l := o.lostRefund("pm_ok")
	o.refused(decision(l, deadletters.Dismiss), judge.NeedsDecision) // so that there is an audit trail
	o.put(alone(deadletters.UnknownMovement, `{}`))
	o.somethingInEachList()
	charge := payment.ID(scan[uuid.UUID](o, "SELECT id FROM payments"))
	ref := idempotency.StoredRef("acme", payment.CreateOperation, clientKey)
	far, proxy := o.behindProxy()
	selection, _ := SelectionOf(string(deadletters.Dismiss), url.Values{})
	var lost rounds
	proxy.Choose(lost.choose)
	for name, read := range map[string]func(context.Context) (any, error){
		"keys": firstPage(far.Keys), "payments": firstPage(far.Payments), "webhooks": firstPage(far.Webhooks),
		"statements": firstPage(far.Statements), "breaks": firstPage(far.Breaks),
		"dead letters": firstPage(far.DeadLetters),
		"search":       func(ctx context.Context) (any, error) { return far.Find(ctx, clientKey) },
		"search for a payment": func(ctx context.Context) (any, error) {
			return far.Find(ctx, charge.String())
		},
		"keys of a tenant": pageOf(far.Keys, url.Values{"tenant": {"acme"}, "limit": {"1"}}),
		"dead letter":      func(ctx context.Context) (any, error) { return far.Show(ctx, l.ID) },
		"previews":         func(ctx context.Context) (any, error) { return far.Preview(ctx, l.ID) },
		"plan": func(ctx context.Context) (any, error) {
			p, err := far.Plan(ctx, selection)
			previews := make([]Preview, len(p.Steps))
			for i, s := range p.Steps {
				previews[i] = s.Preview
			}
			return previews, err
		},
		"summary": func(ctx context.Context) (any, error) { return far.Summary(ctx) },
		"key":     func(ctx context.Context) (any, error) { return far.ShowKey(ctx, ref) },
		"stamps": func(ctx context.Context) (any, error) {
			stamps, err := far.Stamps(ctx, []idempotency.Ref{ref})
			return stamps[ref], err
		},
		"latest keys": func(ctx context.Context) (any, error) {
			latest, err := far.LatestKeys(ctx, 10)
			return len(latest), err
		},
	} {
		var whole string
		for n := int64(0); ; n++ {
			lost.begin(n)
			value, err := read(t.Context())
			text, unfit := json.Marshal(value, json.Deterministic(true))
			got := lateness.ReplaceAllString(string(text), "")
			switch {
			case n == 0 && err != nil, unfit != nil:
				t.Fatalf("%s: %v, %v", name, err, unfit)
			case n == 0:
				whole = got
			case err == nil && got != whole:
				t.Fatalf("%s: with round %d lost it is %s, want %s", name, n, got, whole)
			}
			if lost.seen.Load() < n {
				break
			}
		}
	}
}

// What is reported as done is stored, and a refusal that is reported is in the audit trail. So each round of a decision
// fails once.
func TestDecisionThatFailsHasAnErrorOrIsStored(t *testing.T) {
	if testing.Short() {
		t.Skip("long: a fault at every step")
	}
	t.Parallel()
	o := setup(t)
	o.pay("pm_ok")
	far, proxy := o.behindProxy()
	var lost rounds
	proxy.Choose(lost.choose)
	for action, wanted := range map[deadletters.Action]OutcomeStatus{
		deadletters.Dismiss: WasDone, deadletters.Executed: WasRefused, deadletters.Answered: "",
	} {
		for n := int64(1); ; n++ {
			l := o.about(deadletters.LookupsExhausted, `{}`)
			l.Finding = l.ID.String()
			o.put(l)
			lost.begin(n)
			closed, err := 0, error(nil)
			var outcome Outcome
			if action == deadletters.Answered {
				closed, err = far.CloseAnswered(t.Context(), 100)
			} else {
				outcome, err = far.Resolve(t.Context(), decision(l, action))
			}
			c := o.show(l.ID)
			switch done := outcome.Did == WasDone; {
			case err == nil && (done || closed == 1) != (c.Resolution != nil),
				err == nil && len(c.AuditTrail) != 1,
				err == nil && outcome.Did != wanted:
				t.Errorf("%s: with round %d lost it is %s, %d closed; the case is %+v", action, n, outcome.Did, closed, c)
			}
			if lost.seen.Load() < n {
				break
			}
			o.exec(`UPDATE dead_letters SET status = 'resolved', version = 2, resolved_at = now(), action = 'dismiss',
				actor = 'ann', resolution_reason = 'first' WHERE status = 'open'`)
		}
	}
}

// Of each decision of a plan it is known that it was carried out, or it is said that nobody knows. So each round fails
// once.
func TestPlanWhoseStoreFailsSaysWhatIsNotKnown(t *testing.T) {
	if testing.Short() {
		t.Skip("long: a fault at every read")
	}
	t.Parallel()
	o := setup(t)
	far, proxy := o.behindProxy()
	var lost rounds
	proxy.Choose(lost.choose)
	for n := int64(1); ; n++ {
		l := o.put(alone(deadletters.UnknownMovement, `{}`))
		p := o.plan(deadletters.Dismiss, "")
		lost.begin(n)
		ran, err := far.Run(t.Context(), p.Token, "a reason", annActor)
		done := o.show(l.ID).Resolution != nil
		switch {
		case postgres.Unavailable(err) && !done: // and not a plan that is old
		case err != nil, len(ran.Outcomes) != len(p.Steps):
			t.Errorf("with round %d lost, %d of %d are carried out, %v", n, len(ran.Outcomes), len(p.Steps), err)
		case ran.Outcomes[0].Did != WasUnknown && (ran.Outcomes[0].Did != WasDone || !done):
			t.Errorf("with round %d lost it is %s, and done is %t", n, ran.Outcomes[0].Did, done)
		}
		if lost.seen.Load() < n {
			return
		}
		if p = o.plan(deadletters.Dismiss, ""); len(p.Steps) > 0 {
			o.run(p)
		}
	}
}

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
