package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Kind is what a client is up to.
type Kind string

// The kinds of errands. Founders pay for an order of their own under a key of their own; the others come back to what
// there is.
const (
	Pay       Kind = "pay"       // and send again until there is a final answer
	Wait      Kind = "wait"      // the same with Prefer: wait=n
	Async     Kind = "async"     // the same with Prefer: respond-async
	HangUp    Kind = "hang-up"   // give up in the middle of it, then send again
	Race      Kind = "race"      // several at once under the same key, at both APIs
	Twins     Kind = "twins"     // all tenants at once, under equal keys
	LieAtOnce Kind = "liar-race" // the order, and at the same time another one under its key
	Lie       Kind = "liar"      // another order under the key of an earlier one
	Reuse     Kind = "reuse"     // an earlier order once more
	Reborn    Kind = "reborn"    // an order of its own under an earlier key, whose retention is over
	Refund    Kind = "refund"    // of an earlier payment
	Read      Kind = "read"      // payments and keys, also those of the other tenant
	Forge     Kind = "forge"     // webhooks that are not genuine, or not for the first time
	Malformed Kind = "malformed" // requests that must be refused
)

var kinds = []weight[Kind]{
	{Pay, 34}, {Wait, 6}, {Async, 4}, {HangUp, 10}, {Race, 10}, {Twins, 4}, {LieAtOnce, 4}, {Lie, 6}, {Reuse, 10},
	{Reborn, 24}, {Refund, 14}, {Read, 8},
	{Forge, 3}, {Malformed, 4},
}

// Kinds lists all kinds.
func Kinds() []Kind {
	var all []Kind
	for _, w := range kinds {
		all = append(all, w.of)
	}
	return all
}

func (k Kind) founds() bool {
	switch k {
	case Pay, Wait, Async, HangUp, Race, Twins, LieAtOnce:
		return true
	case Lie, Reuse, Reborn, Refund, Read, Forge, Malformed:
	}
	return false
}

// pays reports whether the errand has an order of its own.
func (k Kind) pays() bool { return k.founds() || k == Reborn }

// Errand is one thing that a client wants.
type Errand struct {
	Kind      Kind
	Client, N int
	Tenant    string
	Key       string // of the order; of a refund, its own
	Order     Order
	Other     Order // a liar's
	Prefer    string
	Quoted    bool // the key is sent as a quoted string, which is the same key
	Racers    int
	Patience  int             // how often it is sent, at most
	HangUps   []time.Duration // after which the first tries are given up
	Pick      uint64          // chooses one of those that are there when it comes to that
	Share     float64         // of the payment, to be refunded; 0 is the rest of it, more than 1 is too much
	Reason    string
}

// The merchants. Small ones are limited to a few requests per second.
var (
	bigTenants   = []string{"acme", "globex"}
	smallTenants = []string{"initech", "umbrella"}
)

// Tenants are all merchants.
func Tenants() []string { return slices.Concat(bigTenants, smallTenants) }

// SmallTenants are those with a limit.
func SmallTenants() []string { return slices.Clone(smallTenants) }

// smallShare is how many of the errands are the small tenants'.
const smallShare = 0.06

func tenantOf(r *rand.Rand) string {
	if r.Float64() < smallShare {
		return smallTenants[r.IntN(len(smallTenants))]
	}
	return bigTenants[r.IntN(len(bigTenants))]
}

// Errand is the client's n-th. It is the same whenever it is asked for.
func (p Plan) Errand(client, n int) Errand {
	r := p.stream(errandStream, client, n)
	kind := weighted(r, kinds)
	e := Errand{Kind: kind, Client: client, N: n, Tenant: tenantOf(r), Key: p.key(client, n), Patience: 6 + r.IntN(8),
		Pick: r.Uint64()}
	e.Quoted = r.IntN(10) == 0
	e.Racers = 2 + r.IntN(4)
	switch {
	case kind.founds():
		e.Order = p.order(r, client, n)
		e.Other = e.Order.lie(r)
	case kind == Lie || kind == Reuse:
		e = p.comeBack(r, e)
	case kind == Reborn:
		e = p.takeAgain(r, e)
	}
	e.draw(r, p.reasons())
	return e
}

