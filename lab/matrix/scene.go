package main

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/jackc/pgx/v5"

	"payonce/lab/world"
	"payonce/test/httpproxy"
	"payonce/test/pgproxy"
)

// What rows begin with. None of it needs the reconciler.

// longWindow keeps the scan away from an unknown key for as long as a row needs to come to its boundary, also on a busy
// machine.
func longWindow() map[string]string { return map[string]string{"PSP_LATE_LIMIT": "20s"} }

// lost leaves an unknown key: the call to the PSP has met an action. At Stripe, the owner then reads the intent, and
// does not get that answer either.
func (s *stage) lost(do httpproxy.Action) error {
	s.api.PSP.On(s.asked.call, do)
	if s.atStripe() && s.asked.call == world.Charge {
		s.api.PSP.On(world.Lookup, httpproxy.FailBefore)
	}
	a, err := s.ask(s.api, s.asked)
	if err == nil && a.Status != http.StatusAccepted {
		err = fmt.Errorf("a payment whose outcome was lost was answered %d %s", a.Status, a.Body)
	}
	return err
}

// lostAndDue waits until the first lookup is due, also.
func (s *stage) lostAndDue(do httpproxy.Action) error {
	if err := s.lost(do); err != nil {
		return err
	}
	return s.untilHolds("a lookup that is due",
		"SELECT reconcile_after <= clock_timestamp() FROM idempotency_keys WHERE key = $1", s.asked.key())
}

// gracePeriodOver waits until the grace period of an unknown key is over.
func (s *stage) gracePeriodOver() error {
	return s.untilHolds("the end of the grace period",
		"SELECT unknown_since + $2::interval <= clock_timestamp() FROM idempotency_keys WHERE key = $1", s.asked.key(), world.GracePeriod)
}

// leaseOver leaves a charged key in progress whose owner is dead and whose lease is over. It takes no reconciler, and
// no webhooks.
func (s *stage) leaseOver() error {
	held := s.api.DB.On("CompleteKeys", pgproxy.HoldBefore)
	if err := s.askInBackground(); err != nil {
		return err
	}
	if err := held.Reached(s.ctx); err != nil {
		return err
	}
	s.api.Kill()
	s.api.DB.Down()
	if err := errors.Join(s.api.DB.Restore(), s.awaitBegun()); err != nil {
		return err
	}
	if err := s.startAgain(s.api); err != nil {
		return err
	}
	return s.untilHolds("the end of the lease",
		"SELECT locked_until <= clock_timestamp() FROM idempotency_keys WHERE key = $1 AND status = 'in_progress'", s.asked.key())
}

// expired leaves an expired key of the first generation. Time is not waited for: the key's end is put into the past
// behind the guards, and the pruner does the rest. What happened to the first generation is no part of the history.
func (s *stage) expired() error {
	if err := s.overdue(); err != nil {
		return err
	}
	return s.untilHolds("the key's expiry", "SELECT status = 'expired' FROM idempotency_keys WHERE key = $1",
		s.asked.key())
}

// overdue leaves a completed key whose retention is over.
func (s *stage) overdue() error {
	if _, err := s.paid(s.asked.key()); err != nil {
		return err
	}
	// The webhook of the payment is still to come, and would find another generation.
	if !s.row.noWebhooks {
		if err := s.untilHolds("the payment's webhook",
			"SELECT count(*) = 1 AND bool_and(processed_at IS NOT NULL) FROM webhook_events"); err != nil {
			return err
		}
	}
	return s.behindTheGuards("UPDATE idempotency_keys SET expires_at = clock_timestamp() WHERE key = $1", s.asked.key())
}

// behindTheGuards lets time pass, where waiting for it would take days.
func (s *stage) behindTheGuards(sql string, args ...any) error {
	return pgx.BeginFunc(s.ctx, s.w.DB, func(tx pgx.Tx) error {
		if _, err := tx.Exec(s.ctx, "SET LOCAL session_replication_role = replica"); err != nil {
			return err
		}
		_, err := tx.Exec(s.ctx, sql, args...)
		return err
	})
}
