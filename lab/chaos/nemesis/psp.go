package nemesis

import (
	"bytes"
	"context"
	"time"

	"payonce/lab/program"
	"payonce/lab/world"
	"payonce/test/httpproxy"
)

// mangleMore is how many times as long the blow may last until each way of mangling was met.
const mangleMore = 3

// mangleShare is how often a call to the PSP is mangled while that lasts.
const mangleShare = 0.25

var mangled = []struct {
	do   httpproxy.Action
	name string
}{
	{httpproxy.CutBefore, "cut before"}, {httpproxy.FailBefore, "500 before"}, {httpproxy.CutAfter, "cut after"},
	{httpproxy.HalfAfter, "half an answer"}, {httpproxy.FailAfter, "500 after"},
	{httpproxy.RefuseAfter, "400 after"},
}

// mangleCalls loses calls to the PSP and their answers: those of the process, and those of the first API, since a
// reconciler may have none to make.
func (n *Nemesis) mangleCalls(ctx context.Context, p *world.Process, d time.Duration) bool {
	victims := []*world.Process{p, n.o.APIs[0]}
	for _, victim := range victims {
		victim.PSP.Choose(func(httpproxy.Call) httpproxy.Action {
			if !n.luck.below(mangleShare) {
				return httpproxy.Pass
			}
			how := mangled[n.mangled.Add(1)%uint64(len(mangled))] // in turn: a short run has each of them
			n.o.Tally.One("mangled call", how.name)
			return how.do
		})
	}
	began := n.mangled.Load()
	program.Wait(ctx, d)
	// On a busy machine, and while another blow keeps the victims from calling, it takes longer to meet each way.
	for range mangleMore {
		if n.mangled.Load() >= began+uint64(len(mangled)) || !program.Wait(ctx, d) {
			break
		}
	}
	for _, victim := range victims {
		n.letCallsPass(victim)
	}
	return true
}

func (n *Nemesis) pspAway(ctx context.Context, p *world.Process, d time.Duration) bool {
	return n.away(ctx, p.Name, p.PSP, d)
}

func (n *Nemesis) frontAway(ctx context.Context, d time.Duration) bool {
	return n.away(ctx, "front", n.o.World.Front, d)
}

// maxHeld is how many charges are held at a time.
const maxHeld = 8

// holdCharges keeps the next charges on their way for so long that everybody has given them up: by then their keys may
// have been released as not executed, and clients may have sent them again. The PSP breaks its word thereby that
// nothing is so late.
func (n *Nemesis) holdCharges(ctx context.Context, p *world.Process, d time.Duration) bool {
	coming, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var all []*httpproxy.Event
	for range maxHeld {
		held := p.PSP.OnWhere(world.Charge, showsLate, httpproxy.HoldBefore)
		defer held.Release()
		all = append(all, held)
	}
	if all[0].Reached(coming) != nil {
		return false
	}
	program.Wait(ctx, d)
	for _, held := range all {
		held.Release()
	}
	landing, done := context.WithTimeout(context.WithoutCancel(ctx), landLimit)
	defer done()
	_ = all[0].Landed(landing) // or its sender was killed meanwhile
	return true
}

// showsLate reports whether Payonce can come to know of a charge that lands when everybody has given it up. A stuck
// charge is in no list, so that only the settlement file would tell. A PSP that has forgotten the key charges it once
// more, and that is a fault of its own.
func showsLate(c httpproxy.Call) bool {
	return !bytes.Contains(c.Body, []byte(`"pm_stuck"`)) && !bytes.Contains(c.Body, []byte(`"pm_forgotten_key"`))
}

// landLimit is how long a charge may take to the PSP when it is let go.
const landLimit = 2 * time.Second
