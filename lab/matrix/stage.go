package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"payonce/lab/history"
	"payonce/lab/invariants"
	"payonce/lab/merchant"
	"payonce/lab/world"
	"payonce/test/httpproxy"
)

// stage is where one cell is played: a world, its processes, one client, and what they have come to so far.
type stage struct {
	ctx   context.Context
	row   row
	fault fault

	planned    world.Plan // of the world
	w          *world.World
	api        *world.Process
	reconciler *world.Process
	victim     *world.Process // one of the two
	understudy *world.Process // acts for a victim that is paused
	stops      *stops

	client   *world.Client
	history  *history.Recorder
	recorded bytes.Buffer // its lines
	closers  []func() error

	merchants *merchant.Merchants // who want events; nil: nobody does

	asked      movement      // what the client wants
	deadLetter string        // the dead letter that the row is about
	decision   string        // and what the operator says
	vouched    string        // the PSP's id, where the operator names it
	hangUp     func()        // ends the client's patience with it
	begun      chan struct{} // closed when what begin has sent was answered, or will not be

	arrivals watcher
}

// watcher is told of the calls to the PSP, from when it is there.
type watcher struct {
	mu sync.Mutex
	fn func(httpproxy.Call)
}

// Store begins to watch.
func (w *watcher) Store(fn func(httpproxy.Call)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fn = fn
}

func (w *watcher) arrived(c httpproxy.Call) {
	w.mu.Lock()
	fn := w.fn
	w.mu.Unlock()
	if fn != nil {
		fn(c)
	}
}

// tick is how often the world is asked where there is no event to wait for.
const tick = 50 * time.Millisecond

// until asks again and again. A bound that is passed is a violation of I2: what was accepted has to come to an end.
func (s *stage) until(what string, ask func() (bool, error)) error {
	t := time.NewTicker(tick)
	defer t.Stop()
	var last error
	for {
		ok, err := ask()
		if ok && err == nil {
			return nil
		}
		if err != nil && s.ctx.Err() == nil {
			last = err
		}
		select {
		case <-t.C:
		case <-s.ctx.Done():
			return &stuckError{what: what, last: last, cause: context.Cause(s.ctx)}
		}
	}
}

// stuckError is a wait that has come to its bound.
type stuckError struct {
	what        string
	last, cause error
}

func (e *stuckError) Error() string {
	text := fmt.Sprintf("waited in vain for %s: %v", e.what, e.cause)
	if e.last != nil {
		text += "; at last: " + e.last.Error()
	}
	return text
}

func (e *stuckError) Unwrap() error { return e.cause }

// holds asks the database, past all proxies, whether something is so.
func (s *stage) holds(sql string, args ...any) (bool, error) {
	var so bool
	err := s.w.DB.QueryRow(s.ctx, "SELECT coalesce(("+sql+"), false)", args...).Scan(&so)
	return so, err
}

func (s *stage) untilHolds(what, sql string, args ...any) error {
	return s.until(what, func() (bool, error) { return s.holds(sql, args...) })
}

// count asks the database for a number.
func (s *stage) count(sql string, args ...any) (int, error) {
	var n int
	err := s.w.DB.QueryRow(s.ctx, sql, args...).Scan(&n)
	return n, err
}

// expect reports what the database does not say as expected.
func (s *stage) expect(claim, sql string, args ...any) error {
	so, err := s.holds(sql, args...)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", claim, err)
	case !so:
		return &caseError{claim}
	}
	return nil
}

// caseError is an expectation of one cell that is none of the invariants.
type caseError struct{ claim string }

func (e *caseError) Error() string { return "not so: " + e.claim }

// openStage makes the world of a cell, with one API and no reconciler yet.
func (m *matrix) openStage(ctx context.Context, c cell) (_ *stage, err error) {
	s := &stage{ctx: ctx, hangUp: func() {}, row: c.row, fault: c.fault, client: world.NewClient()}
	s.history = history.New(&s.recorded)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	plan := world.Plan{PSP: c.row.psp, Env: map[string]string{"DB_MAX_CONNS": "8"}, NoWebhooks: c.row.noWebhooks}
	maps.Copy(plan.Env, c.row.env)
	plan.Arrived = s.arrivals.arrived
	if c.row.at.at == inside {
		if s.stops, err = openStops(); err != nil {
			return nil, err
		}
		s.closers = append(s.closers, s.stops.close)
		plan.Programs, plan.Env[stopsVariable] = m.stopping, s.stops.path()
	}
	s.planned = plan
	if s.w, err = m.site.New(ctx, plan); err != nil {
		return nil, err
	}
	s.closers = append(s.closers, s.w.Close)
	if m.settings.Servers.Can(world.EndKeys) {
		if err := invariants.Archive(ctx, s.w.DB); err != nil {
			return nil, err
		}
	}
	if s.api, err = s.w.StartAPI(ctx, "api-1"); err != nil {
		return nil, err
	}
	s.asked = s.payment("key-of-the-case-" + s.w.Name)
	return s, nil
}

func (s *stage) close() error {
	s.client.Close()
	var errs []error
	for i := len(s.closers) - 1; i >= 0; i-- {
		errs = append(errs, s.closers[i]())
	}
	return errors.Join(errs...)
}

// startReconciler starts it, if it does not run yet.
func (s *stage) startReconciler() (err error) {
	if s.reconciler == nil {
		s.reconciler, err = s.w.StartReconciler(s.ctx, "reconciler-1")
	}
	return err
}

// startAgain starts a process that was killed, under its old address.
func (s *stage) startAgain(p *world.Process) error {
	if p.Running() {
		return nil
	}
	return p.Start(s.ctx)
}

// serving is the API that clients reach.
func (s *stage) serving() *world.Process {
	if s.victim == s.api && s.understudy != nil {
		return s.understudy
	}
	return s.api
}

// reconcilers are those that there are.
func (s *stage) reconcilers() []*world.Process {
	var all []*world.Process
	if s.reconciler != nil {
		all = append(all, s.reconciler)
	}
	if s.understudy != nil && s.victim == s.reconciler {
		all = append(all, s.understudy)
	}
	return all
}

// failLookups has the reconciler's questions about single keys fail, until healLookups.
func (s *stage) failLookups(p *world.Process) {
	p.PSP.Choose(func(c httpproxy.Call) httpproxy.Action {
		if c.Name == world.Lookup {
			return httpproxy.FailBefore
		}
		return httpproxy.Pass
	})
}

func (s *stage) healLookups() error {
	for _, p := range s.reconcilers() {
		p.PSP.Choose(nil)
	}
	return nil
}
