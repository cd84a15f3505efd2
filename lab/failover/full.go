package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"payonce/lab/payers"
	"payonce/lab/world"
	"payonce/test/httpproxy"
)

// smallServer keeps its log short, on a disk that is small.
func smallServer() map[string]string {
	return map[string]string{"max_wal_size": "64MB", "min_wal_size": "32MB", "shared_buffers": "32MB"}
}

// fullCase fills the disk of PostgreSQL under payments whose charges are under way, and makes room again. First the
// tables cannot grow: the server refuses. Then its log cannot either: the server stops itself, and needs somebody to
// start it, once there is room. The programs are not started again.
func fullCase(ctx context.Context, l *lab, o *outcome) (err error) {
	s, small, err := l.openOnDisk(ctx, o.Name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(), small.unmount()) }()
	s.crowd.Start(ctx)
	if err := s.crowd.AwaitMore(ctx, l.settings.payments()/4); err != nil {
		return err
	}
	s.crowd.Stop()
	done := s.crowd.Answered(payers.Final)[0]

	if err := s.inFlight(ctx, o, "disk", small.fill); err != nil {
		return err
	}
	if err := s.whileFull(ctx, o, done); err != nil {
		return err
	}
	if err := s.sayReady(ctx, o, "disk full: /readyz", http.StatusServiceUnavailable); err != nil {
		return err
	}
	if err := small.clear(); err != nil {
		return err
	}
	if err := s.sayReady(ctx, o, "room again: /readyz", http.StatusOK); err != nil {
		return err
	}
	room := s.crowd.Recorder.Now()
	if err := s.payUntilCharged(ctx, "first-with-room-again"); err != nil {
		return err
	}
	o.Facts.Tell("ready again: a payment is done", "after %s", rounded(s.crowd.Recorder.Now()-room))
	if err := s.logFull(ctx, o, small); err != nil {
		return err
	}
	if err := s.rest(ctx, o); err != nil {
		return err
	}
	return s.judge(ctx, o)
}

// openOnDisk is open without a standby, and with PostgreSQL's data on a small disk.
func (l *lab) openOnDisk(ctx context.Context, name string) (_ *stage, _ *disk, err error) {
	dir := filepath.Join(l.dir, kept, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, nil, err
	}
	small, err := mountDisk(filepath.Join(l.dir, "disk"))
	if err != nil {
		return nil, nil, err
	}
	s := &stage{lab: l}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close(), small.unmount())
		}
	}()
	// Where the site keeps its server.
	if err := os.Symlink(small.dir, filepath.Join(dir, "postgres")); err != nil {
		return nil, nil, err
	}
	if s.site, err = world.Open(ctx, world.Options{Programs: l.programs, Dir: dir, Say: l.say,
		Settings: smallServer()}); err != nil {
		return nil, nil, err
	}
	if err := l.askVersion(ctx, s.site.URL("postgres")); err != nil {
		return nil, nil, err
	}
	if s.World, err = s.site.New(ctx, world.Plan{NoWebhooks: l.settings.Quick}); err != nil {
		return nil, nil, err
	}
	return s, small, s.startPrograms(ctx, payers.Options{})
}

// inFlight has something filled while some payments are charged and not yet written.
func (s *stage) inFlight(ctx context.Context, o *outcome, what string, fill func() error) error {
	const payments = 4
	var held []*httpproxy.Event
	for range payments {
		held = append(held, s.apis[0].PSP.On(world.Charge, httpproxy.HoldAfter))
	}
	answers := make([]answered, payments)
	var all sync.WaitGroup
	for i := range payments {
		all.Go(func() { answers[i] = s.ask(ctx, fmt.Sprintf("charged-when-the-%s-was-full-%d", what, i), 0) })
	}
	for _, h := range held {
		if err := h.Reached(ctx); err != nil {
			return err
		}
	}
	err := fill()
	for _, h := range held {
		h.Release()
	}
	all.Wait()
	counts := map[int]int{}
	for _, a := range answers {
		counts[a.status]++
		if a.status != http.StatusCreated && a.status != http.StatusAccepted {
			o.broken("a payment that was charged when the %s filled up is answered %d", what, a.status)
		}
	}
	o.Facts.Tell(what+" full: what was charged", "%s", counted(counts))
	return err
}

