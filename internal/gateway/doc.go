// Package gateway is the client of the payment service provider (PSP). It sends a request once, and says what is known
// of its effect. It also reads what the PSP says has happened: by key, as a ledger, and as a settlement file. It stores
// nothing, opens no transaction and does not import a database. So a call of the PSP never happens inside a
// transaction.
//
// An Outcome is a value, never an error. These rules decide which Outcome an answer is:
//
//   - NotExecuted needs proof that the PSP never saw the request. There are three proofs: the account's breaker or
//     the bulkhead stopped the request before it was sent, the request could not be built, or there was never a
//     connection (httptrace.GotConn did not fire).
//   - Succeeded and Declined need a well-formed answer that matches the request in account, key, reference, amount and
//     currency. Declined is also the one error that is documented to come before any effect, if it repeats account,
//     key and reference ([Charge], refusal.go).
//   - Everything else is Indeterminate: a timeout, a reset, a 5xx, a redirect, a 4xx that is no verdict, and an answer
//     that is too long, malformed, or about something else. An answer that contradicts the request is marked as a
//     contradiction, for an operator.
//
// # Reading
//
// A [Record] is what the PSP's ledger says about one charge or refund. Judge compares it with the request, as it
// compares an answer, and makes an Outcome of it. Reads have no effect, so they may fail and be repeated. Three rules
// prevent wrong conclusions from a bad answer:
//
//   - NotFound is a well-formed, empty list that says that it is complete. If a list has records of another account,
//     key or object, the PSP has not answered our question, and the lookup is LookupFailed.
//   - A page of [Client.List] is oldest first, says whether more pages follow, and has a new cursor if they do.
//     Otherwise it is an error.
//   - A statement is complete only if its trailer has the number of its lines. [Client.Statement] passes on the lines
//     while it reads. Only when it has returned nil is it known which lines the statement does not have.
//
// A list is split into its records by quotes and brackets, and each record is read strictly. A record that is wrong or
// too long is returned as [Unreadable], and hides no other record. A lookup with such a record is LookupFailed.
//
// A lookup does not see a request that is still on its way to the PSP. The caller decides how long to wait for such a
// request (the grace period). Reads do not use the breakers: they neither open them nor are stopped by them.
//
// # One account and the others
//
// The requests of an account, with its reads, hold at most half of the places that are free when it asks. Each account
// has its own breaker. So an account whose requests hang or fail stops no requests of other accounts (ADR 0024).
package gateway
