package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5"

	"payonce/lab/history"
	"payonce/lab/invariants"
	"payonce/lab/world"
)

// The bounds of the calm. A job that dies with its reconciler, or that a reconciler has taken without hearing so, is rescued after 90
// seconds, by a rescuer that looks every half minute. A quick run spares reconcilers that, but for crashes of PostgreSQL.
const (
	quietLimit = 150 * time.Second
	againLimit = 45 * time.Second
	againEvery = 250 * time.Millisecond
	lookLimit  = 3 * time.Minute
	sayEvery   = 10 * time.Second
)

// calm waits until nothing moves any more, with an operator at work, asks for each key that has no final answer once more, and waits again.
func (r *trial) calm(ctx context.Context) {
	began := time.Now()
	wait(ctx, world.PSPLandsAt+time.Second/2) // what the PSP has promised to itself is seen by nobody until it lands
	if r.target == naive {
		r.crowd.AskAgain(ctx, r.stage.recorder.Operations(), true)
		return
	}
	r.untilToldOf(ctx)
	r.quiet(ctx, quietLimit, "after the storm")
	r.report.QuietAfter = seconds(time.Since(began))
	r.stage.say(fmt.Sprintf("quiet after %.1fs", r.report.QuietAfter))
	// Some have to be executed only now, and the PSP fails those whose payment method says so. After that, each has its answer.
	r.crowd.AskAgain(ctx, r.stage.recorder.Operations(), false)
	r.untilToldOf(ctx)
	r.quiet(ctx, againLimit, "after everybody has asked again")
	for where, detail := range r.crowd.AskAgain(ctx, r.stage.recorder.Operations(), false) {
		r.report.violate("I2", where, detail)
	}
}

// untilToldOf waits until the PSP has sent the webhooks that it is going to send, or has had its time for that: one that comes later would disturb the
// calm in which everything is judged.
func (r *trial) untilToldOf(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, againLimit)
	defer cancel()
	client := world.NewClient()
	defer client.Close()
	for ctx.Err() == nil {
		var told struct {
			Pending int `json:"pending"`
		}
		a, err := client.Do(ctx, r.stage.world.PSP.Address, world.Request{Method: http.MethodGet, Path: "/_webhooks"})
		if err == nil && json.Unmarshal(a.Body, &told) == nil && a.Status == http.StatusOK && told.Pending == 0 {
			return
		}
		wait(ctx, againEvery)
	}
}

// quiet waits, while the operator closes letters. What he has does not count as moving, so it is over when he has nothing any more.
func (r *trial) quiet(ctx context.Context, limit time.Duration, when string) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var closing sync.WaitGroup
	defer closing.Wait()
	closingUntil, stop := context.WithCancel(ctx)
	defer stop()
	closing.Go(func() { r.crowd.CloseLetters(closingUntil) })
	for emptyBefore := false; ; {
		if err := r.still(ctx); err != nil {
			r.report.violate("I2", when, fmt.Sprintf("it did not become quiet within %s: %v", limit, err))
			return
		}
		open, err := r.openLetters(ctx)
		if err == nil && open == 0 && emptyBefore {
			return
		}
		// Once is not enough: a key whose letter was closed by "retry" moves, and may be back on the desk before anybody looks.
		if emptyBefore = err == nil && open == 0; emptyBefore {
			continue
		}
		wait(ctx, againEvery)
		if ctx.Err() != nil {
			r.report.violate("I2", when, fmt.Sprintf("%d letters could not be closed within %s (%v)", open, limit, err))
			return
		}
	}
}

// still waits until nothing moves, and says from time to time what does.
func (r *trial) still(ctx context.Context) error {
	for {
		looking, cancel := context.WithTimeout(ctx, sayEvery)
		err := invariants.Quiet(looking, r.evidence())
		cancel()
		if err == nil || ctx.Err() != nil || !errors.Is(err, invariants.ErrMoving) {
			return err
		}
		r.stage.say(strings.Join([]string{err.Error(), r.stuckJobs(ctx)}, "; "))
	}
}

func (r *trial) openLetters(ctx context.Context) (n int, err error) {
	return n, r.stage.world.DB.QueryRow(ctx, "SELECT count(*) FROM dead_letters WHERE status = 'open'").Scan(&n)
}

func (r *trial) evidence() invariants.Evidence {
	g := r.stage
	var apis, operators []string
	for _, p := range g.apis {
		apis, operators = append(apis, "http://"+p.Address), append(operators, "http://"+p.Operator)
	}
	return invariants.Evidence{
		SettleWindow: world.SettleWindow, Retention: world.Retention, Statement: g.world.Statement,
		Operators: operators, OperatorKey: g.site.Keys.Operator, Limited: g.site.Keys.Limited,
		DB: g.world.DB, PSP: "http://" + g.world.PSP.Address, History: g.recorder.Operations(), APIs: apis, APIKeys: g.apiKeys(),
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
	r.report.Books = keepBooks(r.settings.plan(), e.History, ledger, listed)
	r.report.Violations = append(r.report.Violations, r.report.Books.violations()...)
	if r.target == naive {
		r.count()
		return nil
	}
	found, err := invariants.Check(ctx, e)
	if err != nil {
		return err
	}
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
		r.report.Violations = append(r.report.Violations, never(r.report.Counts, mustHappen(r.length(), r.without))...)
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
	r.report.Unknown, r.report.ConvergenceMedian, r.report.ConvergenceMax = len(episodes), seconds(median), seconds(slowest)
	for _, of := range []struct{ group, sql string }{
		{"edge", `SELECT from_status || ' → ' || to_status || ' by ' || actor, count(*) FROM idempotency_key_events
			WHERE from_status <> to_status GROUP BY 1`},
		{"edge", `SELECT 'none → in_progress', count(*) FROM idempotency_keys`},
		{"edge", `SELECT 'in_progress → completed by owner', count(*) FROM idempotency_keys AS k WHERE status = 'completed' AND NOT EXISTS (
			SELECT FROM idempotency_key_events AS e WHERE (e.scope, e.key) = (k.scope, k.key) AND e.to_status = 'completed' AND e.from_status <> 'completed')`},
		{"letter", `SELECT kind, count(*) FROM dead_letters GROUP BY 1`},
		{"letter open", `SELECT kind, count(*) FROM dead_letters WHERE status = 'open' GROUP BY 1`},
		{"key", `SELECT status, count(*) FROM idempotency_keys GROUP BY 1`},
	} {
		rows, err := r.stage.world.DB.Query(ctx, of.sql)
		if err != nil {
			return err
		}
		var name string
		var n int
		if _, err := pgx.ForEachRow(rows, []any{&name, &n}, func() error { r.stage.tally.Add(of.group, name, n); return nil }); err != nil {
			return err
		}
	}
	r.report.Keys = r.stage.tally.Sum("key")
	return nil
}

// listed are the PSP's ids of the charges that the server knows as succeeded, by its own books.
func (r *trial) listed(ctx context.Context) (map[string]bool, error) {
	sql := "SELECT psp_charge_id FROM payments WHERE status = 'succeeded'"
	if r.target == naive {
		sql = "SELECT psp_charge_id FROM naive.payments WHERE status = 'succeeded'"
	}
	rows, err := r.stage.world.DB.Query(ctx, sql)
	if err != nil {
		return nil, err
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	listed := map[string]bool{}
	for _, id := range ids {
		listed[id] = true
	}
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

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
