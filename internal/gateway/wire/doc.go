// Package wire sends HTTP requests to one PSP, each once. All dialects use it. It knows no dialect: it builds no
// request, and it does not know what an answer means.
//
// A [Reply] says what is known of a request: there is an answer, or the request was not sent, or it was lost. "Not
// sent" is proof that the PSP never saw the request. There are three proofs: the account's breaker or the bulkhead
// stopped the request before it was sent, the request could not be built, or there was never a connection
// (httptrace.GotConn did not fire).
//
// A list in an answer is split into its records here, too, because each dialect must do that in the same way (cut.go).
//
// Reads have no effect, so they may fail and be repeated. They do not use the breakers: they neither open them nor are
// stopped by them.
//
// The requests of an account, with its reads, hold at most half of the places that are free when it asks. Each account
// has its own breaker. So an account whose requests hang or fail stops no requests of other accounts (ADR 0024).
package wire
