// Package gateway is the client of the payment service provider (PSP). It sends one request, once, and says what can be
// known of its effect. It has no memory, opens no transaction and does not import a database: a PSP call can
// therefore never happen inside one.
//
// An Outcome is a value, never an error. The rule that decides between two of them is the heart of the package:
//
//   - NotExecuted needs proof that the PSP never saw the request. There are two proofs here: the breaker or the
//     bulkhead stopped it before it was sent, or no connection was ever obtained (httptrace.GotConn never fired).
//   - Succeeded and Declined need a well-formed answer that matches the request in account, key, reference, amount
//     and currency.
//   - Everything else is Indeterminate: a timeout, a reset, a 5xx, a redirect, a 4xx that is no verdict, an answer
//     too long, malformed, or about something else. One that contradicts the request says so, for an operator.
package gateway
