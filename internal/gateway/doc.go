// Package gateway is the port to the payment service providers (PSPs): values in and values out. [PSP] is what the rest
// of the product may ask of a provider, and [Traits] are the facts about one that others depend on. Each package below
// speaks one provider's dialect: native the mock's own, stripe that of Stripe. Only package app knows which there are.
// Package wire sends their HTTP requests. None of them stores anything, opens a transaction or imports a database. So a
// call of a PSP never happens inside a transaction.
//
// An [Outcome] is a value, never an error. These rules decide which Outcome an answer is, in every dialect:
//
//   - NotExecuted needs proof that the request had no effect: the PSP never saw it, or it has ended it, or it says so
//     in an answer that is documented to come before any effect.
//   - Succeeded and Declined need a well-formed answer that matches the request in account, key, reference, amount and
//     currency.
//   - Pending needs the PSP's word that it has the request and waits for somebody else.
//   - Everything else is Indeterminate: a timeout, a reset, a 5xx, a redirect, a 4xx that is no verdict, and an answer
//     that is too long, malformed, or about something else. An answer that contradicts the request is marked as a
//     contradiction, for an operator.
//
// # Reading
//
// A [Record] is what the PSP's ledger says about one charge or refund. Judge compares it with the request, as a dialect
// compares an answer, and makes an Outcome of it. Reads have no effect, so they may fail and be repeated. A dialect
// that cannot read a list with certainty returns an error: a record that is left out would be taken for proof. A record
// that is wrong or too long is returned as [Unreadable], and hides no other record.
//
// A lookup that finds nothing is proof only after the grace period, because it does not see a request that is still on
// its way. A provider that can end a request ([ProofByCancelling]) makes it a fact at once.
//
// Records are stored as evidence in a form of our own (codec.go), which no dialect may change.
package gateway
