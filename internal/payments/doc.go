// Package payments is the domain: it takes payments and refunds them, each exactly once per idempotency key. It opens the
// transactions, calls packages idempotency and gateway, and builds the answers that are stored. It knows no
// HTTP router and no job queue.
//
// Read it in this order: create.go (what is asked), execute.go (one payment, two commits), reserve.go (the first), plan.go
// and settle.go (the second), late.go (an owner whom others have overtaken), answer.go (what comes back). A payment and a
// refund share that path; what differs between them is behind the interface movement, in charge.go and refund.go.
//
// What the live path did not learn comes later, as evidence: evidence.go (where all of it ends), locate.go (what it is about), weigh.go (what
// it comes to), letters.go (what only an operator can decide). It is brought by webhooks, by resolve.go (asks the PSP for one key),
// scan.go and books.go (walk the PSP's ledger), and ruling.go (an operator).
//
// The crash windows, numbered where they are in the code and in the names of the tests that kill a process there. A crash in
//
//	window 1, before the reservation commits, leaves nothing: the client's retry is a new request.
//	window 2, after it and before the PSP is called, leaves a lease that runs out: unknown, resolved as not executed.
//	window 3, after the PSP has the request, leaves a lease that runs out: unknown, resolved by what the PSP says.
//	window 4, after the second commit and before the answer, leaves a completed key: the retry is a replay.
package payments
