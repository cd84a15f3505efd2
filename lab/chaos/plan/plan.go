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

import (
	"math/rand/v2"
)

// Plan is a seed, and what of it depends on how many there are.
type Plan struct {
	Seed    uint64
	Clients int
	Stripe  bool // the PSP speaks that dialect, and fails in its ways
}

// The streams of random numbers, one for each purpose: to draw more of one changes nothing in the others.
const (
	errandStream uint64 = iota + 1
	carryStream
	blowStream
	mixStream
	keyStream
	deedStream
	slipStream
)

// stream is the random numbers for one purpose, and one errand of one client where there is one.
func (p Plan) stream(purpose uint64, client, n int) *rand.Rand {
	stream := purpose<<56 | uint64(client)<<32 | uint64(n) //nolint:gosec // clients and errands are few
	return rand.New(rand.NewPCG(p.Seed, stream))
}

// Carry is what decides by chance while an errand is carried out: pauses, and which API is asked first.
func (p Plan) Carry(client, n int) *rand.Rand { return p.stream(carryStream, client, n) }

// Wire is what decides by chance what a proxy does.
func (p Plan) Wire(proxy int) *rand.Rand { return p.stream(mixStream, 1, proxy) }

// weighted draws a name by its weight.
func weighted[T any](r *rand.Rand, of []weight[T]) T {
	sum := 0
	for _, w := range of {
		sum += w.weight
	}
	at := r.IntN(sum)
	for _, w := range of {
		if at -= w.weight; at < 0 {
			return w.of
		}
	}
	return of[0].of
}

type weight[T any] struct {
	of     T
	weight int
}

// randomLetters makes a word of letters alone, so no rule takes it for a card number.
func randomLetters(r *rand.Rand, n int) string {
	const alphabet = "abcdefghijklmnopqrstuvwxyz"
	word := make([]byte, n)
	for i := range word {
		word[i] = alphabet[r.IntN(len(alphabet))]
	}
	return string(word)
}
