package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/lab/invariants"
	"payonce/lab/program"
	"payonce/lab/world"
)

// quietLimit bounds the wait until what was lost is resolved. A job that was running when its process lost the database
// is taken up again after 90 seconds.
const quietLimit = 3 * time.Minute

// syncCase loses a primary whose commits wait for the standby.
func syncCase(ctx context.Context, l *lab, o *outcome) (err error) {
	s, err := l.open(ctx, act{name: o.Name, synchronous: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	lost, err := s.failOver(ctx, o, func() error { return nil })
	if err != nil {
		return err
	}
	o.Facts.Tell("first new payment done", "%s after the kill", rounded(s.crowd.FirstNewAfter(lost)))
	if err := s.rest(ctx, o); err != nil {
		return err
	}
	if err := s.tellMissing(ctx, o); err != nil {
		return err
	}
	return s.judge(ctx, o)
}

// tellMissing allows nothing to be lost that was acknowledged.
func (s *stage) tellMissing(ctx context.Context, o *outcome) error {
	missing, err := s.missing(ctx)
	if err != nil {
		return err
	}
	o.Facts.Tell("acknowledged", "%d payments", len(s.crowd.Acknowledged()))
	o.Facts.Tell("acknowledged and lost", "%d", len(missing))
	for _, key := range missing {
		o.broken("%s was acknowledged, and is lost", key)
	}
	return nil
}

// failOver lets the clients pay, loses the primary, and lets them pay on. before is called when the primary is about
// to be lost. It tells when that was.
func (s *stage) failOver(ctx context.Context, o *outcome, before func() error) (lost time.Duration, err error) {
	n := s.lab.settings.payments()
	s.crowd.Start(ctx)
	if err := s.crowd.AwaitMore(ctx, n); err != nil {
		return 0, fmt.Errorf("before the loss: %w", err)
	}
	if err := before(); err != nil {
		return 0, err
	}
	lost = s.lose()
	if err := s.promote(ctx); err != nil {
		return 0, err
	}
	promoted := s.crowd.Recorder.Now()
	if err := s.crowd.AwaitMore(ctx, n); err != nil {
		return 0, fmt.Errorf("after the failover: %w", err)
	}
	s.crowd.Stop()
	o.Facts.Tell("standby promoted, it says", "%s after the kill", rounded(promoted-lost))
	o.Facts.Tell("answers from the kill on", "%s", counted(s.crowd.AnswersAfter(lost)))
	return lost, nil
}

// rest waits until all is resolved.
func (s *stage) rest(ctx context.Context, o *outcome) error {
	ctx, cancel := context.WithTimeout(ctx, quietLimit)
	defer cancel()
	world.AwaitTold(ctx, s.PSP.Address) // what it could not deliver meanwhile comes now
	if err := invariants.Quiet(ctx, s.evidence()); err != nil {
		o.violations = append(o.violations, program.Broken("I2", o.Name, err.Error()))
		return nil
	}
	episodes, err := invariants.Convergence(ctx, s.evidence())
	if err != nil {
		return err
	}
	median, longest := invariants.MedianAndMax(episodes)
	o.Facts.Tell("unknown, and resolved", "%d, after %s (median) to %s", len(episodes),
		rounded(median), rounded(longest))
	return nil
}

// missing lists the keys that a client knows as acknowledged, and the database not at all.
func (s *stage) missing(ctx context.Context) ([]string, error) {
	rows, err := s.DB.Query(ctx, `SELECT asked FROM unnest($1::text[]) AS asked
		WHERE NOT EXISTS (SELECT FROM idempotency_keys AS k WHERE k.key = asked) ORDER BY 1`, s.crowd.Acknowledged())
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// judge holds the run against all invariants, replays of every key included.
func (s *stage) judge(ctx context.Context, o *outcome) error {
	found, err := invariants.Check(ctx, s.evidence())
	if err != nil {
		return err
	}
	for _, v := range found {
		o.violations = append(o.violations, program.Broken(v.Invariant, o.Name+" "+v.Key, v.Detail))
	}
	if len(found) == 0 {
		o.Facts.Tell("invariants", "I1 to I10 hold; every key was replayed, byte for byte")
	}
	return nil
}

func rounded(d time.Duration) string { return d.Round(10 * time.Millisecond).String() }

// counted tells numbers of answers in words.
func counted(answers map[int]int) string {
	var parts []string
	for _, status := range slices.Sorted(maps.Keys(answers)) {
		what := strconv.Itoa(status)
		if status == 0 {
			what = "unanswered"
		}
		parts = append(parts, fmt.Sprintf("%d × %s", answers[status], what))
	}
	return strings.Join(parts, ", ")
}
