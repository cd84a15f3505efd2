package main

import (
	"payonce/internal/payment"
	"payonce/lab/world"
	"payonce/test/httpproxy"
)

// What the reconciler does by itself: no client asks before it has come to an end.

// taking are the boundaries of one transaction that takes keys and enqueues their jobs.
func taking(query string) []row {
	return []row{
		{window: 11, step: "begun | take the keys", at: boundary{at: database, name: query, side: before}},
		{window: 11, step: "taken | enqueue their jobs",
			at: boundary{at: database, name: query, side: after, open: true}},
		{window: 11, step: "enqueued | commit", at: boundary{at: database, name: query, side: before, commit: true}},
		{window: 12, step: "committed | its acknowledgement",
			at: boundary{at: database, name: query, side: after, commit: true}},
	}
}

func sweepFlow() flow {
	rows := taking("SweepLeases")
	for i := range rows {
		rows[i].prepare = (*stage).leaseOver
	}
	return flow{"sweep", "sweep: leases that are over", unattended(rows)}
}

func claimFlow() flow {
	rows := taking("ClaimDue")
	for i := range rows {
		rows[i].env = longWindow()
		rows[i].prepare = func(s *stage) error { return s.lostAndDue(httpproxy.CutAfter) }
	}
	return flow{"claim", "resolve: claim of the keys that are due", unattended(rows)}
}

// unattended has the reconciler find its work waiting, without webhooks, and nobody else move the key.
func unattended(rows []row) []row {
	for i := range rows {
		rows[i].victim = world.Reconciler
		rows[i].noWebhooks = true
		rows[i].begin = (*stage).startVictim
		rows[i].finish = finishUnattended
		if rows[i].want.posts[1] == 0 {
			rows[i].want = want{posts: [2]int{1, 1}, replayed: "true"}
		}
	}
	return rows
}

func finishUnattended(s *stage) error {
	if err := s.untilHolds("the key's end without any client",
		"SELECT status IN ('completed', 'failed_retryable') FROM idempotency_keys WHERE key = $1", s.asked.key()); err != nil {
		return err
	}
	return s.askUntilFinal()
}

// ledgers is how many are scanned at once: the charges and the refunds of two tenants.
const ledgers = 4

// scanFlow is a charge of which neither an answer nor a webhook nor a lookup has told, once the grace period is over.
func scanFlow() flow {
	prepare := func(s *stage) error {
		if err := s.lost(httpproxy.CutAfter); err != nil {
			return err
		}
		if err := s.gracePeriodOver(); err != nil {
			return err
		}
		return s.addBlindReconciler()
	}
	rows := []row{
		{window: 17, step: "job taken | begin the walk",
			at: boundary{at: database, name: "BeginWalk", side: before, times: ledgers}},
		{window: 17, step: "begun | its acknowledgement",
			at: boundary{at: database, name: "BeginWalk", side: after, times: ledgers}},
		{window: 17, step: "begun | ask for a page",
			at: boundary{at: psp, name: world.List, side: before, times: ledgers}},
		{window: 17, step: "asked | the page", at: boundary{at: psp, name: world.List, side: after, times: ledgers}},
		{window: 18, step: "page read | compare with the books",
			at: boundary{at: database, name: "BookedMovements", side: before}},
		{window: 18, step: "compared | complete the key",
			at: boundary{at: database, name: "ResolveKeys", side: before}},
		{window: 19, step: "completed | its acknowledgement",
			at: boundary{at: database, name: "ResolveKeys", side: after}},
		{window: 19, step: "resolved | advance the walk",
			at: boundary{at: database, name: "AdvanceWalk", side: before}},
		{window: 20, step: "advanced | its acknowledgement",
			at: boundary{at: database, name: "AdvanceWalk", side: after}},
		{window: 20, step: "list at its end | end the walk",
			at: boundary{at: database, name: "EndWalk", side: before, times: ledgers}},
		{window: 20, step: "ended | its acknowledgement",
			at: boundary{at: database, name: "EndWalk", side: after, times: ledgers}},
	}
	for i := range rows {
		rows[i].prepare, rows[i].heal = prepare, (*stage).healLookups
	}
	return flow{"scan", "scan of the PSP's ledger", unattended(rows)}
}

// A payment whose answer was lost, at a PSP that lets nobody look it up: its webhook is what there is.

// ingestFlow is what the API does with a webhook.
func ingestFlow() flow {
	prepare := func(s *stage) error {
		s.api.PSP.On(world.Charge, httpproxy.CutAfter)
		if err := s.startReconciler(); err != nil {
			return err
		}
		s.failLookups(s.reconciler)
		return nil
	}
	rows := []row{
		{window: 6, step: "webhook verified | store it with its job",
			at: boundary{at: database, name: "StoreEvents", side: before}},
		{window: 7, step: "stored | its acknowledgement",
			at: boundary{at: database, name: "StoreEvents", side: after}},
	}
	for i := range rows {
		rows[i].prepare, rows[i].begin, rows[i].heal = prepare, (*stage).askInBackground, (*stage).healLookups
		rows[i].finish = finishWebhook
		rows[i].want = want{posts: [2]int{1, 1}, replayed: "true", check: oneEvent}
	}
	return flow{"ingest", "webhook: ingestion", rows}
}

