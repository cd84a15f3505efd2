package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/lab/chaos/plan"
	"payonce/lab/history"
	"payonce/lab/invariants"
	"payonce/lab/world"
)

func (r *trial) evidence() invariants.Evidence {
	g := r.stage
	var apis, operators []string
	for _, p := range g.apis {
		apis, operators = append(apis, "http://"+p.Address), append(operators, "http://"+p.Operator)
	}
	return invariants.Evidence{
		GracePeriod: r.settings.window(), Retention: r.settings.toldRetention(), Statement: g.world.Statement,
		Operators: operators, OperatorKey: g.site.Keys.Operator, Limited: g.site.Keys.Limited,
		Stripe: g.world.Stripe(), Foreign: r.crowd.Foreign(),
		DB: g.world.DB, PSP: "http://" + g.world.PSP.Address, History: g.recorder.Operations(), APIs: apis,
		APIKeys:      g.keys,
		Reservations: g.watched.Load(), HTTP: &http.Client{Timeout: 20 * time.Second},
	}
}

// judge looks at everything that is left.
func (r *trial) judge(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookLimit+r.settings.Duration)
	defer cancel()
	r.stage.say("checking")
	e := r.evidence()
	ledger, err := invariants.ReadLedger(ctx, e.HTTP, e.PSP)
	if err != nil {
		return err
	}
	r.report.Charges, r.report.Refunds = executed(ledger.Charges), executed(ledger.Refunds)
	listed, err := r.listed(ctx)
	if err != nil {
		return err
	}
	strays := map[string]bool{}
	if r.settings.Target == payonce {
		if strays, err = invariants.Strays(ctx, e); err != nil {
			return err
		}
	}
	for _, entry := range slices.Concat(ledger.Charges, ledger.Refunds) {
		r.stage.tally.One("entry", entry.Fault)
		if strays[entry.ID] {
			r.stage.tally.One("entry with a dead letter", entry.Fault)
		}
	}
	r.report.Books = keepBooks(e.History, byTenant(ledger, r.stage.world.Account), listed, strays, r.crowd.Missed())
	r.report.Violations = append(r.report.Violations, r.report.Books.violations()...)
	if r.settings.Target == naive {
		r.count()
		return nil
	}
	if e.Merchants, err = r.heard(ctx); err != nil {
		return err
	}
	found, err := invariants.Check(ctx, e)
	if err != nil {
		return err
	}
	r.stage.say("checked I1 to I11")
	revoked, err := invariants.Revoked(ctx, e, invariants.RevocationLimit)
	if err != nil {
		return err
	}
	for _, v := range append(found, revoked...) {
		r.report.violate(v.Invariant, v.Key, v.Detail)
	}
	if err := r.facts(ctx, e); err != nil {
		return err
	}
	r.count()
	for name, n := range r.report.Counts["forgery taken"] {
		r.report.violate("I5", "webhooks", fmt.Sprintf("%d of disorder %s were taken for genuine", n, name))
	}
	if r.settings.Only == "" {
		must := mustHappen(r.length(), r.settings.stripe(), r.without)
		if r.settings.Servers.Can(world.MoveTenants) {
			must = mustHappenToParts()
		}
		r.report.Violations = append(r.report.Violations, never(r.report.Counts, must)...)
	}
	if len(r.report.Violations) == 0 {
		return nil
	}
	return errors.Join(r.picture(e.History), r.dump(ctx))
}

