// Package gateway is the client of the payment service provider (PSP). It sends one request, once, and says what can be
// known of its effect; and it reads what the PSP says has happened, by key, as a ledger, and as a settlement file. It has no
// memory, opens no transaction and does not import a database: a PSP call can therefore never happen inside one.
//
// An Outcome is a value, never an error. The rule that decides between two of them is the heart of the package:
//
//   - NotExecuted needs proof that the PSP never saw the request. There are two proofs here: the account's breaker or
//     the bulkhead stopped it before it was sent, or no connection was ever obtained (httptrace.GotConn never fired).
//   - Succeeded and Declined need a well-formed answer that matches the request in account, key, reference, amount
//     and currency. Declined is also the one error that is documented to come before any effect, when it echoes account,
//     key and reference ([Charge], refusal.go).
//   - Everything else is Indeterminate: a timeout, a reset, a 5xx, a redirect, a 4xx that is no verdict, an answer
//     too long, malformed, or about something else. One that contradicts the request says so, for an operator.
//
// # Reading
//
// A [Record] is what the PSP's ledger says of one charge or refund. Judge makes an Outcome of it, by the comparison that live
// answers go through. Reads have no effect, so they may be repeated, and fail without consequence. Three rules keep a bad
// answer from becoming a conclusion:
//
//   - NotFound is a well-formed, empty list that states its end. Records of another account, key or object mean that the PSP
//     has not answered our question: LookupFailed.
//   - A page of [Client.List] is oldest first and says whether more follow, with a cursor that leads on, or it is an error.
//   - A statement is whole only with the trailer that counts its lines. [Client.Statement] delivers while it reads, and
//     what is missing in it is known to be missing only when it has returned nil.
//
// A list is cut into its records by quotes and brackets, and each record is read strictly: one that is wrong or too long is
// returned as [Unreadable] and hides no other. A lookup that meets one has failed.
//
// A lookup says nothing of a request that is still on its way: how long to wait for that (the settle window) is for the
// caller to decide. Reads pass by the breaker, and neither open it nor heed it.
//
// # One account and the others
//
// The requests of an account, reads among them, hold at most half of the places that are free when it asks, and each account has a
// breaker of its own. So an account whose requests hang or fail refuses nobody else's (ADR 0024).
package gateway
