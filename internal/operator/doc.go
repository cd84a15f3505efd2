// Package operator is the desk at which people close what the machinery cannot: it lists dead letters, shows what is known about
// one, and carries out what an operator decides.
//
// Read it in this order: desk.go (what a desk is made of), list.go (what lies on it), decide.go (what may be asked), resolve.go (one
// decision, one transaction), refuse.go (what is not done), spell.go (how it looks), summary.go. What each decision does is judged in
// package payments.
//
// It decides nothing about money by itself: keys and payments move by package payments, letters by package deadletters. It knows no
// HTTP and no job queue; what a letter of the queue's or of a webhook needs is handed to it. What must always hold:
//
//   - The letter's resolution, its audit row, the key's move and the line in the key's timeline are one transaction.
//   - The PSP is asked before that transaction begins, never inside it.
//   - What is refused moves nothing, and is audited all the same.
//   - "Not executed" needs the PSP's word, given just now, after the settle window. "Executed" does not: a human may know more than a
//     PSP that is silent. But nobody overrules what the PSP says.
package operator