// facts are the figures that are in the database alone.
func (r *trial) facts(ctx context.Context, e invariants.Evidence) error {
	episodes, err := invariants.Convergence(ctx, e)
	if err != nil {
		return err
	}
	median, slowest := invariants.MedianAndMax(episodes)
	r.report.Unknown, r.report.ConvergenceMedian, r.report.ConvergenceMax = len(episodes), seconds(median),
		seconds(slowest)
	for _, of := range []struct{ group, sql string }{
		{"note", notes("idempotency_key_events")},
		{"note", notes("lab.ended_events")},
		{"edge", edges("idempotency_key_events")},
		{"edge", edges("lab.ended_events")},
		{"edge", `SELECT 'none → in_progress', count(*) FROM idempotency_keys`},
		{"edge", `SELECT 'expired → none by pruner', count(*) FROM lab.ended_keys WHERE ended_by = 'delete'`},
		{"edge", `SELECT 'in_progress → completed by owner', count(*) FROM idempotency_keys AS k WHERE status = 'completed' AND NOT EXISTS (
			SELECT 1 FROM idempotency_key_events AS e WHERE e.tenant_id = k.tenant_id AND e.operation = k.operation AND e.key = k.key AND e.to_status = 'completed' AND e.from_status <> 'completed')`},
		{"dead letter", `SELECT kind, count(*) FROM dead_letters GROUP BY 1`},
		{"kept", `SELECT CASE origin WHEN 'api' THEN 'refund of ours ' ELSE 'refund of theirs ' END || status, count(*) FROM refunds GROUP BY 1`},
		{"kept", `SELECT 'dispute ' || status, count(*) FROM disputes GROUP BY 1`},
		{"dead letter open", `SELECT kind, count(*) FROM dead_letters WHERE status = 'open' GROUP BY 1`},
		{"key", `SELECT status, count(*) FROM idempotency_keys GROUP BY 1`},
	} {
		if !r.settings.Servers.Can(world.EndKeys) && strings.Contains(of.sql, "FROM lab.") {
			continue // nothing has ended
		}
		rows, err := r.stage.world.DB.Query(ctx, of.sql)
		if err != nil {
			return err
		}
		var name string
		var n int
		if _, err := pgx.ForEachRow(rows, []any{&name, &n},
			func() error { r.stage.tally.Add(of.group, name, n); return nil }); err != nil {
			return err
		}
	}
	r.report.Keys = r.stage.tally.Sum("key")
	return errors.Join(r.toldOf(ctx), r.intentFacts(ctx, e))
}

// edges counts the lines of timelines by what they tell.
func edges(table string) string {
	return "SELECT from_status || ' → ' || to_status || ' by ' || actor, count(*) FROM " + table +
		" WHERE from_status <> to_status GROUP BY 1"
}

// listed are the PSP's ids of the charges that the server knows as succeeded, by its own books, with the number of the
// order that each is for.
func (r *trial) listed(ctx context.Context) (map[string]int64, error) {
	sql := "SELECT psp_charge_id, amount_minor FROM payments WHERE status = 'succeeded'"
	if r.settings.Target == naive {
		sql = "SELECT psp_charge_id, amount_cents FROM " + world.OtherSchema + ".payments WHERE response_status = 201"
	}
	rows, err := r.stage.world.DB.Query(ctx, sql)
	if err != nil {
		return nil, err
	}
	listed := map[string]int64{}
	var id string
	var amount int64
	_, err = pgx.ForEachRow(rows, []any{&id, &amount}, func() error {
		listed[id] = plan.NumberOf(amount)
		return nil
	})
	return listed, err
}

// picture draws the first histories that have no order.
func (r *trial) picture(operations []history.Operation) error {
	const enough = 5
	for i, v := range history.Check(operations, 10*time.Second) {
		if i == enough {
			break
		}
		name := filepath.Join(r.stage.keep, fmt.Sprintf("key-%d.html", i+1))
		if v.Visualize(name) != nil {
			if err := os.WriteFile(name+".txt", []byte(v.String()), 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *trial) length() length {
	switch {
	case r.settings.Quick || r.settings.Duration < time.Minute:
		return quickRun
	case r.settings.Duration < 3*time.Minute:
		return normalRun
	}
	return longRun
}

func executed(entries []invariants.Entry) int {
	n := 0
	for _, e := range entries {
		n += one(e.Executed())
	}
	return n
}

// notes counts what owners and lookups have written about a PSP that has cancelled, waits, or does not take a request.
func notes(table string) string {
	return "SELECT actor || ': ' || reason, count(*) FROM " + table + ` WHERE actor IN ('owner', 'lookup')
		AND (reason LIKE 'the PSP has cancelled it%' OR reason LIKE 'the PSP waits: %' OR reason LIKE 'PSP answered %' OR reason LIKE 'the PSP''s object%') GROUP BY 1`
}

// intentFacts counts the PSP's intents by how they have ended, and those whose id was never stored here.
func (r *trial) intentFacts(ctx context.Context, e invariants.Evidence) error {
	all, err := invariants.Intents(ctx, e)
	if err != nil || len(all) == 0 {
		return err
	}
	rows, err := r.stage.world.DB.Query(ctx, "SELECT object_id FROM lab.remembered_objects")
	if err != nil {
		return err
	}
	stored := map[string]bool{}
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return err
		}
		stored[id] = true
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, i := range all {
		r.stage.tally.One("intent", fmt.Sprintf("%s %s", i.Method, i.Status))
		switch {
		case stored[i.ID]:
		case i.Status == "canceled":
			r.stage.tally.One("intent", "never stored, and canceled")
		default:
			r.stage.tally.One("intent", "never stored")
		}
	}
	return nil
}
