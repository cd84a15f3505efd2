package main

import (
	"payonce/lab/world"
	"payonce/test/httpproxy"
)

// stripeFlow is a payment at a provider where it is made first and executed afterwards: create, remember, confirm. The
// intent of an attempt that was given back is cancelled or never confirmed, and the next attempt makes another one. The
// flow payment plays what comes before the creation, and clients who hang up. Here, one row of them is enough.
func stripeFlow() flow {
	rows := append(stripeStepRows(), stripeExecutedRows()...)
	for i := range rows {
		rows[i].prepare = (*stage).startReconciler
	}
	rows = append(rows, ownerResolvesRows()...)
	for i := range rows {
		rows[i].begin, rows[i].finish = (*stage).askInBackground, (*stage).askUntilFinal
		rows[i].want.check = allOfIt((*stage).cancelledAsSaid, noDeadLetter)
	}
	return flow{"stripe", "POST /payments, at Stripe", atStripe(rows)}
}

// stripeStepRows end before the confirmation: nothing is executed in this attempt, unless its owner goes on.
func stripeStepRows() []row {
	rows := []row{
		{window: 2, step: "creation sent | the PSP", at: boundary{at: psp, name: world.Create, side: before}},
		{window: 27, step: "intent made | the PSP's answer", at: boundary{at: psp, name: world.Create, side: after}},
		{window: 27, step: "answer read | store the intent's id",
			at: boundary{at: database, name: "RememberObject", side: before}},
		{window: 28, step: "id stored | its acknowledgement", client: true,
			at: boundary{at: database, name: "RememberObject", side: after, unsent: true}},
		{window: 28, step: "acknowledged, looked whether it was paused | confirm",
			at: boundary{at: inside, name: "confirm", side: before},
			// Whether a request goes out whose time is over is a race that may end either way: the intent is cancelled.
			but: map[fault]want{pause: {posts: [2]int{1, 2}, replayed: "false"}}},
	}
	for i := range rows {
		rows[i].want = want{posts: [2]int{1, 1}, replayed: "false"}
	}
	return rows
}

// stripeExecutedRows begin with the confirmation.
func stripeExecutedRows() []row {
	once, again := want{posts: [2]int{1, 1}, replayed: "false"}, want{posts: [2]int{1, 1}, replayed: "true"}
	late2 := want{posts: [2]int{2, 2}, replayed: "false"} // the first one comes to an intent that is cancelled
	return []row{
		{window: 3, step: "confirmation sent | the PSP", at: boundary{at: psp, name: world.Charge, side: before},
			want: once, but: map[fault]want{late: late2, pause: late2}},
		{window: 3, step: "charge made | the PSP's answer", at: boundary{at: psp, name: world.Charge, side: after},
			want: again,
			// The owner lives, and reads the intent.
			but: map[fault]want{pspFail: once, pspCut: once, pspHalf: once}},
		{window: 3, step: "answer read | tx 2: complete the key",
			at: boundary{at: database, name: "CompleteKeys", side: before}, want: again,
			but: map[fault]want{dbEnds: once, dbCut: once}},
		{window: 4, step: "completed | its acknowledgement",
			at: boundary{at: database, name: "CompleteKeys", side: after}, want: again,
			but: map[fault]want{ackLost: once}},
	}
}

// ownerResolvesRows are those of an owner whose confirmation had no answer. It reads the intent, and cancels it if it
// is not executed.
func ownerResolvesRows() []row {
	rows := []row{
		{window: 3, step: "confirmation lost | the owner reads the intent",
			at: boundary{at: psp, name: world.Lookup, side: before}},
		{window: 29, step: "read, not executed | the owner cancels it",
			at: boundary{at: psp, name: world.Cancel, side: before}},
		{window: 30, step: "cancelled | the PSP's answer", at: boundary{at: psp, name: world.Cancel, side: after}},
		{window: 30, step: "answer read | tx 2: release the key",
			at: boundary{at: database, name: "ReleaseKey", side: before}},
		{window: 3, step: "charged, answer lost; read by the owner | the PSP's answer",
			at: boundary{at: psp, name: world.Lookup, side: after}},
	}
	last := len(rows) - 1
	for i := range rows {
		do := httpproxy.CutBefore
		rows[i].want = want{posts: [2]int{1, 1}, replayed: "false"}
		if i == last {
			do = httpproxy.CutAfter
			rows[i].want = want{posts: [2]int{1, 1}, replayed: "true"}
		}
		rows[i].prepare = func(s *stage) error { return s.confirmLost(do) }
	}
	return rows
}

// stripeRefundFlow is a refund there. It is executed by one request, as elsewhere, under another key and path.
func stripeRefundFlow() flow {
	var rows []row
	for _, r := range executed("refund", false, prepareRefund, world.Refund) {
		if r.at.at == psp {
			r.want.check, r.client = noDeadLetter, false
			rows = append(rows, r)
		}
	}
	return flow{"stripe-refund", "POST /payments/{id}/refunds, at Stripe", atStripe(rows)}
}

