// Package client is the caller's half of "charge once": it pays through Payonce's API, and never twice for one intent,
// also when the answer is lost, when the API is killed, and when the calling process itself is killed. It uses the
// standard library only, so that it can be copied into another program.
//
// The rule in one sentence: make a key and store it before the first try, and send every retry with it.
//
// An intent is one payment that the caller wants, under a name that the caller chooses: an order's number. The client
// makes one Idempotency-Key for an intent, and stores the key with the exact bytes of the request before the first
// send. It never makes a second key for the same intent.
//
//	intent ──► make a key ──► store key and body ──► send ──► decide ──► store the end ──► tell
//	                          (Store.Create)          ▲          │
//	                                                  └── wait ◄─┘  the same key, the same bytes
//
// # Where what is
//
//	intent.go      what the caller wants, and the bytes of the request
//	pay.go         Pay and Resume: the whole path
//	turn.go        one call at a time works on an intent
//	send.go        one attempt
//	decide.go      what an answer means for the key: a table, and a pure function
//	wait.go        how long to wait, and Retry-After
//	store.go       what must be durable, as an interface
//	journal.go     a Store in a file
//	result.go      what the client reads in answers
//	errors.go      what a caller may get instead
//	event.go       the way back: an event of Payonce's, verified
//	consume.go     the way back: an event is taken once, whatever the network does
//
// # What always holds
//
//   - A key is sent only after the Store has it. A crash before that has sent nothing, and a crash after that finds the
//     key again.
//   - Each attempt of an intent has the same key and the same bytes.
//   - No answer, and an answer that the table does not have, say nothing. The same key is sent again.
//   - When time is over, the outcome is not known: the error is an [UnknownError]. [Client.Resume], or [Client.Pay]
//     with the same intent, goes on with the same key.
//   - A key is not sent when it is older than [Config.KeyLife]. The server forgets keys after two days (KEY_RETENTION),
//     and would take an old key for a new payment.
//
// # Units, times and errors
//
// AmountCents counts the currency's minor unit, as ISO 4217 defines it: 12000 USD is $120.00, and 12000 KRW is ₩12,000.
// Pay ends at the deadline of its context, and after [Config.Patience] if the context has no deadline. Waiting is
// Retry-After (RFC 9110, section 10.2.3: seconds or an HTTP date) plus jitter, or exponential backoff with full jitter
// (AWS Architecture Blog, "Exponential Backoff And Jitter"). Problems are RFC 9457 documents; their member code chooses
// the row of the table. Being paid and being declined are results. All else is an error: [UnknownError],
// [RefusedError], [StuckError], [ErrIntentChanged], [ErrKeyTooOld], or an error of the Store.
//
// An error of the Store does not say that nothing is paid. If the first record could not be made durable, nothing was
// sent by this call; but the record may be on the disk all the same, and the next Resume then pays the intent. If the
// end could not be stored, the customer may have been charged. Treat it as an UnknownError: repair the Store, and call
// Resume or Pay with the same intent. After a failed write a [Journal] takes no more records until it is opened again.
//
// The package does not read payments, and it does not refund.
package client
