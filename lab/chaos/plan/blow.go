package plan

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

// BlowKind is something that is done to the programs, the database or the network.
type BlowKind string

// The blows.
const (
	KillAPI         BlowKind = "kill-api"
	KillReconciler  BlowKind = "kill-reconciler"
	KillPSP         BlowKind = "kill-psp" // its ledger survives
	KillTwo         BlowKind = "kill-two"
	PauseAPI        BlowKind = "pause-api" // beyond the lease
	PauseReconciler BlowKind = "pause-reconciler"
	StopAPI         BlowKind = "stop-api" // in good order, and started again
	StopReconciler  BlowKind = "stop-reconciler"
	CrashPostgres   BlowKind = "crash-postgres"
	EndSessions     BlowKind = "end-sessions" // PostgreSQL ends them all, whatever they are at
	DropAcks        BlowKind = "drop-acks"    // answers of the database to what was committed
	CutRounds       BlowKind = "cut-rounds"   // before they reach the database
	LockTables      BlowKind = "lock-tables"  // until the pools are exhausted
	StoreAway       BlowKind = "store-away"   // for one process
	PSPAway         BlowKind = "psp-away"     // for one process
	FrontAway       BlowKind = "front-away"   // where webhooks come in
	MangleCalls     BlowKind = "mangle-calls" // to the PSP: cut before, cut after, half an answer, a 500
	HoldCharges     BlowKind = "hold-charges" // on their way to the PSP, until after the grace period
	HoldObjects     BlowKind = "hold-objects" // Stripe's, on their way into the database, until the lease is over
	AgeWebhooks     BlowKind = "age-webhooks" // a week has passed for those that are processed
	CrashPart       BlowKind = "crash-part"   // a server that has a part of the tenants
	MoveTenant      BlowKind = "move-tenant"  // from one of these to another
)

// OfParts are the blows that need tenants on several servers.
func OfParts() []BlowKind { return []BlowKind{CrashPart, MoveTenant} }

// OfStripe are the blows that need a PSP of two steps.
func OfStripe() []BlowKind { return []BlowKind{HoldObjects} }

// deck is every kind once, with the shortest and the longest that it lasts.
var deck = []struct {
	kind     BlowKind
	from, to time.Duration
}{
	{KillAPI, 100 * time.Millisecond, 1500 * time.Millisecond},
	{KillReconciler, 100 * time.Millisecond, 2 * time.Second},
	{KillPSP, 100 * time.Millisecond, time.Second},
	{KillTwo, 100 * time.Millisecond, 1500 * time.Millisecond},
	{PauseAPI, 3500 * time.Millisecond, 5 * time.Second},
	{PauseReconciler, 2 * time.Second, 5 * time.Second},
	{StopAPI, 0, 500 * time.Millisecond},
	{StopReconciler, 0, 500 * time.Millisecond},
	{CrashPostgres, 0, 0},
	{EndSessions, 0, 0},
	{DropAcks, 2 * time.Second, 4 * time.Second},
	{CutRounds, time.Second, 3 * time.Second},
	{LockTables, 1200 * time.Millisecond, 2600 * time.Millisecond},
	{StoreAway, 500 * time.Millisecond, 2 * time.Second},
	{PSPAway, 500 * time.Millisecond, 2 * time.Second},
	{FrontAway, time.Second, 3 * time.Second},
	{MangleCalls, 2 * time.Second, 4 * time.Second},
	{HoldCharges, 7 * time.Second, 9 * time.Second},
	{AgeWebhooks, 0, 0},
	{HoldObjects, 4 * time.Second, 5 * time.Second},
	{CrashPart, 0, 0},
	{MoveTenant, 0, 0},
}

// BlowKinds lists all kinds.
func BlowKinds() []BlowKind {
	var all []BlowKind
	for _, card := range deck {
		all = append(all, card.kind)
	}
	return all
}

// Blow is a kind at a time, for a while. Target chooses the process among those that it can hit.
type Blow struct {
	Kind   BlowKind
	At     time.Duration // from the beginning of the chaos
	For    time.Duration
	Target int
}

// The pause before the first blow, between two, and at the end, when they all are to be over.
const (
	calmAtFirst = 2 * time.Second
	shortestGap = 500 * time.Millisecond
	longestGap  = 2500 * time.Millisecond
	calmAtLast  = time.Second
)

// Blows is the schedule, in order of time: the whole deck, shuffled, and again, so that each kind comes before any
// comes twice. If there is time for one deck at all, it is dealt whole: faster where time is short. Some kinds may be
// left out.
func (p Plan) Blows(length time.Duration, without ...BlowKind) []Blow {
	r := p.stream(blowStream, 0, 0)
	cards := slices.DeleteFunc(slices.Clone(BlowKinds()), func(k BlowKind) bool { return slices.Contains(without, k) })
	gap := min(longestGap, (length-calmAtFirst-longestOf(cards)-calmAtLast)/time.Duration(len(cards)))
	gap = max(gap, shortestGap)
	var blows []Blow
	at := calmAtFirst
	for {
		for _, i := range r.Perm(len(cards)) {
			b := blowOf(r, cards[i])
			b.At = at + time.Duration(r.Float64()*float64(gap)/2)
			if b.At > length-calmAtLast {
				return sorted(blows)
			}
			if b.At+b.For <= length-calmAtLast {
				blows = append(blows, b)
			}
			at += gap
		}
	}
}

func sorted(blows []Blow) []Blow {
	slices.SortStableFunc(blows, func(a, b Blow) int { return cmp.Compare(a.At, b.At) })
	return blows
}

func longestOf(cards []BlowKind) (longest time.Duration) {
	for _, card := range deck {
		if slices.Contains(cards, card.kind) {
			longest = max(longest, card.to)
		}
	}
	return longest
}

func blowOf(r *rand.Rand, kind BlowKind) Blow {
	for _, card := range deck {
		if card.kind == kind {
			return Blow{Kind: kind, For: card.from + time.Duration(r.Float64()*float64(card.to-card.from)),
				Target: r.IntN(1 << 16)}
		}
	}
	return Blow{Kind: kind}
}