// processFlow is what the reconciler does with it.
func processFlow() flow {
	prepare := func(s *stage) error {
		if err := s.lost(httpproxy.CutAfter); err != nil {
			return err
		}
		if err := s.addBlindReconciler(); err != nil {
			return err
		}
		return s.untilHolds("the webhook", "SELECT count(*) = 1 FROM webhook_events")
	}
	rows := []row{
		{window: 8, step: "job taken | load the event", at: boundary{at: database, name: "GetEvent", side: before}},
		{window: 8, step: "judged | complete the key", at: boundary{at: database, name: "ResolveKeys", side: before}},
		{window: 9, step: "completed | its acknowledgement",
			at: boundary{at: database, name: "ResolveKeys", side: after}},
		{window: 9, step: "resolved | mark the event", at: boundary{at: database, name: "SetResult", side: before}},
		{window: 10, step: "marked | its acknowledgement",
			at: boundary{at: database, name: "SetResult", side: after}},
	}
	for i := range rows {
		rows[i].victim = world.Reconciler
		rows[i].prepare, rows[i].begin, rows[i].heal = prepare, (*stage).startVictim, (*stage).healLookups
		rows[i].env = longWindow()
		rows[i].finish = finishWebhook
		rows[i].want = want{posts: [2]int{1, 1}, replayed: "true", check: oneEvent}
	}
	return flow{"process", "webhook: processing", rows}
}

// addBlindReconciler adds one that does not run yet, and whose lookups will fail.
func (s *stage) addBlindReconciler() (err error) {
	if s.reconciler, err = s.w.AddReconciler("reconciler-1"); err == nil {
		s.failLookups(s.reconciler)
	}
	return err
}

// startVictim lets the reconciler run, which finds its work waiting.
func (s *stage) startVictim() error { return s.reconciler.Start(s.ctx) }

func finishWebhook(s *stage) error {
	if err := s.askUntilFinal(); err != nil {
		return err
	}
	return s.untilHolds("the webhook's end",
		"SELECT count(*) = 1 AND bool_and(processed_at IS NOT NULL) FROM webhook_events")
}

func oneEvent(s *stage) error {
	if err := s.expect("the event was stored once, and was processed as what it is",
		"SELECT count(*) = 1 AND bool_and(result IN ('resolved', 'confirmed')) FROM webhook_events"); err != nil {
		return err
	}
	return s.expect("it had one job", "SELECT count(*) = 1 FROM river_job WHERE kind = 'webhook'")
}

func pruneFlow() flow {
	rows := append(expiryRows(), deletionRows()...)
	rows = append(rows, webhookRows()...)
	for i := range rows {
		rows[i].victim = world.Reconciler
		rows[i].begin = (*stage).startVictim
	}
	return flow{"prune", "prune", rows}
}

func expiryRows() []row {
	rows := []row{
		{window: 24, step: "retention over | expire the key",
			at: boundary{at: database, name: "ExpireKeys", side: before}},
		{window: 24, step: "expired | its acknowledgement",
			at: boundary{at: database, name: "ExpireKeys", side: after}},
	}
	for i := range rows {
		rows[i].noWebhooks = true
		rows[i].env = map[string]string{"PRUNE_EVERY": "300ms"}
		rows[i].prepare = (*stage).overdue
		rows[i].finish = func(s *stage) error {
			if err := s.untilHolds("the key's expiry",
				"SELECT status = 'expired' OR generation = 2 FROM idempotency_keys WHERE key = $1", s.asked.key()); err != nil {
				return err
			}
			return s.askUntilFinal()
		}
		rows[i].want = want{posts: [2]int{1, 1}, replayed: "false", check: func(s *stage) error {
			return s.expect("the key has expired once, and was renewed",
				`SELECT generation = 2 AND attempt = 1 AND (SELECT count(*) = 1 FROM idempotency_key_events AS e
				 WHERE e.key = k.key AND e.to_status = 'expired') FROM idempotency_keys AS k WHERE key = $1`, s.asked.key())
		}}
	}
	return rows
}

func deletionRows() []row {
	rows := []row{
		{window: 25, step: "audit window over | delete the key",
			at: boundary{at: database, name: "DeleteKeys", side: before}},
		{window: 25, step: "deleted | its acknowledgement",
			at: boundary{at: database, name: "DeleteKeys", side: after}},
	}
	for i := range rows {
		rows[i].noWebhooks = true
		rows[i].env = map[string]string{"PRUNE_EVERY": "300ms", "KEY_AUDIT": "0s"}
		rows[i].prepare = (*stage).overdue
		rows[i].finish = func(s *stage) error {
			return s.untilHolds("the key's deletion", `SELECT NOT EXISTS (SELECT FROM idempotency_keys WHERE key = $1)`,
				s.asked.key())
		}
		rows[i].want = want{posts: [2]int{1, 1}, check: func(s *stage) error {
			return s.expect("its timeline is gone with it, and the payment is not",
				`SELECT NOT EXISTS (SELECT FROM idempotency_key_events WHERE key = $1)
				 AND EXISTS (SELECT FROM payments WHERE idempotency_key = $1 AND status = $2)`, s.asked.key(), payment.Succeeded)
		}}
	}
	return rows
}

func webhookRows() []row {
	rows := []row{
		{window: 26, step: "webhook processed long ago | delete it",
			at: boundary{at: database, name: "PruneEvents", side: before}},
		{window: 26, step: "deleted | its acknowledgement",
			at: boundary{at: database, name: "PruneEvents", side: after}},
	}
	for i := range rows {
		rows[i].env = map[string]string{"PRUNE_EVERY": "300ms"}
		rows[i].prepare = func(s *stage) error {
			if err := s.startReconciler(); err != nil {
				return err
			}
			if err := finishWebhook(s); err != nil {
				return err
			}
			s.reconciler.Stop()
			return s.behindTheGuards("UPDATE webhook_events SET processed_at = processed_at - interval '8 days'")
		}
		rows[i].finish = func(s *stage) error {
			if err := s.untilHolds("the webhook's deletion", "SELECT count(*) = 0 FROM webhook_events"); err != nil {
				return err
			}
			return s.askUntilFinal()
		}
		rows[i].want = want{posts: [2]int{1, 1}, replayed: "false"}
	}
	return rows
}
