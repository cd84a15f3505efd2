package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/lab/world"
)

// play plays a cell up to where everything is over: then it is judged.
func (s *stage) play() error {
	if s.row.script != nil {
		s.victim = s.api
		return s.row.script(s)
	}
	if err := s.row.prepare(s); err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	if err := s.nameVictim(); err != nil {
		return err
	}
	g := s.seize(s.row.at, s.fault)
	if err := s.row.begin(s); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if err := g.reached(s.ctx); err != nil {
		return fmt.Errorf("come to the boundary: %w", err)
	}
	if err := s.strike(g); err != nil {
		return err
	}
	if err := s.awaitBegun(); err != nil {
		return err
	}
	// Everybody may ask as often as they like.
	return s.row.finish(s)
}

// nameVictim picks the process that is held. A reconciler does not run before that: it would have done its work.
func (s *stage) nameVictim() (err error) {
	s.victim = s.api
	if s.row.victim == world.Reconciler {
		if s.reconciler == nil {
			s.reconciler, err = s.w.AddReconciler("reconciler-1")
		}
		s.victim = s.reconciler
	}
	return err
}

// strike does to the victim what the column says, and lets the world go on until the flow has come to its end without
// it.
func (s *stage) strike(g *grip) error {
	switch s.fault {
	case kill:
		s.victim.Kill()
		// What was on its way is lost with the process, on both sides.
		s.victim.DB.Down()
		if err := s.victim.DB.Restore(); err != nil {
			return err
		}
		return s.goOn(s.replaceVictim())
	case late:
		s.victim.Kill()
		if err := s.goOn(s.replaceVictim()); err != nil {
			return err
		}
		g.release()
		return g.landed(s.ctx)
	case pause:
		return s.pause(g)
	case nap:
		return s.nap(g)
	case hangUp:
		return s.leave(g)
	case dbEnds:
		ids, err := g.backends()
		if err != nil {
			return err
		}
		_, err = s.w.DB.Exec(s.ctx, "SELECT pg_terminate_backend(id) FROM unnest($1::int[]) AS id", ids)
		return s.goOnAfterAnswer(err)
	case dbCut, ackLost, pspFail, pspCut, pspHalf, alone: // the proxy has done it
	}
	return s.goOnAfterAnswer(nil)
}

// goOnAfterAnswer is goOn for a victim that lives: a client who is still waiting for it does not ask again.
func (s *stage) goOnAfterAnswer(err error) error {
	if err == nil {
		err = s.awaitBegun()
	}
	return s.goOn(err)
}

// goOn heals what the row has broken on purpose, and waits until its flow has come to its end.
func (s *stage) goOn(err error) error {
	if err != nil {
		return err
	}
	if s.row.heal != nil {
		if err := s.row.heal(s); err != nil {
			return fmt.Errorf("heal: %w", err)
		}
	}
	return s.row.finish(s)
}

// pause stops the victim until somebody else has brought its flow to the end.
func (s *stage) pause(g *grip) error {
	s.victim.Pause()
	defer s.victim.Resume()
	understudy, name := s.w.StartAPI, "api-2"
	if s.victim == s.reconciler {
		understudy, name = s.w.StartReconciler, "reconciler-2"
	}
	if err := s.giveUpWorker(func() (err error) {
		s.understudy, err = understudy(s.ctx, name)
		return err
	}); err != nil {
		return err
	}
	if err := s.goOn(nil); err != nil {
		return err
	}
	s.victim.Resume()
	g.release()
	if err := g.landed(s.ctx); err != nil && !errors.Is(err, s.ctx.Err()) {
		return err
	}
	return nil
}

// nap stops an owner for longer than the third of its lease after which it may not send any more, and not for so long
// that its lease is over.
func (s *stage) nap(g *grip) error {
	s.victim.Pause()
	defer s.victim.Resume()
	if err := s.untilHolds("half the lease",
		"SELECT locked_until <= clock_timestamp() + $2::interval FROM idempotency_keys WHERE key = $1",
		s.asked.key(), world.Lease/2); err != nil {
		return err
	}
	s.victim.Resume()
	g.release()
	if err := s.goOnAfterAnswer(nil); err != nil {
		return err
	}
	return s.expect("the owner that was paused has not sent, and has released the key",
		"SELECT count(*) = 1 FROM idempotency_key_events WHERE key = $1 AND to_status = 'failed_retryable' AND reason = 'owner was paused'", s.asked.key())
}

// leave has the client hang up, and then lets everything go on. Its request is past the point where that could stop
// anything.
func (s *stage) leave(g *grip) error {
	s.hangUp()
	if err := s.awaitBegun(); err != nil {
		return err
	}
	g.release()
	if err := s.untilHolds("the owner's end", "SELECT status = 'completed' FROM idempotency_keys WHERE key = $1",
		s.asked.key()); err != nil {
		return err
	}
	return s.goOn(nil)
}

// ownerFinished: nobody else had to.
func (s *stage) ownerFinished() error {
	return s.expect("the owner has finished what its client did not wait for",
		"SELECT count(*) = 0 FROM idempotency_key_events WHERE key = $1 AND from_status <> to_status", s.asked.key())
}

// replaceVictim starts one that was killed again.
func (s *stage) replaceVictim() error {
	return s.giveUpWorker(func() error { return s.startAgain(s.victim) })
}

// giveUpWorker lets the time pass after which the job queue gives up a worker that it does not hear of, and starts
// another: 15 seconds for the leader, which keeps the schedule, 90 for a job, ten minutes for the scan of a ledger.
// What follows is the queue's own doing. A last job may be taken for the victim while we write, by a statement that was
// on its way: it is looked for once more when the other one runs.
func (s *stage) giveUpWorker(start func() error) error {
	if s.victim != s.reconciler {
		return start()
	}
	// The queue writes many jobs at once, in an order of its own. A job that it has locked ends just now.
	const jobs = `UPDATE river_job SET attempted_at = attempted_at - interval '11 minutes' WHERE id IN (
		SELECT id FROM river_job WHERE state = 'running' AND attempted_at <= $1 FOR UPDATE SKIP LOCKED)`
	var gone time.Time
	err := s.w.DB.QueryRow(s.ctx, `UPDATE river_leader SET elected_at = elected_at - interval '1 minute', expires_at = expires_at - interval '1 minute'
		RETURNING clock_timestamp()`).Scan(&gone)
	if errors.Is(err, pgx.ErrNoRows) { // nobody was elected yet
		err = s.w.DB.QueryRow(s.ctx, "SELECT clock_timestamp()").Scan(&gone)
	}
	if err != nil {
		return err
	}
	gone = gone.Add(straggling)
	for _, do := range []func() error{func() error { return nil }, start} {
		if err := do(); err != nil {
			return err
		}
		if _, err := s.w.DB.Exec(s.ctx, jobs, gone); err != nil {
			return err
		}
	}
	return nil
}

// straggling is how long after its victim's end a statement may still take a job. No other process is ready so soon.
const straggling = 50 * time.Millisecond
