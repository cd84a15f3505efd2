package main

import (
	"payonce/lab/world"
	"payonce/test/httpproxy"
)

// executed is the path of internal/payments/execute.go, for a payment or a refund: two transactions with the PSP
// between them. begins and resolves are what the two are told by on the wire: the same queries of package idempotency
// for both.
func executed(m string, noWebhooks bool, prepare func(*stage) error, call string) []row {
	rows := []row{
		{
			window: 1, step: "nothing sent | tx 1: reserve the key",
			at:   boundary{at: database, name: "ReserveKeys", side: before},
			want: want{posts: [2]int{1, 1}, replayed: "false"},
			// The process that acts for the paused one reserves the key. The paused owner finds that.
		},
		{
			window: 2, step: "reserved | its acknowledgement",
			at:   boundary{at: database, name: "ReserveKeys", side: after, unsent: true},
			want: want{posts: [2]int{1, 1}, replayed: "false"},
		},
		{
			window: 2, step: "acknowledged, looked whether it was paused | send",
			at:   boundary{at: inside, name: "send", side: before},
			want: want{posts: [2]int{1, 1}, replayed: "false"},
			// Whether a request goes out whose time is over, or not any more, is a race that may end either way: the
			// PSP knows the key.
			but: map[fault]want{pause: {posts: [2]int{1, 2}, replayed: "false"}},
		},
		{
			window: 3, step: "sent | the PSP",
			at:   boundary{at: psp, name: call, side: before},
			want: want{posts: [2]int{1, 1}, replayed: "false"},
			// The PSP gets the packet of the dead in the end, too, and knows the key.
			but: map[fault]want{late: {posts: [2]int{2, 2}, replayed: "false"},
				pause: {posts: [2]int{2, 2}, replayed: "false"}},
		},
		{
			window: 3, step: m + " made | the PSP's answer",
			at:   boundary{at: psp, name: call, side: after},
			want: want{posts: [2]int{1, 1}, replayed: "true"},
		},
		{
			window: 3, step: "answer read | tx 2: complete the key",
			at:   boundary{at: database, name: "CompleteKeys", side: before},
			want: want{posts: [2]int{1, 1}, replayed: "true"},
			// The owner lives, and writes it once more.
			but: map[fault]want{dbEnds: {posts: [2]int{1, 1}, replayed: "false"},
				dbCut: {posts: [2]int{1, 1}, replayed: "false"}},
		},
		{
			window: 4, step: "completed | its acknowledgement",
			at:   boundary{at: database, name: "CompleteKeys", side: after},
			want: want{posts: [2]int{1, 1}, replayed: "true"},
			but:  map[fault]want{ackLost: {posts: [2]int{1, 1}, replayed: "false"}},
		},
	}
	for i := range rows {
		rows[i].noWebhooks, rows[i].client = noWebhooks, true
		rows[i].prepare = prepare
		rows[i].begin = (*stage).askInBackground
		rows[i].finish = (*stage).askUntilFinal
	}
	return rows
}

func paymentFlow() flow {
	return flow{"payment", "POST /payments", executed("charge", false, (*stage).startReconciler, world.Charge)}
}

func silentPaymentFlow() flow {
	return flow{"silent", "POST /payments, a PSP that sends no webhooks",
		executed("charge", true, (*stage).startReconciler, world.Charge)}
}

func refundFlow() flow {
	return flow{"refund", "POST /payments/{id}/refunds", executed("refund", false, prepareRefund, world.Refund)}
}

// prepareRefund pays what is going to be given back.
func prepareRefund(s *stage) error {
	if err := s.startReconciler(); err != nil {
		return err
	}
	id, err := s.paid("key-of-the-payment-" + s.w.Name)
	if err != nil {
		return err
	}
	s.asked = s.refund(id, s.asked.key())
	return nil
}

// otherEndFlow is the same path where it does not end in a charge at once, and where the key was there before.
func otherEndFlow() flow {
	var rows []row
	rows = append(rows, lostRows()...)
	rows = append(rows, releasedRows()...)
	rows = append(rows, retakenRows()...)
	rows = append(rows, renewedRows()...)
	rows = append(rows, expiredLeaseRows()...)
	for i := range rows {
		rows[i].begin = (*stage).askInBackground
		rows[i].finish = (*stage).askUntilFinal
	}
	return flow{"ends", "POST /payments: lost, released, retried, renewed, lease over", rows}
}

