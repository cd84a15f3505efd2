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