// comeBack takes the order of an earlier errand. A client that has none yet begins with one.
func (p Plan) comeBack(r *rand.Rand, e Errand) Errand {
	for m := r.IntN(e.N + 1); m >= 0; m-- {
		if m == e.N || !p.kind(e.Client, m).pays() {
			continue
		}
		earlier := p.Errand(e.Client, m)
		e.Tenant, e.Key, e.Order = earlier.Tenant, earlier.Key, earlier.Order
		e.Other = e.Order.lie(r)
		return e
	}
	e.Kind, e.Order = Pay, p.order(r, e.Client, e.N)
	e.Other = e.Order.lie(r)
	return e
}

// oldest is which part of a client's errands Reborn goes back to: of those, the retention may be over.
const oldest = 3

// takeAgain takes the key of an errand of long ago, for an order of its own.
func (p Plan) takeAgain(r *rand.Rand, e Errand) Errand {
	for m := r.IntN(e.N/oldest + 1); m >= 0 && m < e.N; m-- {
		if !p.kind(e.Client, m).founds() {
			continue
		}
		earlier := p.Errand(e.Client, m)
		e.Tenant, e.Key = earlier.Tenant, earlier.Key
		break
	}
	e.Order = p.order(r, e.Client, e.N)
	e.Other = e.Order.lie(r)
	return e
}

func (p Plan) kind(client, n int) Kind { return weighted(p.stream(errandStream, client, n), kinds) }

func (p Plan) key(client, n int) string {
	return "chaos-" + randomLetters(p.stream(keyStream, client, n), 20)
}

// draw draws what belongs to the kind.
func (e *Errand) draw(r *rand.Rand, reasons []weight[string]) {
	switch e.Kind {
	case Wait:
		e.Prefer = fmt.Sprintf("wait=%d", 1+r.IntN(3))
	case Async:
		e.Prefer = "respond-async"
	case HangUp:
		for range 1 + r.IntN(3) {
			e.HangUps = append(e.HangUps, time.Duration(r.IntN(400))*time.Millisecond*time.Duration(1+r.IntN(3)))
		}
	case Refund:
		e.Share = weighted(r, []weight[float64]{{0, 3}, {0.3, 4}, {0.6, 4}, {1, 2}, {1.5, 2}})
		e.Reason = weighted(r, reasons)
	case Pay, Race, Twins, LieAtOnce, Lie, Reuse, Reborn, Read, Forge, Malformed:
	}
}

// reasons of refunds. Those that are a payment method's token pick what goes wrong at the mock PSP.
var reasons = []weight[string]{
	{"one item was sold out", 20}, {"", 4}, {"pm_declined", 1}, {"pm_timeout_charged", 2}, {"pm_silent_charged", 1},
	{"pm_timeout_not_charged", 2},
	{"pm_500_charged", 1}, {"pm_500_not_charged", 1}, {"pm_reset_charged", 1}, {"pm_late_charge", 1}, {"pm_slow", 2},
	{"pm_forgotten_key", 1},
}

// reasons of refunds. At Stripe, a bank may take its time with a refund, too. None is stuck there: refunds are looked
// up by the list of their payment, which a stuck one makes fail, so that nobody could decide the payment's others.
func (p Plan) reasons() []weight[string] {
	if p.Stripe {
		return slices.Concat(reasons, []weight[string]{{"pm_bank_debit", 1}, {"pm_bank_debit_fails", 1}})
	}
	return slices.Concat(reasons, []weight[string]{{"pm_stuck", 1}})
}

// RefundIntent digests what a refund asks, behind the payment's id. An amount of 0 is the whole rest.
func RefundIntent(paymentID string, amount int64, reason string) string {
	return paymentID + " " + digest(fmt.Sprintf("%d %s", amount, reason))
}
