// Package idempotency owns the life of an Idempotency-Key: who may execute it, its stored response, and whether its
// outcome is unknown. It knows a tenant, an operation, a key, a fingerprint, a subject and a response. It reads no
// payment and never calls a PSP; it only knows how long the PSP remembers a key.
//
// The state machine is in state.go, in the WHERE of each query, and in the guard of the table. What must always hold:
//
//   - One owner. Reserving a key is an INSERT, and the primary key lets one of them win. Taking a free key again is an
//     UPDATE that names what it has read: the attempt, or the generation.
//   - A fence. Each write by an owner names its attempt. If the key has another owner by then, the write finds no row
//     and comes back as a GuardResult that has not passed.
//   - No request executes an unknown key. A key that may have been executed is only moved by evidence.
//   - A completed response never changes, to the byte.
//
// Take is the way from a request to a lease. Most other methods return a postgres.Call: one statement that the caller
// sends, with others, in one transaction. Such a method does not commit and does not touch the network. Methods with
// the suffix Tx work in the caller's transaction. Leases end by the database's clock.
package idempotency
