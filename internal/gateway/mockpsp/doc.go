// Package mockpsp is a payment service provider (PSP) to practise on: an [http.Handler] that charges and refunds,
// remembers every idempotency key, and fails on demand in each way in which a real provider fails.
//
// It owns its ledger, the list of what was really charged and refunded. With a [Config.LedgerPath] the ledger is an
// append-only file of JSON lines: a line is on disk before anyone can see its charge, and a restart reads it all back.
// It knows nothing of Payonce: not its database, its payments, nor its client. It shares the wire contract with
// internal/gateway, and no code.
//
// # Where a charge passes
//
//	call.go       lets a request in: secret, account, the log of calls
//	charge.go     reads what is asked for (refund.go likewise)
//	keyed.go      reserves the key, picks the fault, acts it out
//	reserve.go    the keys: who executes, who replays, who is refused
//	write.go      the one goroutine that decides, writes and publishes entries, many to an fsync
//	journal.go    the file below it
//	late.go       charges that land after their connection was closed
//	reply.go      the answer, or the silence
//
// # Invariants
//
//   - A key, meaning (account, path, Idempotency-Key), is reserved before any fault acts, and has one entry at most.
//   - An entry never changes. Its answer is rendered from it, so that a replay has the status and bytes of the first.
//   - Entries become visible in the order of the file, with strictly growing createdAt. A cursor therefore misses nothing.
//   - Successful refunds never exceed their charge: one goroutine decides all of them.
//   - After a failed write nobody can tell what is on the disk. The server then answers 500 to everything under /v1
//     until a restart has read the file: "not found" would be a lie if the line were there after all.
//
// Bounded are: bodies, keys, pages, held requests (by [Config.HangLimit]), late charges and the log of calls. The
// ledger itself is not; it lives in memory whole, at well under a kilobyte a charge.
//
// # What comes later
//
// Whatever follows from an entry (a webhook, a line of a settlement file) belongs behind [ledger.publish], through
// which every entry goes exactly once when it is durable, on time, late, or again at a restart.
package mockpsp
