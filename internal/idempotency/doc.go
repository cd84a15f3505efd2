// Package idempotency owns the life of an Idempotency-Key: who may execute it, what was answered, and what nobody knows.
// It knows a tenant, an operation, a key, a fingerprint, a subject and a response. It has never heard of a payment, of HTTP or of a
// PSP.
//
// The state machine is in state.go, and once more in the WHERE of each query and in the constraints of the
// table. What must always hold:
//
//   - One owner. Reserving is an INSERT that a unique key decides; retaking is an UPDATE that the attempt decides.
//   - A fence. Every write by an owner names its attempt. When the key has changed hands, it writes nothing and
//     comes back as a Passage that is not through.
//   - Unknown is final for requests. A key whose execution may have happened is never executed again from
//     here; only evidence moves it.
//   - A completed response never changes, to the byte.
//
// Methods that begin with Queue put their statements on the caller's batch, which is the caller's transaction: they
// never commit and never touch the network. Leases end by the database's clock.
package idempotency
