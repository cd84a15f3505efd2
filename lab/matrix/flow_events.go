package main

import (
	"errors"

	"payonce/lab/chaos/tally"
	"payonce/lab/merchant"
	"payonce/lab/world"
)

// eventsFlow is what the reconciler does with an event of a payment, until the merchant has it.
func eventsFlow() flow {
	rows := []row{
		{window: 31, step: "events found | give them their places",
			at: boundary{at: database, name: "PlaceEvents", side: before}},
		{window: 31, step: "placed | commit",
			at: boundary{at: database, name: "PlaceEvents", side: before, commit: true}},
		{window: 31, step: "committed | its acknowledgement",
			at: boundary{at: database, name: "PlaceEvents", side: after, commit: true}},
		{window: 32, step: "enqueued | commit",
			at: boundary{at: database, name: "RestEndpoints", side: before, commit: true}},
		{window: 32, step: "committed | its acknowledgement",
			at: boundary{at: database, name: "RestEndpoints", side: after, commit: true}},
		{window: 32, step: "job taken | read what is due",
			at: boundary{at: database, name: "GetDueDeliveries", side: before}},
		{window: 33, step: "delivered | note it", at: boundary{at: database, name: "RecordDeliveries", side: before}},
		{window: 33, step: "noted | its acknowledgement",
			at: boundary{at: database, name: "RecordDeliveries", side: after}},
	}
	for i := range rows {
		rows[i].victim, rows[i].noWebhooks = world.Reconciler, true
		rows[i].env = map[string]string{"EVENTS_ALLOW_HTTP": "true", "EVENTS_ALLOW_NETWORKS": "127.0.0.0/8,::1/128"}
		rows[i].prepare, rows[i].begin, rows[i].finish = (*stage).paidWithEvents, (*stage).startVictim,
			(*stage).untilDelivered
		rows[i].want = want{posts: [2]int{1, 1}, replayed: "false", check: (*stage).placedOnce}
	}
	return flow{"events", "events: dispatch and delivery", rows}
}

// paidWithEvents leaves a payment that nobody has told its merchant of.
func (s *stage) paidWithEvents() (err error) {
	s.merchants, err = merchant.Open(s.ctx, merchant.Options{
		APIs: []string{s.api.Address}, Keys: map[string]string{"acme": s.w.Keys.Acme}, Tally: tally.New(),
		Only: merchant.Good,
	}, "acme")
	if err != nil {
		return err
	}
	s.closers = append(s.closers, func() error {
		s.merchants.Close()
		return nil
	})
	return s.askUntilFinal()
}

func (s *stage) untilDelivered() error {
	return s.untilHolds("the delivery",
		"SELECT count(*) = 1 AND bool_and(delivered_at IS NOT NULL) FROM event_deliveries")
}

// placedOnce: that the merchant has it is I11.
func (s *stage) placedOnce() error {
	const what = "the event has the first place in the feed, and was delivered"
	return errors.Join(s.expect(what, "SELECT count(*) = 1 AND bool_and(position = 1) FROM events"),
		s.expect(what, "SELECT count(*) = 1 AND bool_and(position = 1) FROM event_feed"))
}
