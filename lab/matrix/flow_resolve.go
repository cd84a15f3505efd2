package main

import (
	"payonce/lab/world"
	"payonce/test/httpproxy"
)

func resolveFlow() flow {
	rows := append(foundRows(), notFoundRows()...)
	return flow{"resolve", "resolve: one key", unattended(append(rows, deadLetterRows()...))}
}

// The PSP has charged, and nobody has heard of it.
func foundRows() []row {
	rows := []row{
		{window: 13, step: "job taken | look at the key",
			at: boundary{at: database, name: "FindPayment", side: before}},
		{window: 13, step: "seen | ask the PSP", at: boundary{at: psp, name: world.Lookup, side: before}},
		{window: 14, step: "found | the PSP's answer", at: boundary{at: psp, name: world.Lookup, side: after}},
		{window: 14, step: "answer read | complete the key",
			at: boundary{at: database, name: "ResolveKeys", side: before}},
		{window: 15, step: "completed | its acknowledgement",
			at: boundary{at: database, name: "ResolveKeys", side: after}},
	}
	for i := range rows {
		rows[i].env = longWindow()
		rows[i].prepare = func(s *stage) error { return s.lostAndDue(httpproxy.CutAfter) }
	}
	return rows
}

// The PSP has nothing, so that no scan finds it either.
func notFoundRows() []row {
	inside := func(s *stage) error { return s.lostAndDue(httpproxy.CutBefore) }
	over := func(s *stage) error {
		if err := s.lost(httpproxy.CutBefore); err != nil {
			return err
		}
		return s.gracePeriodOver()
	}
	rows := []row{
		{window: 14, step: "not found, grace period open | postpone",
			at: boundary{at: database, name: "PostponeKey", side: before}, prepare: inside},
		{window: 15, step: "postponed | its acknowledgement",
			at: boundary{at: database, name: "PostponeKey", side: after}, prepare: inside},
		{window: 14, step: "not found, grace period over | release",
			at: boundary{at: database, name: "ReleaseUnknownKey", side: before}, prepare: over},
		{window: 15, step: "released | its acknowledgement",
			at: boundary{at: database, name: "ReleaseUnknownKey", side: after}, prepare: over},
	}
	for i := range rows {
		rows[i].want = want{posts: [2]int{1, 1}, replayed: "false"}
		// Time enough to come to the boundary while the window is open, also on a busy machine.
		if name := rows[i].at.name; name == "PostponeKey" {
			rows[i].env = map[string]string{"PSP_LATE_LIMIT": "9s"}
		}
	}
	return rows
}

// The PSP does not say, and the budget for asking is spent.
func deadLetterRows() []row {
	prepare := func(s *stage) error {
		if err := s.lostAndDue(httpproxy.CutAfter); err != nil {
			return err
		}
		return s.addBlindReconciler()
	}
	const query = "OpenDeadLetter"
	rows := []row{
		{window: 16, step: "no answer | postpone, open the dead letter",
			at: boundary{at: database, name: query, side: before}},
		{window: 15, step: "committed | its acknowledgement", at: boundary{at: database, name: query, side: after}},
	}
	for i := range rows {
		committed := rows[i].at.side == after
		rows[i].env = map[string]string{"LOOKUP_BUDGET": "1", "LOOKUP_RECHECK": "1s", "PSP_LATE_LIMIT": "20s"}
		rows[i].prepare, rows[i].heal = prepare, (*stage).healLookups
		rows[i].want = want{posts: [2]int{1, 1}, replayed: "true", check: func(s *stage) error {
			if committed {
				return s.expect("one dead letter was opened",
					"SELECT count(*) = 1 FROM dead_letters WHERE kind = 'lookups_exhausted'")
			}
			return s.expect("at most one dead letter was opened", "SELECT count(*) <= 1 FROM dead_letters")
		}}
	}
	return rows
}