// whileFull pays until the pages that there are have no room left, and then some.
func (s *stage) whileFull(ctx context.Context, o *outcome, done string) error {
	const most, refused = 5000, 30
	counts, tried, longest := map[int]int{}, 0, time.Duration(0)
	var keys []string
	for len(keys) < refused {
		if tried++; tried > most {
			o.broken("%d payments fit on a full disk: %s", most, counted(counts))
			return nil
		}
		key := fmt.Sprintf("paid-on-a-full-disk-%05d", tried)
		a := s.ask(ctx, key, tried)
		counts[a.status]++
		longest = max(longest, a.took)
		if a.status == http.StatusServiceUnavailable {
			keys = append(keys, key)
		}
	}
	replay, err := s.crowd.PayAs(ctx, done, s.apis[1])
	if err != nil {
		return err
	}
	o.Facts.Tell("disk full: new payments", "%s; the longest took %s", counted(counts), rounded(longest))
	o.Facts.Tell("disk full: a replay", "%d", replay.Status)
	if !payers.Final(replay.Status) {
		o.broken("a replay is answered %d while the disk is full", replay.Status)
	}
	return s.unasked(ctx, o, keys)
}

// fillLog fills the disk, and has PostgreSQL begin new files of its log until it cannot.
func (s *stage) fillLog(ctx context.Context, small *disk) error {
	if err := small.fill(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, quietLimit)
	defer cancel()
	err := world.Until(ctx, askEvery, func() (bool, error) {
		_, err := s.DB.Exec(ctx,
			"SELECT pg_logical_emit_message(false, 'filler', repeat('x', 1000000)), pg_switch_wal()")
		return err != nil, nil
	})
	if err != nil {
		return fmt.Errorf("fill the log: %w", err)
	}
	return nil
}

// logFull fills the log under payments whose charges are under way, and makes room again.
func (s *stage) logFull(ctx context.Context, o *outcome, small *disk) error {
	if err := s.inFlight(ctx, o, "log", func() error { return s.fillLog(ctx, small) }); err != nil {
		return err
	}
	a := s.ask(ctx, "paid-on-a-full-log-000", 0)
	o.Facts.Tell("log full: a new payment", "%d, after %s", a.status, rounded(a.took))
	if a.status != http.StatusServiceUnavailable {
		o.broken("a payment is answered %d while the log is full", a.status)
	}
	if err := s.unasked(ctx, o, []string{"paid-on-a-full-log-000"}); err != nil {
		return err
	}
	if err := small.clear(); err != nil {
		return err
	}
	// It has ended by itself, or is about to start again by itself; this is what an operator would do in either case.
	if err := s.site.CrashPostgres(ctx); err != nil {
		return err
	}
	started := s.crowd.Recorder.Now()
	if err := s.payUntilCharged(ctx, "paid-on-a-full-log-000"); err != nil {
		return err
	}
	o.Facts.Tell("PostgreSQL started again", "a payment is done after %s", rounded(s.crowd.Recorder.Now()-started))
	return nil
}

// readyLimit is how long a program may take to find out that the disk is full, or that it is not. It asks every five
// seconds.
const readyLimit = 30 * time.Second

// sayReady waits until every program says at /readyz what is wanted. Nobody pays meanwhile: a program that a load
// balancer has taken out must find out by itself when it is ready again.
func (s *stage) sayReady(ctx context.Context, o *outcome, what string, want int) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	began := s.crowd.Recorder.Now()
	for _, p := range append(s.apis, s.reconcilers...) {
		said := ""
		err := world.Until(ctx, askEvery, func() (bool, error) {
			a, err := s.crowd.HTTP.Do(ctx, p.Operator, world.Request{Method: http.MethodGet, Path: "/readyz"})
			said = string(a.Body)
			return err == nil && a.Status == want, nil
		})
		if err != nil {
			o.broken("%s: %s does not answer %d, but %s", what, p.Name, want, said)
			return nil
		}
	}
	o.Facts.Tell(what, "%d, after %s", want, rounded(s.crowd.Recorder.Now()-began))
	return nil
}
