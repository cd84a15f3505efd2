package e2e

import (
	"context"
	"net/http"
	"testing"
	"time"

	"payonce/internal/config"
	"payonce/internal/pgtest"
)

// What happens when the standby is away that every commit waits for. Nothing limits that wait, statement_timeout neither. When it is given up, the
// server shows what was committed as if it were safe, and a failover undoes it.

// setupWaiting is a world whose server can be told to wait for a standby that there is not.
func setupWaiting(t *testing.T, with ...func(*options)) (w *world, leave, back func()) {
	t.Helper()
	server := pgtest.OwnServer(t, false)
	w = setup(t, append(with, func(o *options) {
		// The durable setting is that of the database: the server's is off, for a fast test.
		o.url = pgtest.Migrate(t, server)
		o.settings = func(c *config.API) {
			c.DBStatementTimeout, c.DBLockTimeout = 400*time.Millisecond, 200*time.Millisecond
		}
	})...)
	w.exec("DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = on', current_database()); END $$")
	tell := func(setting string) {
		w.exec(setting)
		w.exec("SELECT pg_reload_conf()")
	}
	leave = func() {
		w.db.Reset() // ours is to be durable, too
		tell("ALTER SYSTEM SET synchronous_standby_names = 'away'")
		eventually(t, "a commit that waits", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			_, err := w.db.Exec(ctx, "SELECT pg_logical_emit_message(true, 'test', '')")
			return err != nil
		})
	}
	back = func() {
		tell("ALTER SYSTEM RESET synchronous_standby_names")
		eventually(t, "an end of the waits", func() bool {
			return w.count("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") == 0
		})
	}
	return w, leave, back
}

// Crash window 1, by another way: the reservation can be read, and is not where a failover would look for it.
func TestReservationThatTheStandbyDoesNotHaveIsNotSent(t *testing.T) {
	t.Parallel()
	w, leave, back := setupWaiting(t)
	leave()
	key := freshKey()
	w.pay(key, "pm_ok").expect(t, http.StatusServiceUnavailable, storeUnavailable)
	if k := w.keyRow(key); k.Status != "in_progress" {
		t.Fatalf("the server hides what it has committed, so this shows nothing: %+v", k)
	}
	if n := w.pspRequests("acme", key); n != 0 {
		t.Fatalf("PSP asked %d times", n)
	}
	back()
	w.pay(key, "pm_ok").expect(t, http.StatusConflict, "idempotency_key_in_progress")
	other := freshKey()
	w.chargedOnce(other, other, w.pay(other, "pm_ok"))
}

// Charged, and written where a failover would not find it: that is no final answer yet.
func TestOutcomeThatTheStandbyDoesNotHaveIsNotFinal(t *testing.T) {
	t.Parallel()
	gate := newGate()
	w, leave, back := setupWaiting(t, func(o *options) { o.between = gate.wrap })
	key := freshKey()
	answer := w.inBackground(paymentOf(key, "pm_ok"))
	gate.awaitArrival(t)
	leave()
	gate.open()
	(<-answer).expect(t, http.StatusAccepted, "")
	if k := w.keyRow(key); k.Status != "completed" {
		t.Fatalf("the server hides what it has committed, so this shows nothing: %+v", k)
	}
	back()
	w.pay(key, "pm_ok").expect(t, http.StatusCreated, "")
	if n := w.pspRequests("acme", key); n != 1 {
		t.Fatalf("PSP asked %d times", n)
	}
}
