// Package stripe has the mock PSP speak the dialect of Stripe, on a port of its own: payment intents that are made
// first and executed afterwards, charges, refunds, disputes, balance transactions, events and signed webhooks.
//
// It owns these objects and the idempotency keys of the dialect. The ledger, its file, the fault rates and the log of
// calls are those of package mockpsp. One line of the file holds everything that a request has changed: the movement of
// money, the objects, the events, and the answer that is saved under the key. After a kill, all of it is there, or
// nothing.
//
// It follows the public documentation of Stripe. It knows nothing of the programs that call it.
//
// # Where a request passes
//
//	call.go     lets a request in: secret, account, headers, the log of calls
//	api.go      the table of all that it does: who is asked for what, and what is refused
//	form.go     reads parameters
//	expand.go   the objects in the place of their ids
//	fault.go    the test tokens, and what each of them does
//	keys.go     the idempotency keys: who executes, who is answered from memory, who is refused
//	create.go   makes an intent, which moves no money
//	confirm.go  executes an intent, with the fault that its payment method picks
//	land.go     what happens later: late confirmations, customers who authenticate, debits that clear
//	cancel.go   makes sure that an intent is never executed
//	refund.go   gives money back
//	dispute.go  disputes, and what is answered to the bank
//	doors.go    what others do: see mockpsp.Doors
//	commit.go   writes one line, and publishes it
//	store.go    the objects as readers see them
//	lists.go    lists, newest first, and the search, which lags behind
//	event.go    events, and how they are sent and signed
//
// # Invariants
//
//   - What is asked for is done, or refused by name. Nothing is ignored (docs/mock_stripe.md).
//   - An intent is changed by one request at a time.
//   - An intent that is canceled is never charged, and one that is charged is never canceled.
//   - A result is saved under the key exactly if the execution has begun and was not cut short, 500s included.
//   - Refunds and what disputes hold never exceed their charge.
//   - A list that is read page by page misses no object that was there when the reading began.
package stripe
