// Package mockpsp is a payment service provider (PSP) to practise on: an [http.Handler] that charges and refunds,
// remembers every idempotency key, reports what it did in signed webhooks and settlement files, and fails on demand in
// each way in which a real provider fails.
//
// It owns its ledger, the list of what was really charged and refunded. With a [Config.LedgerPath] the ledger is an
// append-only file of JSON lines: a line is on disk before anyone can see its charge, and a restart reads it all back.
// It knows nothing of Payonce: not its database, its payments, nor its client. It shares the wire contract with
// internal/gateway, and no code.
//
// # Where a charge passes
//
//	call.go       lets a request in: secret, account, the log of calls
//	charge.go     reads what is asked for, a charge or a refund
//	keyed.go      reserves the key, picks the fault, acts it out; the keys: who executes, who replays, who is refused;
//	              DELETE /_keys forgets them, not the ledger
//	write.go      the one goroutine that decides, writes and publishes entries, many to an fsync
//	journal.go    the file below it
//	fault.go      the test tokens, and what each of them does
//	rates.go      how often chance picks a fault
//	wrong.go      movements that are not what was asked for, and records that are hard to read
//	late.go       charges that land after their connection was closed, what happens to entries by itself, and what is
//	              booked late
//	doors.go      what others do: refunds in the dashboard, refunds that come back, disputes
//	reply.go      the answer, or the silence
//	dialect.go    the seam for another dialect over the same ledger: see package stripe below
//
// # What follows from it
//
//	webhook.go       what a webhook says, its signature, and what may go wrong on its way
//	webhooks.go      when it goes, how often it is tried, when it is given up
//	webhooksend.go   a single try
//	journal.go       the file that knows which ones are done
//	webhookdoors.go  /_webhooks: counts and the latest tries; one once more, by hand; one printed as a curl command
//	settlement.go    GET /v1/settlements/{date}.csv: a day's movements of money; what payouts have paid
//
// # Invariants
//
//   - A key, meaning (account, path, Idempotency-Key), is reserved before any fault acts, and has one entry at most:
//     but for the faults that are about having two, and for keys that were forgotten. The ledger names the fault of
//     each entry.
//   - A line never changes: a refund that comes back and a dispute that is decided have a line more. The answer to a
//     key is rendered from the first line, so that a replay has the status and bytes of the first.
//   - What is random is drawn from [Config.Rand] alone: one seed and one order of requests give the same faults, and
//     the same ledger but for its ids and times.
//   - Entries become visible in the order of the file, with strictly growing createdAt. A cursor therefore misses
//     nothing but what is booked late (pm_booked_late): that comes up behind the cursor, [Config.LateDelay] later.
//   - Refunds and the disputes that hold money never exceed their charge: one goroutine decides all of them.
//   - After a failed write nobody can tell what is on the disk. The server then answers 500 to everything under /v1
//     until a restart has read the file: "not found" would be a lie if the line were there after all.
//   - The webhook of each version of an entry has one id for good, and goes at least once, or until it is given up or
//     dropped: what the file of ended webhooks does not name is sent after the next start. Silent and stuck entries
//     have none.
//   - No webhook goes before the call that made its entry has ended.
//   - Each movement of money is in one settlement file: that of the UTC day of its line. Only today's still grows,
//     and for [Config.LateDelay] that of a day with an entry that is booked late.
//
// Bounded are: bodies, keys, pages, held requests (by [Config.HangLimit]), late charges, the log of calls, and the
// webhooks that are sent at once. The ledger itself is not, nor the webhooks that wait, one at most for each entry;
// the ledger lives in memory whole, at well under a kilobyte a charge.
package mockpsp
