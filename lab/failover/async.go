package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/lab/invariants"
	"payonce/lab/program"
	"payonce/lab/world"
)

const (
	// deadLettersLimit bounds the wait for the scan. The end of one that was under way may be lost, too: then the next
	// waits until River's rescuer has taken the first for dead, after two minutes or so.
	deadLettersLimit = 4 * time.Minute
)

// asyncCase loses a primary that does not wait for the standby, a moment after the line between the two was cut: what
// was acknowledged in that moment is gone, reservations of charges among it. This is no way to run Payonce. It shows
// what is left then: no second charge, and a dead letter for each movement that nothing of ours knows any more.
func asyncCase(ctx context.Context, l *lab, o *outcome) (err error) {
	s, err := l.open(ctx, act{name: o.Name})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	_, err = s.failOver(ctx, o, func() error {
		s.standby.Line.Cut()
		return s.crowd.AwaitMore(ctx, l.settings.payments()/10)
	})
	if err != nil {
		return err
	}
	missing, err := s.missing(ctx)
	if err != nil {
		return err
	}
	o.Facts.Tell("acknowledged", "%d payments", len(s.crowd.Acknowledged()))
	o.Facts.Tell("acknowledged and lost", "%d: what this case is about", len(missing))
	if len(missing) == 0 {
		o.broken("nothing was lost, so this shows nothing")
	}
	if err := s.awaitDeadLetters(ctx, o); err != nil {
		return err
	}
	if err := s.payAgain(ctx, o, missing); err != nil {
		return err
	}
	return s.judgeLoss(ctx, o)
}

// awaitDeadLetters waits for the dead letter of each charge that nothing of ours knows.
func (s *stage) awaitDeadLetters(ctx context.Context, o *outcome) error {
	orphans, err := s.orphans(ctx)
	if err != nil {
		return err
	}
	o.Facts.Tell("charges that nothing here knows", "%d", len(orphans))
	began, found := s.crowd.Recorder.Now(), 0
	limited, cancel := context.WithTimeout(ctx, deadLettersLimit)
	defer cancel()
	err = world.Until(limited, askEvery, func() (bool, error) {
		// Behind the record, a finding that holds a key names the key.
		err := s.DB.QueryRow(ctx, `SELECT count(DISTINCT record)
			FROM dead_letters, split_part(finding, ' key ', 1) AS record
			WHERE kind = 'unknown_movement' AND record = ANY($1)`, orphans).Scan(&found)
		return found == len(orphans), err
	})
	if err != nil && ctx.Err() == nil && found < len(orphans) {
		o.broken("%d charges have been forgotten, and %d of them have a dead letter", len(orphans), found)
		return nil
	}
	o.Facts.Tell("dead letters about them", "%d, all within %s of the end of the load", found,
		rounded(s.crowd.Recorder.Now()-began))
	return err
}

// orphans lists what dead letters would say of the charges under no payment's key.
func (s *stage) orphans(ctx context.Context) ([]string, error) {
	ledger, err := invariants.ReadLedger(ctx, s.http(), "http://"+s.PSP.Address)
	if err != nil {
		return nil, err
	}
	var records, keys []string
	for _, c := range ledger.Charges {
		if !c.Executed() {
			continue // a decline has moved nothing, and is no case
		}
		records, keys = append(records, "record "+c.Account+" "+c.ID), append(keys, c.IdempotencyKey)
	}
	rows, err := s.DB.Query(ctx, `SELECT record FROM unnest($1::text[], $2::text[]) AS charge (record, key)
		WHERE NOT EXISTS (SELECT FROM payments p WHERE p.idempotency_key = charge.key)`, records, keys)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// payAgain is what clients do that never heard of the trouble: they send a key again whose payment they know as done.
func (s *stage) payAgain(ctx context.Context, o *outcome, keys []string) error {
	answers := map[int]int{}
	for i, key := range keys {
		a, err := s.crowd.PayAs(ctx, key, s.apis[i%len(s.apis)])
		if err != nil {
			return err
		}
		answers[a.Status]++
	}
	o.Facts.Tell("the lost keys, sent again", "%s", counted(answers))
	limited, cancel := context.WithTimeout(ctx, quietLimit)
	defer cancel()
	if err := invariants.Quiet(limited, s.evidence()); ctx.Err() != nil {
		return err
	}
	return nil // what is not at rest by now is told by judgeLoss
}

// judgeLoss tells what the loss has broken. That nobody is charged twice holds all the same.
func (s *stage) judgeLoss(ctx context.Context, o *outcome) error {
	found, err := invariants.Check(ctx, s.evidence())
	if err != nil {
		return err
	}
	counts, webhooks := map[string]int{}, 0
	for _, v := range found {
		// The work on a webhook can be lost while River's word that it is done is not: that webhook waits for ever, and
		// its age is a metric. What it says is found by the scan.
		if v.Invariant == "I2" && strings.Contains(v.Key, "webhook") {
			webhooks++
			continue
		}
		counts[v.Invariant]++
		if v.Invariant == "I1" || v.Invariant == "I2" {
			o.violations = append(o.violations, program.Broken(v.Invariant, o.Name+" "+v.Key, v.Detail))
		}
	}
	var parts []string
	for name, n := range counts {
		parts = append(parts, fmt.Sprintf("%s %d times", name, n))
	}
	slices.Sort(parts)
	o.Facts.Tell("broken by the loss", "%s", strings.Join(parts, ", "))
	o.Facts.Tell("webhooks not at rest", "%d", webhooks)
	o.Facts.Tell("charged twice", "%d", counts["I1"])
	return nil
}
