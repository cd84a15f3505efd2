package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/go-json-experiment/json"

	"payonce/lab/invariants"
	"payonce/lab/program"
	"payonce/lab/world"
	"payonce/test/httpproxy"
)

// caseKind is for what a cell expects beside the invariants.
const caseKind = "case"

// watch has each request to move money looked at when it arrives at the PSP: was it reserved?
func (s *stage) watch() (*invariants.Reservations, error) {
	r, err := invariants.WatchReservations(s.ctx, s.w.URL)
	if err != nil {
		return nil, err
	}
	s.arrivals.Store(func(c httpproxy.Call) { s.planned.Watch(s.ctx, r, c) })
	s.closers = append(s.closers, func() error {
		r.Close()
		return nil
	})
	return r, nil
}

// evidence is where the invariants look.
func (s *stage) evidence(r *invariants.Reservations) invariants.Evidence {
	e := invariants.Evidence{
		GracePeriod: world.GracePeriod, Retention: world.Retention,
		DB: s.w.DB, PSP: "http://" + s.w.PSP.Address, Stripe: s.w.Stripe(),
		History: s.history.Operations(), Reservations: r,
		APIs:      []string{"http://" + s.serving().Address},
		APIKeys:   map[string]string{"acme": s.w.Keys.Acme, "globex": s.w.Keys.Globex},
		Operators: []string{"http://" + s.serving().Operator}, OperatorKey: s.w.Keys.Operator,
		Limited: s.w.Keys.Limited,
	}
	// A program for each cell would take longer than it tells. Stripe has a statement only of a day that is over.
	if s.row.script != nil && !s.atStripe() {
		e.Statement = s.w.Statement
	}
	return e
}

// judge waits for quiet, and holds the world against the invariants and against what the cell expects.
func (s *stage) judge(r *invariants.Reservations) []program.Violation {
	for _, wait := range []func() error{s.untilToldOf, s.untilIdle} {
		if err := wait(); err != nil {
			return []program.Violation{verdictOn(err)}
		}
	}
	e := s.evidence(r)
	if err := invariants.Quiet(s.ctx, e); err != nil {
		return []program.Violation{program.Broken("I2", "", err.Error())}
	}
	// The cell comes first. The invariants ask for the statement of the day, and that is evidence: once the grace
	// period is over, it decides a key that nothing else could.
	var all []program.Violation
	var found []invariants.Violation
	var err error
	w := s.row.wants(s.fault)
	for _, err := range []error{s.checkPosts(w), s.checkReplayed(w), s.checkBeside(w.check)} {
		if err != nil {
			all = append(all, program.Broken(caseKind, s.asked.key(), err.Error()))
		}
	}
	if s.merchants != nil {
		err = s.merchants.ReadToEnd(s.ctx)
		e.Merchants = s.merchants.Heard()
	}
	if err == nil {
		found, err = invariants.Check(s.ctx, e)
	}
	if err != nil {
		return append(all, program.Broken(caseKind, "", "the invariants could not be checked: "+err.Error()))
	}
	for _, v := range found {
		all = append(all, program.Broken(v.Invariant, v.Key, v.Detail))
	}
	if err := s.checkBeside(w.last); err != nil {
		all = append(all, program.Broken(caseKind, s.asked.key(), err.Error()))
	}
	return all
}

// untilToldOf waits until the PSP has told of all that it has done: before that, it is quiet for a moment only.
func (s *stage) untilToldOf() error {
	if world.AwaitTold(s.ctx, s.w.PSP.Address); s.ctx.Err() != nil {
		return &stuckError{what: "the end of the PSP's webhooks", cause: context.Cause(s.ctx)}
	}
	return nil
}

// untilIdle waits for jobs, too, that are to be run again later: of a worker that was given up, for example.
func (s *stage) untilIdle() error {
	return s.untilHolds("the end of all jobs", `SELECT NOT EXISTS (SELECT FROM river_job
		WHERE kind IN ('webhook', 'resolve', 'evidence') AND state NOT IN ('completed', 'discarded', 'cancelled'))`)
}

func (s *stage) checkBeside(check func(*stage) error) error {
	if check == nil {
		return nil
	}
	return check(s)
}