// The PSP has charged and answered 500.
func lostRows() []row {
	prepare := func(s *stage) error {
		s.api.PSP.On(world.Charge, httpproxy.FailAfter)
		return s.startReconciler()
	}
	return []row{
		{
			window: 3, step: "answer lost | tx 2: the key becomes unknown",
			at: boundary{at: database, name: "LoseKey", side: before}, prepare: prepare, noWebhooks: true,
			want: want{posts: [2]int{1, 1}, replayed: "true"},
		},
		{
			window: 4, step: "unknown | its acknowledgement",
			at: boundary{at: database, name: "LoseKey", side: after}, prepare: prepare, noWebhooks: true,
			want: want{posts: [2]int{1, 1}, replayed: "true"},
		},
	}
}

// The PSP cannot be reached.
func releasedRows() []row {
	prepare := func(s *stage) error {
		s.api.PSP.Down()
		return s.startReconciler()
	}
	heal := func(s *stage) error { return s.api.PSP.Restore() }
	return []row{
		{
			window: 3, step: "no connection to the PSP | tx 2: release the key",
			at: boundary{at: database, name: "ReleaseKey", side: before}, prepare: prepare, heal: heal,
			want: want{posts: [2]int{1, 1}, replayed: "false"},
		},
		{
			window: 4, step: "released | its acknowledgement",
			at: boundary{at: database, name: "ReleaseKey", side: after}, prepare: prepare, heal: heal,
			want: want{posts: [2]int{1, 1}, replayed: "false"},
		},
	}
}

// The key was released before.
func retakenRows() []row {
	prepare := func(s *stage) error {
		s.api.PSP.Down()
		if _, err := s.ask(s.api, s.asked); err != nil {
			return err
		}
		if err := s.api.PSP.Restore(); err != nil {
			return err
		}
		return s.startReconciler()
	}
	return []row{
		{
			window: 1, step: "free again | tx 1: attempt 2",
			at: boundary{at: database, name: "RetakeKey", side: before}, prepare: prepare,
			want: want{posts: [2]int{1, 1}, replayed: "false"},
		},
		{
			window: 2, step: "retaken | its acknowledgement",
			at: boundary{at: database, name: "RetakeKey", side: after, unsent: true}, prepare: prepare,
			want: want{posts: [2]int{1, 1}, replayed: "false"},
		},
	}
}

// The key was used before, and has expired. The second generation's key at the PSP is another one.
func renewedRows() []row {
	prepare := func(s *stage) error {
		if err := s.startReconciler(); err != nil {
			return err
		}
		return s.expired()
	}
	return []row{
		{
			window: 1, step: "expired | tx 1: generation 2", env: map[string]string{"PRUNE_EVERY": "300ms"},
			at: boundary{at: database, name: "RenewKey", side: before}, prepare: prepare,
			want: want{posts: [2]int{1, 1}, replayed: "false"},
		},
		{
			window: 2, step: "renewed | its acknowledgement", env: map[string]string{"PRUNE_EVERY": "300ms"},
			at: boundary{at: database, name: "RenewKey", side: after, unsent: true}, prepare: prepare,
			want: want{posts: [2]int{1, 1}, replayed: "false"},
		},
	}
}

// A request meets a lease that is over, before any sweeper.
func expiredLeaseRows() []row {
	heal := (*stage).startReconciler
	return []row{
		{
			window: 5, step: "lease found over | the key becomes unknown", noWebhooks: true,
			at: boundary{at: database, name: "ExpireLease", side: before}, prepare: (*stage).leaseOver, heal: heal,
			want: want{posts: [2]int{1, 1}, replayed: "true"},
		},
		{
			window: 5, step: "unknown | its acknowledgement", noWebhooks: true,
			at: boundary{at: database, name: "ExpireLease", side: after}, prepare: (*stage).leaseOver, heal: heal,
			want: want{posts: [2]int{1, 1}, replayed: "true"},
		},
	}
}
