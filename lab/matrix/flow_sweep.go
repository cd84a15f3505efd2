package main

import (
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
