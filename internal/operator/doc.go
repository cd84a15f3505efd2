// Package operator is for the people who run this. It lists what there is, searches it, shows what is known about a
// dead letter, and carries out what an operator decides.
//
// Read it in this order: service.go (what a Service needs), list.go (the dead letters), decide.go (what an operator
// may ask for), resolve.go (one decision, one transaction), inquiry.go (what is read, asked and judged for it),
// several.go (one decision about several), answered.go (dead letters that close by themselves), listing.go and
// keys.go (the other lists), search.go, spell.go (the JSON), summary.go.
//
// This package decides nothing about money: package judge says what a decision does. Package payments moves keys and
// payments, and package deadletters changes dead letters. It knows no HTTP and no job queue: the retries that need the
// queue or a webhook are functions in Config. What must always hold:
//
//   - The resolution of the dead letter, its audit row, the step of the key and the line in the key's timeline are one
//     transaction.
//   - The PSP is asked before that transaction begins, never inside it.
//   - A refused decision changes nothing of the payment, the key and the dead letter. The audit trail has it.
//   - The PSP is asked for both decisions about money, and one that it contradicts is refused. "Not executed" needs an
//     answer that it gives now, after the grace period. "Executed" does not, because an operator may know more than a
//     PSP that does not answer.
package operator
