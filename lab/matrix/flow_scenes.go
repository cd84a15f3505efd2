package main

import (
	"errors"
	"path"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/lab/world"
	"payonce/test/httpproxy"
	"payonce/test/pgproxy"
)

// sceneFlow is what takes more than one boundary and one fault: scenes of their own, beside the grid.
func sceneFlow() flow {
	rows := []row{
		{
			window: 3, step: "a dead owner's release lands behind attempt 2",
			script: (*stage).releaseOfTheDead,
			want: want{posts: [2]int{1, 1}, replayed: "false", check: func(s *stage) error {
				return s.expect("the key was given back once, by the lookup",
					"SELECT count(*) = 1 AND bool_and(actor = 'lookup') FROM idempotency_key_events WHERE key = $1 AND to_status = 'failed_retryable'", s.asked.key())
			}},
		},
		{
			window: 3, step: "charged when long given back: the webhook tells",
			env:    map[string]string{"SCAN_EVERY": "1h", "SCAN_OVERLAP": "2h"},
			script: (*stage).chargeOfTheDead, want: want{posts: [2]int{1, 1}, replayed: "true"},
		},
		{
			window: 3, step: "charged when long given back: the scan finds it",
			noWebhooks: true, script: (*stage).chargeOfTheDead, want: want{posts: [2]int{1, 1}, replayed: "true"},
		},
		{
			window: 1, step: "attempt 2 waits for a lock before it has its lease",
			env:       map[string]string{"LEASE": "12s"}, // a third of it is longer than the wait
			seesLocks: true, script: (*stage).leaseBehindALock, want: want{posts: [2]int{1, 1}, replayed: "false"},
		},
		{
			window: 1, step: "two tenants have the same key",
			script: (*stage).equalKeys, want: want{posts: [2]int{1, 1}, replayed: "false"},
		},
		{
			window: 1, step: "another body under the key",
			script: (*stage).otherBody, want: want{posts: [2]int{1, 1}, replayed: "false"},
		},
		{
			window: 4, step: "the PSP charges another amount than was asked",
			script: (*stage).otherAmount, want: want{posts: [2]int{1, 1}, check: func(s *stage) error {
				return s.expect("an operator has the case",
					"SELECT count(*) = 1 AND bool_and(kind = 'psp_contradicts_request') FROM dead_letters WHERE key = $1 AND status = 'open'", s.asked.key())
			}},
		},
		{
			window: 4, step: "evidence comes again and again, behind a refund",
			script: (*stage).evidenceAgain, want: want{posts: [2]int{1, 1}, replayed: "false"},
		},
		{
			window: 1, step: "one key, and each member in another way: eight mismatches",
			script: (*stage).otherMembers, want: want{posts: [2]int{1, 1}, replayed: "false"},
		},
		{
			window: 4, step: "all currencies, refunds and a decline: all of it is shown",
			script: (*stage).everything, want: want{posts: [2]int{1, 1}, replayed: "false", last: (*stage).revocation},
		},
		{
			window: 3, step: "asked again in flight, with each preference", noWebhooks: true,
			// it is in flight as long as it is held
			env:    map[string]string{"PSP_TIMEOUT": "4s", "LEASE": "12s"},
			script: (*stage).preferences, want: want{posts: [2]int{1, 1}},
		},
		{
			window: 23, step: "an operator lets a wrong amount pass: the statement reports it", env: longWindow(),
			script: (*stage).vouchedAmount, want: want{posts: [2]int{1, 1}, replayed: "true"},
		},
	}
	rows = append(rows, lifeScenes()...)
	rows = append(rows, movedScenes()...)
	return flow{"scene", "scenes", append(rows, groupScenes()...)}
}

// released waits until a key that was lost is free again.
func (s *stage) released() error {
	return s.untilHolds("that the key is given back",
		"SELECT status = 'failed_retryable' FROM idempotency_keys WHERE key = $1", s.asked.key())
}

// dies kills the API that has something on its way, and starts it again.
func (s *stage) dies() error {
	s.api.Kill()
	return errors.Join(s.awaitBegun(), s.startAgain(s.api))
}

// releaseOfTheDead: an owner without a connection to the PSP gives its key back, and dies; that packet comes late.
func (s *stage) releaseOfTheDead() error {
	if err := s.startReconciler(); err != nil {
		return err
	}
	s.api.PSP.Down()
	held := s.api.DB.On("ReleaseKey", pgproxy.HoldBefore)
	if err := s.askInBackground(); err != nil {
		return err
	}
	if err := held.Reached(s.ctx); err != nil {
		return err
	}
	if err := errors.Join(s.dies(), s.api.PSP.Restore(), s.released()); err != nil {
		return err
	}
	sent := s.api.PSP.On(world.Charge, httpproxy.HoldBefore)
	if err := s.askInBackground(); err != nil {
		return err
	}
	if err := sent.Reached(s.ctx); err != nil {
		return err
	}
	held.Release()
	if _, err := held.Landed(s.ctx); err != nil {
		return err
	}
	sent.Release()
	return errors.Join(s.awaitBegun(), s.askUntilFinal())
}

