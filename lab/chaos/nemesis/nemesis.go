// Package nemesis does to a world what a plan says: it kills and pauses its programs, crashes its database, and makes
// the network between them fail. Each blow is bounded in time, undone at its end, written into the history, and
// counted.
//
// It also keeps the programs up, as whatever runs them in earnest does: one that has ended by itself is started again,
// and counted. Two blows never have the same process at the same time; the later one waits. It refuses to know what
// clients do, and what is right.
package nemesis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"payonce/lab/chaos/plan"
	"payonce/lab/chaos/tally"
	"payonce/lab/history"
	"payonce/lab/program"
	"payonce/lab/world"
	"payonce/test/httpproxy"
	"payonce/test/pgproxy"
)

// Options say what there is to strike.
type Options struct {
	Plan        plan.Plan
	Site        *world.Site
	World       *world.World
	APIs        []*world.Process
	Reconcilers []*world.Process
	// Spare keeps reconcilers from what may lose a job that they have taken, killed or cut off: it comes back after two
	// minutes.
	Spare    bool
	Recorder *history.Recorder
	Tally    *tally.Tally
	Say      func(string)
	// Failed hears of a process that does not come back, and of what could not be undone.
	Failed func(where, detail string)
}

const (
	comeBackLimit = 40 * time.Second
	watchEvery    = 250 * time.Millisecond
)

// Nemesis strikes.
type Nemesis struct {
	o         Options
	guards    map[*world.Process]*sync.Mutex // held by the blow that has the process
	postgres  sync.Mutex
	mangled   atomic.Uint64 // calls so far
	luck      *luck
	processes []*world.Process
}

// New has all proxies pass everything, and nothing remembered.
func New(o Options) *Nemesis {
	n := &Nemesis{o: o, guards: map[*world.Process]*sync.Mutex{}, luck: &luck{rand: o.Plan.Wire(0)}}
	n.processes = append(append([]*world.Process{}, o.APIs...), o.Reconcilers...)
	for _, p := range append(n.processes, o.World.PSP) {
		n.guards[p] = &sync.Mutex{}
	}
	for _, p := range n.processes {
		n.letPass(p)
	}
	return n
}

// letPass is for both proxies. That before the database is not told to forget the choice: it would remember each round
// again.
func (n *Nemesis) letPass(p *world.Process) {
	n.letRoundsPass(p)
	n.letCallsPass(p)
}

func (n *Nemesis) letRoundsPass(p *world.Process) {
	p.DB.Choose(func([]string) pgproxy.Action { return pgproxy.Pass })
}

func (n *Nemesis) letCallsPass(p *world.Process) {
	p.PSP.Choose(func(httpproxy.Call) httpproxy.Action { return httpproxy.Pass })
}

// Run strikes by the schedule, each blow for itself, and returns when the last one is undone. If ctx ends, no further
// one begins, and those under way end early.
func (n *Nemesis) Run(ctx context.Context, blows []plan.Blow) {
	began := time.Now()
	var running sync.WaitGroup
	defer running.Wait()
	for _, b := range blows {
		if !program.Wait(ctx, b.At-time.Since(began)) {
			return
		}
		running.Go(func() { n.strike(ctx, b) })
	}
}

func (n *Nemesis) strike(ctx context.Context, b plan.Blow) {
	target, do := n.prepare(b)
	pending := n.o.Recorder.Begin(history.Operation{Client: -1, API: target, Route: "nemesis " + string(b.Kind)})
	if do(ctx, b.For) {
		n.o.Tally.One("blow", string(b.Kind))
	}
	pending.End(0, nil, nil)
}

// Watch starts again what has ended by itself, until ctx ends.
func (n *Nemesis) Watch(ctx context.Context) {
	for program.Wait(ctx, watchEvery) {
		for _, p := range n.processes {
			if !n.guards[p].TryLock() {
				continue
			}
			if !p.Running() {
				n.o.Tally.One("ended by itself", p.Name)
				n.o.Say(p.Name + " has ended by itself")
				n.comeBack(ctx, p)
			}
			n.guards[p].Unlock()
		}
	}
}

// Heal undoes everything that can be undone from outside, and returns when all programs are up.
func (n *Nemesis) Heal(ctx context.Context) {
	for _, p := range n.processes {
		n.letPass(p)
		n.must(p.Name, p.DB.Restore())
		n.must(p.Name, p.PSP.Restore())
		p.Resume()
	}
	n.must("front", n.o.World.Front.Restore())
	for _, p := range append(n.processes, n.o.World.PSP) {
		n.guards[p].Lock()
		if !p.Running() {
			n.comeBack(ctx, p)
		}
		n.guards[p].Unlock()
	}
}

// comeBack starts a process, again and again: it may not come up while something else is away.
func (n *Nemesis) comeBack(ctx context.Context, p *world.Process) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), comeBackLimit)
	defer cancel()
	for {
		err := p.Start(ctx)
		if err == nil {
			return
		}
		n.o.Tally.One("did not start at once", p.Name)
		if !program.Wait(ctx, watchEvery) {
			n.o.Failed(p.Name, fmt.Sprintf("it did not come back within %s: %v", comeBackLimit, err))
			return
		}
	}
}

func (n *Nemesis) must(where string, err error) {
	if err != nil {
		n.o.Failed(where, err.Error())
	}
}

// luck is shared by proxies, which ask at the same time.
type luck struct {
	mu   sync.Mutex
	rand *rand.Rand
}

func (l *luck) below(share float64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rand.Float64() < share
}