// stripeLookupFlow resolves one unknown key at Stripe: by its intent if the id is stored, and otherwise by making the
// intent again under the same key.
func stripeLookupFlow() flow {
	var rows []row
	rows = append(rows, cancelRows()...)
	rows = append(rows, remadeRows()...)
	rows = append(rows, readRows()...)
	rows = unattended(rows)
	for i := range rows {
		rows[i].env = longWindow() // so that no scan comes first, and no grace period ends: it need not
		rows[i].want.check = allOfIt((*stage).cancelledAsSaid, (*stage).nothingLeftOpen, noDeadLetter)
	}
	return flow{"stripe-lookup", "resolve: one key, at Stripe", atStripe(rows)}
}

// cancelRows: the id is stored, and the confirmation has never arrived.
func cancelRows() []row {
	rows := []row{
		{window: 13, step: "seen, its id is stored | read the intent",
			at: boundary{at: psp, name: world.Lookup, side: before}},
		{window: 29, step: "read, not executed | the PSP's answer",
			at: boundary{at: psp, name: world.Lookup, side: after}},
		{window: 29, step: "answer read | cancel it", at: boundary{at: psp, name: world.Cancel, side: before}},
		{window: 30, step: "cancelled | the PSP's answer", at: boundary{at: psp, name: world.Cancel, side: after}},
		{window: 30, step: "answer read | release the key",
			at: boundary{at: database, name: "ReleaseUnknownKey", side: before}},
		{window: 15, step: "released | its acknowledgement",
			at: boundary{at: database, name: "ReleaseUnknownKey", side: after}},
	}
	for i := range rows {
		rows[i].prepare = func(s *stage) error { return s.lostAndDue(httpproxy.CutBefore) }
		rows[i].want = want{posts: [2]int{1, 1}, replayed: "false"}
	}
	return rows
}

// remadeRows: the id is not stored. The same creation under the same key leads to the intent.
func remadeRows() []row {
	rows := []row{
		{window: 13, step: "seen, no id is stored | make the intent again",
			at: boundary{at: psp, name: world.Create, side: before}},
		{window: 29, step: "made again, which is the first one | the PSP's answer",
			at: boundary{at: psp, name: world.Create, side: after}},
		{window: 29, step: "made again and read | cancel it",
			at: boundary{at: psp, name: world.Cancel, side: before}},
	}
	for i := range rows {
		rows[i].prepare = (*stage).madeAndOver
		rows[i].want = want{posts: [2]int{1, 1}, replayed: "false"}
	}
	return rows
}

// readRows: the PSP has charged, and nobody has heard of it.
func readRows() []row {
	rows := []row{
		{window: 14, step: "executed, read | the PSP's answer",
			at: boundary{at: psp, name: world.Lookup, side: after}},
		{window: 14, step: "answer read | complete the key",
			at: boundary{at: database, name: "ResolveKeys", side: before}},
	}
	for i := range rows {
		rows[i].prepare = func(s *stage) error { return s.lostAndDue(httpproxy.CutAfter) }
	}
	return rows
}

// stripeProcessFlow is what the reconciler does with Stripe's events. There are several of a payment, and only one of
// them says that money has moved.
func stripeProcessFlow() flow {
	const events = 3
	all := func(s *stage) error {
		return s.untilHolds("the events' end",
			"SELECT count(*) = $1 AND bool_and(processed_at IS NOT NULL) FROM webhook_events", events)
	}
	prepare := func(s *stage) error {
		if err := s.lost(httpproxy.CutAfter); err != nil {
			return err
		}
		if err := s.addBlindReconciler(); err != nil {
			return err
		}
		return s.untilHolds("the events", "SELECT count(*) = $1 FROM webhook_events", events)
	}
	rows := []row{
		{window: 8, step: "one of its events judged | complete the key",
			at: boundary{at: database, name: "ResolveKeys", side: before}},
		{window: 9, step: "judged, or about nothing of ours | mark the event",
			at: boundary{at: database, name: "SetResult", side: before}},
	}
	for i := range rows {
		rows[i].victim, rows[i].env = world.Reconciler, longWindow()
		rows[i].prepare, rows[i].begin, rows[i].heal = prepare, (*stage).startVictim, (*stage).healLookups
		rows[i].finish = func(s *stage) error {
			if err := s.askUntilFinal(); err != nil {
				return err
			}
			return all(s)
		}
		rows[i].want = want{posts: [2]int{1, 1}, replayed: "true", check: allOfIt(oneOfItsEvents, noDeadLetter)}
	}
	return flow{"stripe-process", "webhook: processing, at Stripe", atStripe(rows)}
}

func oneOfItsEvents(s *stage) error {
	return s.expect("one event was taken as evidence, and the others were ignored",
		`SELECT count(*) FILTER (WHERE result IN ('resolved', 'confirmed')) = 1 AND
			count(*) FILTER (WHERE result = 'ignored') = count(*) - 1 FROM webhook_events`)
}

// stripeScanFlow walks lists that are newest first, and turns them round.
func stripeScanFlow() flow {
	var rows []row
	for _, r := range scanFlow().rows {
		if r.at.at == psp && r.at.side == after || r.at.name == "ResolveKeys" && r.at.side == before {
			r.want.check = noDeadLetter
			rows = append(rows, r)
		}
	}
	return flow{"stripe-scan", "scan of the PSP's ledger, at Stripe", atStripe(rows)}
}