// chargeOfTheDead: an owner dies whose charge is on its way; it arrives when the grace period is long over, and the
// client has not tried again.
func (s *stage) chargeOfTheDead() error {
	if err := s.landTooLate(); err != nil {
		return err
	}
	if err := s.untilHolds("that the charge is noticed",
		"SELECT status = 'completed' FROM idempotency_keys WHERE key = $1", s.asked.key()); err != nil {
		return err
	}
	return s.askUntilFinal()
}

// landTooLate has a charge land when its key is long given back.
func (s *stage) landTooLate() error {
	if err := s.startReconciler(); err != nil {
		return err
	}
	sent := s.api.PSP.On(world.Charge, httpproxy.HoldBefore)
	if err := s.askInBackground(); err != nil {
		return err
	}
	if err := sent.Reached(s.ctx); err != nil {
		return err
	}
	if err := errors.Join(s.dies(), s.released()); err != nil {
		return err
	}
	sent.Release()
	return sent.Landed(s.ctx)
}

// lockWait is how long attempt 2 waits: less than the database's limit for it.
const lockWait = time.Second

// leaseBehindALock: the lease counts from when it is granted, and not from when its transaction began. (Behind somebody
// who has only locked the row, it counts from when the row was found: PostgreSQL computes an update again only when
// the row has changed meanwhile.)
func (s *stage) leaseBehindALock() error {
	s.api.PSP.Down()
	if _, err := s.ask(s.api, s.asked); err != nil {
		return err
	}
	if err := errors.Join(s.api.PSP.Restore(), s.startReconciler()); err != nil {
		return err
	}
	sent := s.api.PSP.On(world.Charge, httpproxy.HoldBefore)
	granted, err := s.waitBehindALock()
	if err != nil {
		return err
	}
	if err := sent.Reached(s.ctx); err != nil {
		return err
	}
	err = s.expect("the lease is whole, counted from when it was granted",
		"SELECT locked_until >= $2::timestamptz + interval '12 seconds' FROM idempotency_keys WHERE key = $1", s.asked.key(), granted)
	sent.Release()
	return errors.Join(err, s.awaitBegun(), s.askUntilFinal())
}

// waitBehindALock has the client ask while somebody else is writing the key's row, and says when that one is done.
func (s *stage) waitBehindALock() (released time.Time, err error) {
	err = pgx.BeginFunc(s.ctx, s.w.DB, func(tx pgx.Tx) error {
		// Nobody writes a key that is free without moving it, so this goes behind the guards.
		if _, err := tx.Exec(s.ctx, "SET LOCAL session_replication_role = replica"); err != nil {
			return err
		}
		if _, err := tx.Exec(s.ctx, "UPDATE idempotency_keys SET expires_at = expires_at WHERE key = $1",
			s.asked.key()); err != nil {
			return err
		}
		if err := s.askInBackground(); err != nil {
			return err
		}
		if err := s.untilHolds("a wait for the lock", `SELECT bool_or(clock_timestamp() - xact_start > $1::interval) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`, lockWait); err != nil {
			return err
		}
		return tx.QueryRow(s.ctx, "SELECT clock_timestamp()").Scan(&released)
	})
	return released, err
}

// equalKeys: keys live within a tenant, here and at the PSP.
func (s *stage) equalKeys() error {
	other := s.asked
	other.request.As = s.w.Keys.Globex
	if err := s.startReconciler(); err != nil {
		return err
	}
	return errors.Join(s.askUntilFinal(), s.askFor(other))
}

// otherBody: the key stands for what was asked first. What the second request has to hear is in the invariants.
func (s *stage) otherBody() error {
	if err := errors.Join(s.startReconciler(), s.askUntilFinal()); err != nil {
		return err
	}
	other := s.asked
	other.request.Body = strings.Replace(other.request.Body, "12000", "12001", 1)
	_, err := s.ask(s.api, other)
	return errors.Join(err, s.askUntilFinal())
}

// otherAmount: nobody is told that this is what was asked for.
func (s *stage) otherAmount() error {
	if err := s.startReconciler(); err != nil {
		return err
	}
	s.asked.request = s.w.Keys.Payment(s.asked.key(), "pm_wrong_amount")
	_, err := s.ask(s.api, s.asked)
	return err
}

// evidenceAgain: the webhook of a charge comes when a part of it is refunded, and the scan reads the charge again each
// second. The answer stays as it is.
func (s *stage) evidenceAgain() error {
	told := s.w.Front.On(world.Webhook, httpproxy.HoldBefore)
	defer told.Release()
	if err := errors.Join(s.startReconciler(), s.askUntilFinal()); err != nil {
		return err
	}
	heard, _ := s.firstFinal()
	id := path.Base(heard.Header.Get("Location"))
	if err := s.askFor(s.refund(id, "refund-"+s.asked.key())); err != nil {
		return err
	}
	told.Release()
	if err := told.Landed(s.ctx); err != nil {
		return err
	}
	for range 3 {
		var last time.Time
		if err := s.w.DB.QueryRow(s.ctx,
			"SELECT coalesce(max(updated_at), to_timestamp(0)) FROM ledger_watermarks WHERE account = 'acme' AND object = 'charge'").Scan(&last); err != nil {
			return err
		}
		if err := s.untilHolds("a scan",
			"SELECT max(updated_at) > $1 FROM ledger_watermarks WHERE account = 'acme' AND object = 'charge'", last); err != nil {
			return err
		}
		if err := s.askUntilFinal(); err != nil {
			return err
		}
	}
	return nil
}
