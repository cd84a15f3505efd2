package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"payonce/lab/invariants"
	"payonce/lab/program"
	"payonce/lab/world"
	"payonce/test/httpproxy"
)

// awayTimes let a wait for the standby be given up long before an owner would call itself paused: what keeps a charge
// back then is only that its reservation was not acknowledged.
func awayTimes() map[string]string {
	return map[string]string{"LEASE": "12s", "DB_STATEMENT_TIMEOUT": "1s"}
}

// awayCase cuts the line to the standby. A commit waits for it then, and statement_timeout does not end that. Once the
// standby comes back; the second time the primary is lost, and with it what the standby never had.
func awayCase(ctx context.Context, l *lab, o *outcome) (err error) {
	s, err := l.open(ctx, act{name: o.Name, synchronous: true, env: awayTimes()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	s.crowd.Start(ctx)
	if err := s.crowd.AwaitMore(ctx, l.settings.payments()/4); err != nil {
		return err
	}
	s.crowd.Stop()

	first, err := s.withoutStandby(ctx, o, "first")
	if err != nil {
		return err
	}
	s.standby.Line.Reopen()
	back := s.crowd.Recorder.Now()
	if err := s.payUntilCharged(ctx, "after-the-standby-was-back"); err != nil {
		return err
	}
	o.Facts.Tell("standby back: a payment is done", "after %s (PostgreSQL dials every 5s)",
		rounded(s.crowd.Recorder.Now()-back))

	second, err := s.withoutStandby(ctx, o, "second")
	if err != nil {
		return err
	}
	s.lose()
	if err := s.promote(ctx); err != nil {
		return err
	}
	for _, key := range append(first, second...) {
		if err := s.payUntilCharged(ctx, key); err != nil {
			return err
		}
	}
	o.Facts.Tell("after the failover", "each of the %d keys was charged once, when it was sent again", len(first)+len(second))
	if err := s.rest(ctx, o); err != nil {
		return err
	}
	return s.judge(ctx, o)
}

// withoutStandby cuts the line while one payment is charged and not yet written, and asks for new ones and a replay. It
// returns the keys.
func (s *stage) withoutStandby(ctx context.Context, o *outcome, time string) ([]string, error) {
	done := s.crowd.Answered(func(status int) bool { return status == http.StatusCreated })[0]
	const fresh = 6
	first := "charged-when-the-standby-left-" + time
	held := s.apis[0].PSP.On(world.Charge, httpproxy.HoldAfter)
	inFlight := make(chan answered, 1)
	go func() { inFlight <- s.ask(ctx, first, 0) }()
	if err := held.Reached(ctx); err != nil {
		return nil, err
	}
	s.standby.Line.Cut()
	held.Release()
	keys := []string{first}
	for i := range fresh {
		keys = append(keys, fmt.Sprintf("new-without-a-standby-%s-%d", time, i))
	}
	answers := make([]answered, fresh)
	var all sync.WaitGroup
	for i := range fresh {
		all.Go(func() { answers[i] = s.ask(ctx, keys[1+i], i) })
	}
	replay, err := s.crowd.PayAs(ctx, done, s.apis[1])
	if err != nil {
		return nil, err
	}
	all.Wait()
	// What is asked again now can be read, and the failover will undo it.
	if again := s.ask(ctx, keys[1], 0); again.status != http.StatusServiceUnavailable {
		o.broken("a key that was answered 503 was then answered %d, while the standby was away", again.status)
	}
	charged := <-inFlight
	s.tellAway(o, time, charged, answers, replay)
	return keys, s.unasked(ctx, o, keys[1:])
}

func (s *stage) tellAway(o *outcome, time string, charged answered, answers []answered, replay world.Answer) {
	counts, longest := map[int]int{}, charged.took
	for _, a := range answers {
		counts[a.status]++
		longest = max(longest, a.took)
		if a.status != http.StatusServiceUnavailable {
			o.broken("a new payment was answered %d while the standby was away", a.status)
		}
	}
	o.Facts.Tell("standby away, "+time+" time", "new %s; charged before %d; a replay %d; the longest took %s",
		counted(counts), charged.status, replay.Status, rounded(longest))
	if charged.status != http.StatusAccepted || replay.Status != http.StatusCreated {
		o.broken("what was charged is answered %d, want 202; a replay %d, want 201", charged.status, replay.Status)
	}
}

// unasked looks into the PSP's ledger for keys that it should never have heard of.
func (s *stage) unasked(ctx context.Context, o *outcome, keys []string) error {
	ledger, err := invariants.ReadLedger(ctx, s.http(), "http://"+s.PSP.Address)
	if err != nil {
		return err
	}
	for _, c := range ledger.Charges {
		for _, key := range keys {
			if c.IdempotencyKey == key {
				o.violations = append(o.violations, program.Broken("I9", o.Name+" "+key,
					"charged, and only the primary has its reservation"))
			}
		}
	}
	return nil
}

// answered is a status, and how long it took.
type answered struct {
	status int
	took   time.Duration
}

func (s *stage) ask(ctx context.Context, key string, api int) answered {
	began := s.crowd.Recorder.Now()
	a, err := s.crowd.Pay(ctx, 0, s.apis[api%len(s.apis)], key, "pm_ok")
	if err != nil {
		a.Status = 0
	}
	return answered{a.Status, s.crowd.Recorder.Now() - began}
}

// payUntilCharged sends a key again until it is charged.
func (s *stage) payUntilCharged(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, loadLimit)
	defer cancel()
	for try := 0; ; try++ {
		a := s.ask(ctx, key, try)
		if a.status == http.StatusCreated {
			return nil
		}
		if !program.Wait(ctx, retryPause) {
			return fmt.Errorf("%s was answered %d to the end: %w", key, a.status, context.Cause(ctx))
		}
	}
}

func (s *stage) http() *http.Client { return &http.Client{Timeout: stopLimit} }
