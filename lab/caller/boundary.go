package main

import "math/rand/v2"

// boundary is a place between two steps of a caller, where its process can be killed.
type boundary string

// The boundaries, in the order of the steps.
const (
	made     boundary = "made"     // the key is made and not stored
	stored   boundary = "stored"   // stored and not sent
	sent     boundary = "sent"     // sent and not answered
	answered boundary = "answered" // answered and not recorded
	recorded boundary = "recorded" // recorded and not told
	nowhere  boundary = "-"
)

var boundaries = []boundary{made, stored, sent, answered, recorded}

// Shares of the intents whose caller is killed, and of those among them whose next life ends early as well.
const (
	killShare  = 0.25
	againShare = 0.3
)

// declineEvery is one intent that the PSP refuses.
const declineEvery = 20

// errand is an intent of a shop: what is to be paid, and where the caller is killed on the way, one boundary for each
// of its lives.
type errand struct {
	index int
	token string
	kills []boundary
	told  string // paid, declined or failed; empty while the caller has not told
}

// errands are what a seed decides.
func errands(r *rand.Rand, first, n int) []*errand {
	all := make([]*errand, 0, n)
	for i := range n {
		e := &errand{index: first + i, token: "pm_ok"}
		if e.index%declineEvery == 0 {
			e.token = "pm_declined"
		}
		if r.Float64() < killShare {
			e.kills = append(e.kills, boundaries[r.IntN(len(boundaries))])
			if r.Float64() < againShare {
				e.kills = append(e.kills, boundaries[2+r.IntN(len(boundaries)-2)])
			}
		}
		all = append(all, e)
	}
	return all
}

// next is where the caller is killed in its next life.
func (e *errand) next() boundary {
	if len(e.kills) == 0 {
		return nowhere
	}
	return e.kills[0]
}