// checkPosts counts what the PSP has got under the key of the generation that is there now.
func (s *stage) checkPosts(w want) error {
	if s.atStripe() {
		return s.checkExecutions(w)
	}
	key := s.asked.key()
	generation, err := s.count("SELECT coalesce(max(generation), 1) FROM idempotency_keys WHERE key = $1", key)
	if err != nil {
		return err
	}
	if generation > 1 {
		key = fmt.Sprintf("%s.g%d", key, generation)
	}
	a, err := s.client.Do(s.ctx, s.w.PSP.Address,
		world.Request{Method: "GET", Path: "/_requests?account=acme&idempotencyKey=" + key})
	if err != nil {
		return err
	}
	var calls struct {
		Posts int `json:"posts"`
	}
	if err := json.Unmarshal(a.Body, &calls); err != nil {
		return fmt.Errorf("read the PSP's calls: %w", err)
	}
	if calls.Posts < w.posts[0] || calls.Posts > w.posts[1] {
		return &caseError{fmt.Sprintf("the PSP was asked to move money %d to %d times under %s: it was %d times",
			w.posts[0], w.posts[1], key, calls.Posts)}
	}
	return nil
}

func (s *stage) checkReplayed(w want) error {
	if w.replayed == "" {
		return nil
	}
	first, any := s.firstFinal()
	if !any {
		return &caseError{"the client has a final answer"}
	}
	if got := first.Header.Get("Idempotent-Replayed"); got != w.replayed {
		return &caseError{fmt.Sprintf("the first final answer says Idempotent-Replayed: %s; it says %s", w.replayed,
			got)}
	}
	return nil
}

// verdictOn names what went wrong while a cell was played. A wait that has come to its bound is a breach of I2.
func verdictOn(err error) program.Violation {
	var stuck *stuckError
	if errors.As(err, &stuck) || errors.Is(err, context.DeadlineExceeded) {
		return program.Broken("I2", "", err.Error())
	}
	return program.Broken(caseKind, "", err.Error())
}

// lookLimit bounds looking at a world that has failed.
const lookLimit = 5 * time.Second

// remains is what the database says of a failed cell.
const remains = `SELECT coalesce(jsonb_pretty(jsonb_build_object(
	'keys', (SELECT jsonb_agg(to_jsonb(k) - 'fingerprint' - 'response_body') FROM idempotency_keys AS k),
	'timeline', (SELECT jsonb_agg(to_jsonb(e) ORDER BY e.id) FROM idempotency_key_events AS e),
	'payments', (SELECT jsonb_agg(to_jsonb(p)) FROM payments AS p),
	'refunds', (SELECT jsonb_agg(to_jsonb(r)) FROM refunds AS r),
	'dead letters', (SELECT jsonb_agg(to_jsonb(d)) FROM dead_letters AS d),
	'decisions', (SELECT jsonb_agg(to_jsonb(a)) FROM operator_actions AS a),
	'webhooks', (SELECT jsonb_agg(to_jsonb(w) - 'body') FROM webhook_events AS w),
	'jobs', (SELECT jsonb_agg(jsonb_build_object('id', j.id, 'kind', j.kind, 'state', j.state, 'attempt', j.attempt, 'args', j.args,
		'attempted_at', j.attempted_at, 'errors', j.errors)) FROM river_job AS j WHERE j.kind NOT IN ('sweep', 'claim', 'scan', 'prune')))), '')`

// keep writes what is left of a failed cell into a directory: its database, its history, the logs of its processes and
// the PSP's ledger. What an earlier run with the same seed has left there goes.
func (s *stage) keep(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), lookLimit)
	defer cancel()
	logs := filepath.Join(dir, "logs")
	var database string
	err := s.w.DB.QueryRow(ctx, remains).Scan(&database)
	return dir, errors.Join(err,
		os.WriteFile(filepath.Join(dir, "database.json"), []byte(database), 0o600),
		s.history.Close(),
		os.WriteFile(filepath.Join(dir, "history.jsonl"), s.recorded.Bytes(), 0o600),
		os.RemoveAll(logs), os.CopyFS(logs, os.DirFS(s.dir())))
}

// dir is where the world keeps its files.
func (s *stage) dir() string { return filepath.Dir(s.w.PSP.Log) }

// state is where the keys stand, in a line.
func (s *stage) state() string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), lookLimit)
	defer cancel()
	var line string
	err := s.w.DB.QueryRow(ctx, `SELECT coalesce(string_agg(format('%s is %s (attempt %s, generation %s)', key, status, attempt, generation), '; '), 'no key')
		FROM idempotency_keys`).Scan(&line)
	if err != nil {
		return fmt.Sprintf("its state could not be read: %v", err)
	}
	return line
}
