// Package payments takes payments and refunds them, each exactly once per idempotency key. It opens the transactions,
// calls the packages idempotency and gateway, has package judge decide, and writes what was decided. Its nouns are in
// package payment. It knows no HTTP router and no job queue.
//
// Read it in this order, from who asks to what is asked. Nearly all calls go down:
//
//	refund.go              a refund, which is checked against its payment first
//	execute.go             the path of a payment: create, reserve, send, judge, apply
//	prepare.go             for a PSP that executes in two steps: its object, and where its id is stored
//	overtaken.go           what becomes of a reply whose step was not written, or nobody knows
//	answer.go              the answer to the client
//
// An outcome that the path does not learn arrives later, as evidence. Each source has a file of its own: here, in
// package reconcile for lookups and the scan of a ledger, or in package operator for the decisions about dead letters:
//
//	statement.go           the settlement file of a day
//	record.go              a webhook, or a record of the PSP's ledger
//
// All of them do the same three things. They read what is known into a Gathered, which holds the Seen for package
// judge, the place to read next:
//
//	gather.go              what a piece of evidence is about, and what is known of its key
//	deadletter.go          the same for a dead letter; and steps that are written in the caller's transaction
//	lookup.go              what the PSP knows of a key
//
// They have package judge make a step of the evidence: pure functions. They have apply write the step:
//
//	apply.go               the second transaction; JudgeAndApply, the way of nearly every source
//	group.go               the transactions that payments share, if they arrive together
//	step.go                the parts of a step that move no key, its dead letter
//	movement.go            what differs between a payment and a refund
//	observe.go             what all this tells in figures, traces and log lines
//
// A source that brings records needs a judge.Source and a call of ApplyRecord. Other evidence is a type of package
// judge that judges itself; the tests of judge say what else it needs.
//
// The rest reads: books.go for the scan of a ledger, wait.go for those who wait for an outcome, inquire.go for
// operators and for those who deliver events, read.go and row.go for all. Most of it is of the type Books in
// service.go.
//
// statement.go, deadletter.go and inquire.go are of the operations (test/archtest/rings.go): payments do without them.
//
// The crash windows are numbered in the code, and in the names of the tests that kill a process there. What happens in
// each is told in docs/crash_windows.md. The eight of this path:
//
//	window 1  before the reservation commits: nothing is left, and the client's retry is a new request
//	window 2  before the PSP is called: a lease is left; it ends, and the key becomes unknown
//	window 27 the PSP has made an object, and its id is not stored: nobody executes the object
//	window 28 the id is stored, and the object is not executed: a lookup cancels it
//	window 3  after the PSP has the request: the same, and the customer may have been charged
//	window 16 a step that has a dead letter is judged: neither of the two is written
//	window 4  after the second commit, before the answer: the retry is a replay
//	window 5  a lease is found to be over, before the key is unknown: the sweeper makes the key unknown
package payments
