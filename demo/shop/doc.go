// Package shop is a merchant of the demo: a page with a button that buys, and the list of its orders. It shows how a
// merchant hears of a payment whose answer was lost.
//
//	buy.go       pays for an order with package client, and gives up soon if no answer comes
//	receive.go   takes the events, once each, and marks the orders
//	orders.go    what has become of an order, and the page
//	endpoint.go  tells Payonce where the events go
//
// It knows Payonce from outside only: the API, and package client. Its orders are in a database of its own. It answers
// the first delivery of each event of an order with 503 after it has taken the event, so that each event comes twice.
package shop
