// Package payments is the domain: it takes payments and refunds them, each exactly once per idempotency key. It opens the
// transactions, calls packages idempotency and gateway, and builds the answers that are stored. It knows no
// HTTP router and no job queue.
//
// Read it in this order: create.go and refund.go (what is asked), execute.go (the main road: reserve, send, judge, apply), reserve.go (the
// first transaction). A payment and a refund share that road; what differs between them is behind the interface movement.
//
// What the live road did not learn comes later, as evidence. Who brings it has a file each: overtaken.go (the request itself, when others have
// moved its key), lookup.go (asks the PSP for one key), scan.go, failwalk.go, unreadable.go and books.go (walk the PSP's ledger), statement.go (a day's
// settlement file), operator.go (a decision about a dead letter), settle.go (a webhook, or a record that an operator retries).
//
// All of them do the same. They gather what is known (gather.go, row.go), have it judged (judge.go: a pure function; decide.go and breaks.go are
// its rows about decisions and statements, evidence.go and seen.go its words), and apply the step (apply.go, the second transaction; letters.go).
// Then answer.go says what comes back. movement.go, charge.go, id.go and the rest are what all of this stands on.
//
// The crash windows, numbered where they are in the code and in the names of the tests that kill a process there. A crash in
//
//	window 1, before the reservation commits, leaves nothing: the client's retry is a new request.
//	window 2, after it and before the PSP is called, leaves a lease that runs out: unknown, resolved as not executed.
//	window 3, after the PSP has the request, leaves a lease that runs out: unknown, resolved by what the PSP says.
//	window 4, after the second commit and before the answer, leaves a completed key: the retry is a replay.
package payments
