package nemesis

import (
	"context"
	"time"

	"payonce/lab/chaos/plan"
	"payonce/lab/program"
	"payonce/lab/world"
)

// action does something for a while. It reports whether it could.
type action func(ctx context.Context, d time.Duration) bool

// prepare chooses the target, and what is done to it.
func (n *Nemesis) prepare(b plan.Blow) (target string, do action) {
	switch b.Kind {
	case plan.KillAPI:
		return n.on(n.api(b), n.kill)
	case plan.KillReconciler:
		return n.on(n.reconciler(b), n.kill)
	case plan.KillPSP:
		return n.on(n.o.World.PSP, n.kill)
	case plan.KillTwo:
		return n.killTwo(b)
	case plan.PauseAPI:
		return n.on(n.api(b), n.pause)
	case plan.PauseReconciler:
		return n.on(n.reconciler(b), n.pause)
	case plan.StopAPI:
		return n.on(n.api(b), n.stop)
	case plan.StopReconciler:
		return n.on(n.reconciler(b), n.stop)
	case plan.CrashPostgres:
		return "postgres", n.crashPostgres
	case plan.EndSessions:
		return "postgres", n.endSessions
	case plan.LockTables:
		return "postgres", n.lockTables
	case plan.AgeWebhooks:
		return "postgres", n.ageWebhooks
	case plan.CrashPart:
		return "worker", func(ctx context.Context, _ time.Duration) bool { return n.crashPart(ctx, b.Target) }
	case plan.MoveTenant:
		return "worker", func(ctx context.Context, _ time.Duration) bool { return n.moveTenant(ctx, b.Target) }
	case plan.FrontAway:
		return "front", n.frontAway
	case plan.DropAcks:
		return n.near(n.unspared(b), n.dropAcks)
	case plan.CutRounds:
		return n.near(n.anyOf(b), n.cutRounds)
	case plan.StoreAway:
		return n.near(n.unspared(b), n.storeAway)
	case plan.PSPAway:
		return n.near(n.anyOf(b), n.pspAway)
	case plan.MangleCalls:
		return n.near(n.unspared(b), n.mangleCalls)
	case plan.HoldObjects:
		return n.near(n.api(b), n.holdObjects)
	case plan.HoldCharges:
		return n.near(n.api(b), n.holdCharges)
	}
	return "nothing", func(context.Context, time.Duration) bool { return false }
}

func (n *Nemesis) api(b plan.Blow) *world.Process { return n.o.APIs[b.Target%len(n.o.APIs)] }

func (n *Nemesis) reconciler(b plan.Blow) *world.Process {
	return n.o.Reconcilers[b.Target%len(n.o.Reconcilers)]
}

func (n *Nemesis) anyOf(b plan.Blow) *world.Process { return n.processes[b.Target%len(n.processes)] }

// unspared is anyOf, but an API where reconcilers are spared.
func (n *Nemesis) unspared(b plan.Blow) *world.Process {
	if n.o.Spare {
		return n.api(b)
	}
	return n.anyOf(b)
}

// on is for what happens to the process itself: it is nobody else's meanwhile.
func (n *Nemesis) on(p *world.Process, do func(context.Context, *world.Process, time.Duration)) (string, action) {
	return p.Name, func(ctx context.Context, d time.Duration) bool {
		n.guards[p].Lock()
		defer n.guards[p].Unlock()
		if ctx.Err() != nil {
			return false
		}
		do(ctx, p, d)
		return true
	}
}

// near is for what happens around it.
func (n *Nemesis) near(
	p *world.Process, do func(context.Context, *world.Process, time.Duration) bool,
) (string, action) {
	return p.Name, func(ctx context.Context, d time.Duration) bool { return do(ctx, p, d) }
}

func (n *Nemesis) kill(ctx context.Context, p *world.Process, d time.Duration) {
	p.Kill()
	n.o.Tally.One("kill -9", p.Name)
	program.Wait(ctx, d)
	n.comeBack(ctx, p)
}

// killTwo kills an API and any other at the same moment.
func (n *Nemesis) killTwo(b plan.Blow) (string, action) {
	first := n.api(b)
	second := n.processes[(b.Target/len(n.o.APIs))%len(n.processes)]
	if second == first || n.o.Spare {
		second = n.api(plan.Blow{Target: b.Target + 1})
	}
	return first.Name + " " + second.Name, func(ctx context.Context, d time.Duration) bool {
		_, one := n.on(first, n.kill)
		_, two := n.on(second, n.kill)
		done := make(chan bool)
		go func() { done <- two(ctx, d/2) }()
		did := one(ctx, d)
		return <-done && did
	}
}

func (n *Nemesis) pause(ctx context.Context, p *world.Process, d time.Duration) {
	p.Pause()
	n.o.Tally.One("pause", p.Name)
	program.Wait(ctx, d)
	p.Resume()
}

func (n *Nemesis) stop(ctx context.Context, p *world.Process, d time.Duration) {
	p.Stop()
	program.Wait(ctx, d)
	n.comeBack(ctx, p)
}
