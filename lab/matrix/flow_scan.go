package main

import (
	"payonce/lab/world"
	"payonce/test/httpproxy"
)

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
