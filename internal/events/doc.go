// Package events tells merchants what has become of their payments. An event is a row that the transaction writes which
// changes the payment (a transactional outbox; package payments writes it). This package gives the events their places
// in the feed, turns them into deliveries, and delivers each at least once to each endpoint of its tenant.
//
//	dispatch  events that are new → their places in the feed, and a delivery for each endpoint
//	deliver   one endpoint        → its deliveries that are due, oldest first
//	prune     what has been kept for long enough → nothing
//
// A delivery says what has become of one try after the other. An endpoint says whether it works: it rests after a
// failure, and is disabled if it has failed for too long. An endpoint has one job at a time. So one that is slow holds
// up only itself.
//
// An event is ours and goes out. A webhook of the PSP comes in, see package webhooks.
package events
