package main

import (
	"payonce/lab/world"
	"payonce/test/httpproxy"
)

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
			at: boundary{at: database, name: "StoreEvent", side: before}},
		{window: 7, step: "stored | its acknowledgement",
			at: boundary{at: database, name: "StoreEvent", side: after, commit: true}},
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
