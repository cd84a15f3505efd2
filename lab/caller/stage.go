package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"payonce/lab/invariants"
	"payonce/lab/program"
	"payonce/lab/world"
	"payonce/test/httpproxy"
)

// stage is what a run plays on.
type stage struct {
	site  *world.Site
	world *world.World
	apis  []*world.Process
	front *httpproxy.Proxy // between the callers and the APIs
	dir   string
	turn  atomic.Uint64
	say   func(string)
}

// open starts the programs as lab/chaos does, and puts one more proxy before the APIs.
func open(ctx context.Context, s settings, say func(string)) (_ *stage, err error) {
	g := &stage{say: say}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.close())
		}
	}()
	if g.dir, err = program.TempDir("caller"); err != nil {
		return nil, err
	}
	programs, err := world.FindOrBuild(ctx, "", g.dir, say)
	if err != nil {
		return nil, err
	}
	say("starting PostgreSQL and the programs")
	if g.site, err = world.Open(ctx, world.Options{Programs: programs, Dir: g.dir, Say: say}); err != nil {
		return nil, err
	}
	g.world, err = g.site.New(ctx, world.Plan{
		Env:    map[string]string{"PSP_BREAKER_OPEN": "1s", "LOOKUP_BUDGET": "100"},
		PSPEnv: map[string]string{"MOCKPSP_SEED": fmt.Sprint(s.Seed%(1<<62) + 1)},
	})
	if err != nil {
		return nil, err
	}
	if g.apis, _, err = g.world.Start(ctx, 2, 1); err != nil {
		return nil, err
	}
	g.front, err = httpproxy.Open(httpproxy.Options{Upstream: g.api,
		Name: func(*http.Request) string { return "payment" }})
	return g, err
}

// api is the API whose turn it is, as behind a load balancer.
func (g *stage) api() string {
	for range g.apis {
		if p := g.apis[g.turn.Add(1)%uint64(len(g.apis))]; p.Running() {
			return p.Address
		}
	}
	return ""
}

// lossShare is how many calls and answers are lost between callers and APIs.
const lossShare = 0.1

var losses = []httpproxy.Action{httpproxy.CutBefore, httpproxy.FailBefore, httpproxy.CutAfter, httpproxy.HalfAfter,
	httpproxy.FailAfter, httpproxy.RefuseAfter}

// lose has the proxy lose calls by a seed.
func (g *stage) lose(seed uint64) {
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(seed, 1))
	g.front.Choose(func(httpproxy.Call) httpproxy.Action {
		mu.Lock()
		defer mu.Unlock()
		if r.Float64() >= lossShare {
			return httpproxy.Pass
		}
		return losses[r.IntN(len(losses))]
	})
}

// rates are how often the PSP fails. It declines by token alone, and errs in no way that needs an operator.
var rates = map[string]map[string]float64{
	"rates": {
		"timeout_charged": .01, "timeout_not_charged": .01, "500_charged": .02, "500_not_charged": .02,
		"reset_charged": .02, "late_charge": .01, "slow": .03, "silent_charged": .01,
	},
	"webhooks": {"duplicate": .1, "reorder": .1, "delay": .1, "drop": .1},
}

func (g *stage) fail(ctx context.Context) error {
	return world.SetFaults(ctx, g.world.PSP.Address, rates)
}

// The pauses between two kills of an API, and until it comes back.
const (
	killAPIEvery = 4 * time.Second
	awayFor      = 300 * time.Millisecond
)

// killAPIs kills one API after the other until ctx ends, and has both up in the end.
func (g *stage) killAPIs(ctx context.Context) (kills int, err error) {
	for {
		if !program.Wait(ctx, killAPIEvery) {
			return kills, nil
		}
		p := g.apis[kills%len(g.apis)]
		p.Kill()
		kills++
		program.Wait(ctx, awayFor)
		if err := p.Start(context.WithoutCancel(ctx)); err != nil {
			return kills, err
		}
	}
}

// quietLimit bounds the wait for the end of everything.
const quietLimit = 2 * time.Minute

// ledger waits until nothing can be charged any more, and reads what was charged.
func (g *stage) ledger(ctx context.Context) (*invariants.Ledger, error) {
	ctx, cancel := context.WithTimeout(ctx, quietLimit)
	defer cancel()
	program.Wait(ctx, world.PSPLandsAt+time.Second) // a charge that the PSP has promised to itself is seen by nobody
	open := 0
	err := world.Until(ctx, 250*time.Millisecond, func() (bool, error) {
		const moving = "SELECT count(*) FROM idempotency_keys WHERE status IN ('in_progress', 'unknown')"
		err := g.world.DB.QueryRow(ctx, moving).Scan(&open)
		return open == 0, err
	})
	if err != nil {
		return nil, fmt.Errorf("wait for the last keys, %d have no outcome: %w", open, err)
	}
	return invariants.ReadLedger(ctx, http.DefaultClient, "http://"+g.world.PSP.Address)
}

// close ends everything.
func (g *stage) close() error {
	var errs []error
	if g.front != nil {
		g.front.Close()
	}
	if g.world != nil {
		errs = append(errs, g.world.Close())
	}
	if g.site != nil {
		errs = append(errs, g.site.Close())
	}
	if g.dir != "" {
		errs = append(errs, os.RemoveAll(g.dir))
	}
	return errors.Join(errs...)
}
