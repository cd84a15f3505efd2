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
