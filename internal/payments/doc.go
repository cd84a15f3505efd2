// Package payments takes payments and refunds them, each exactly once per idempotency key. It opens the transactions,
// calls the packages idempotency and gateway, has package judge decide, and writes what was decided. Its nouns are in
// package payment. It knows no HTTP router and no job queue.
//
// Read it in this order:
//
//	execute.go             the path of a payment: reserve, send, judge, apply
//	package judge          what evidence means for a key: pure functions
//	reserve.go             the first transaction
//	prepare.go             for a PSP that executes in two steps: its object, and where its id is stored
//	apply.go, step.go      the second transaction
//	create.go, refund.go   what a client asks for
//	answer.go              the answer to the client
//
// A payment and a refund take the same path. What differs between them is in movement.go.
//
// An outcome that the path does not learn arrives later, as evidence. Each source has a file of its own:
//
//	overtaken.go           the request itself, if somebody else has moved its key
//	lookup.go              asks the PSP for one key
//	record.go              a webhook, or a record that an operator retries
//	scan.go                walks the PSP's ledger (with failwalk.go, unreadable.go, books.go)
//	statement.go           the settlement file of a day
//	operator.go            an operator's decision about a dead letter
//
// All of them do the same three things. They read what is known (gather.go, row.go) into a Seen. They have package
// judge decide. They have apply write the step.
//
// The crash windows are numbered in the code, and in the names of the tests that kill a process there. What happens in
// each is told in docs/crash_windows.md. The seven of this path:
//
//	window 1  before the reservation commits: nothing is left, and the client's retry is a new request
//	window 2  before the PSP is called: a lease is left; it ends, and the key becomes unknown
//	window 3  after the PSP has the request: the same, and the customer may have been charged
//	window 4  after the second commit, before the answer: the retry is a replay
//	window 27 the PSP has made an object, and its id is not stored: nobody executes the object
//	window 28 the id is stored, and the object is not executed: a lookup cancels it
//	window 5  a lease is found to be over, before the key is unknown: the sweeper makes the key unknown
package payments
