package main

import (
	"payonce/internal/payments"
	"payonce/lab/world"
)

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
				 AND EXISTS (SELECT FROM payments WHERE idempotency_key = $1 AND status = $2)`, s.asked.key(), payments.Succeeded)
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
		rows[i].forgets = true
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
