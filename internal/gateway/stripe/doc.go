// Package stripe speaks to Stripe, and to whatever speaks its dialect. It implements [gateway.PSP].
//
// Stripe's dialect makes an object first and executes it later. The object of a charge is a PaymentIntent. An intent
// that is not confirmed moves no money. So a charge has two steps:
//
//   - Create. It may be lost or repeated without harm. Only an intent whose id the caller has stored is ever confirmed.
//   - Confirm. It moves the money. It is sent once, and never again.
//
// If the answer to a confirmation is no verdict, the intent itself is read. Reading an object by its id is strongly
// consistent. An intent that is not executed yet is cancelled: "After it's canceled, no additional charges are made by
// the PaymentIntent" (https://docs.stripe.com/api/payment_intents/cancel). So non-execution is a fact at once, and no
// grace period is needed (docs/adr/0049-make-the-object-then-execute-it.md). table_test.go has all steps and answers.
//
// # What is ours
//
// A Stripe account often has payments of other programs, and may have those of other installations of Payonce. Each
// object that we make has three marks in its metadata: origin, reference and idempotency_key. The origin has the id of
// the installation. An intent with another origin, or none, is foreign: lists count it, statements and events skip it.
// A lookup asks about a payment of ours, which key and reference bind to its intent; only an intent of our origin is
// ever cancelled. A refund or a dispute is ours by the intent that it changes, not by who made it. So one with another
// origin is a record without key and reference, and the caller looks for its intent. The id of a charge is the id of
// its PaymentIntent (pi_), and the id of a refund is that of the Refund (re_).
//
// # What proves nothing
//
// Stripe's search (/v1/payment_intents/search) lags by up to a minute, and in an outage by more
// (https://docs.stripe.com/search#data-freshness). So what it finds counts, and a search that finds nothing proves
// nothing. An intent whose id is not known is found by making it again under the same key: Stripe then returns the
// first answer (https://docs.stripe.com/api/idempotent_requests). Refunds are found by the list of their intent.
//
// # Where to read
//
//	charge.go     create, confirm, and what follows without a verdict
//	intent.go     what a PaymentIntent says about a charge
//	resolve.go    read and cancel
//	lookup.go     what became of a charge or a refund
//	refund.go     give money back
//	dispute.go    what a Dispute says about a charge
//	list.go       the ledger, oldest first, over lists that are newest first
//	statement.go  the balance transactions of a day
//	verify.go     whether a webhook is genuine; event.go: what it says
//	amount.go     amounts in Stripe's units
package stripe
