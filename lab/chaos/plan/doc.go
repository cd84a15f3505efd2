// Package plan decides by a seed what a chaos run does: what each client wants (Errand), what is done to the programs
// and the network, and when (Blow), and how often the PSP fails and loses webhooks (Mix).
//
// Everything in it is a function of the seed and of nothing else, so that a run can be had again: the same errands in
// the same order for each client, the same blows at the same times, the same rates. It refuses to know what comes of
// them. What a seed does not decide is how it all interleaves, nor what an errand meets that depends on an answer:
// which of its payments a refund is about, how often it is tried again.
//
// # Orders
//
// Each errand that pays has an order of its own: a number that is in the amount, so that the PSP's ledger tells what
// was paid for however it was sent there. That is how a run counts double charges from outside, also of an
// implementation that sends another key each time.
package plan
