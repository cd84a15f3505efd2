// Package events tells merchants what has become of their payments. An event is a row that the transaction writes which
// changes the payment (a transactional outbox; package payments writes it). This package gives the events their places
// in the feed, turns them into deliveries, and delivers each at least once to each endpoint of its tenant.
//
//	dispatch  events that are new  → their places in the feed, and a delivery for each endpoint   every second or so
//	deliver   one endpoint         → its deliveries that are due, oldest first
//
// An event is ours and goes out. A webhook of the PSP comes in, see package webhooks.
package events
