package main

import (
	"context"
	"net/http"
	"slices"
	"time"

	"payonce/lab/invariants"
	"payonce/lab/world"
)

// quietLimit bounds the wait until what was lost is resolved.
const quietLimit = 3 * time.Minute

// rest waits until all is resolved.
func (s *stage) rest(ctx context.Context) error {
	if err := s.payers.AwaitMore(ctx, s.settings.payments()); err != nil {
		return err
	}
	s.payers.Stop()
	limited, cancel := context.WithTimeout(ctx, quietLimit)
	defer cancel()
	world.AwaitTold(limited, s.PSP.Address)
	if err := invariants.Quiet(limited, s.evidence()); err != nil {
		s.report.broken("I2", "rest", "%v", err)
		return nil
	}
	episodes, err := invariants.Convergence(ctx, s.evidence())
	if err != nil {
		return err
	}
	median, longest := invariants.MedianAndMax(episodes)
	s.report.Facts.Tell("unknown, and resolved", "%d, after %s (median) to %s", len(episodes),
		median.Round(time.Millisecond), longest.Round(time.Millisecond))
	return nil
}

// judge counts what it has cost, and holds the run against all invariants, replays of every key included.
func (s *stage) judge(ctx context.Context) error {
	t := count(s.payers.Recorder.Operations(), s.crash)
	for _, api := range s.apis {
		if t.answers[api.Name] == 0 {
			s.report.broken("case", api.Name, "it has answered nothing, so this shows nothing")
		}
	}
	t.tell(s.report)
	found, err := invariants.Check(ctx, s.evidence())
	if err != nil {
		return err
	}
	for _, v := range found {
		s.report.broken(v.Invariant, v.Key, "%s", v.Detail)
	}
	if len(found) == 0 {
		s.report.Facts.Tell("invariants", "I1 to I10 hold; every key was replayed, byte for byte")
	}
	for _, p := range slices.Clone(s.running) {
		s.stop(p)
	}
	return nil
}

// evidence is what the invariants are judged by. Only what still runs is asked.
func (s *stage) evidence() invariants.Evidence {
	e := invariants.Evidence{
		GracePeriod: world.GracePeriod, Retention: world.Retention, DB: s.DB, PSP: "http://" + s.PSP.Address,
		History: s.payers.Recorder.Operations(), HTTP: &http.Client{Timeout: noticeLimit},
		APIKeys: map[string]string{"acme": s.Keys.Acme, "globex": s.Keys.Globex},
	}
	for _, api := range s.apis {
		if api.Running() {
			e.APIs = append(e.APIs, "http://"+api.Address)
		}
	}
	return e
}
