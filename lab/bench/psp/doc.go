// Package psp is the PSP of the benchmark: it answers charges and lookups over HTTP as the gateway's client wants them,
// and costs as little as it can. It owns a ledger in memory, and refuses everything that a benchmark does not ask for:
// refunds, webhooks, faults. What a provider is like is shown by the mock PSP; this one only has to be there.
//
// # Invariants
//
//   - One charge per account and key, however often it is sent; the same key with another body is a 422.
//   - Memory is bounded: a ledger holds so many charges (524 288 by default; each takes about 1 kB, with the garbage)
//     and answers 507 beyond, so that a run that has outgrown it measures errors, and says so. DELETE /_charges empties
//     it.
//   - Nothing survives the process.
package psp
