package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"payonce/demo/mockpsp"
	"payonce/lab/invariants"
	"payonce/lab/world"
	"payonce/test/httpproxy"
)

// places are how many callers pay at a server at a time. Each has a process of the server for itself.
const places = 4

// stage is what a run plays on: a world for Payonce, and one for step 07.
type stage struct {
	site    *world.Site
	targets []*target
	client  *world.Client
	amounts atomic.Int64 // the last one: each payment has an amount of its own, by which the PSP's ledger tells it
	say     func(string)
}

// target is a server that is paid at.
type target struct {
	name   string
	own    bool // Payonce itself
	world  *world.World
	places []*place
}

// place is where one caller pays.
type place struct {
	target  *target
	api     *world.Process
	front   *httpproxy.Proxy
	limited string // Payonce's alone: the API key of a tenant that may send one request a second

	mu   sync.Mutex
	seen map[string]int // requests at the front, by key
}

// payment is the name of a call at the front.
const payment = "payment"

func open(ctx context.Context, root, dir, wait string, say func(string)) (_ *stage, err error) {
	g := &stage{client: world.NewClient(), say: say}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.close())
		}
	}()
	programs, err := world.FindOrBuild(ctx, "", dir, say)
	if err != nil {
		return nil, err
	}
	step := programs.Path("step07")
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", step, "./steps/07")
	build.Dir = filepath.Join(root, "course")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build step 07: %w\n%s", err, out)
	}
	say("starting PostgreSQL and the programs")
	if g.site, err = world.Open(ctx, world.Options{Programs: programs, Dir: dir, Say: say}); err != nil {
		return nil, err
	}
	// A slow first request is within PSP_TIMEOUT.
	settings := map[string]string{"PSP_TIMEOUT": "2500ms", "LEASE": "7500ms",
		"WEBHOOK_SECRET": mockpsp.DemoWebhookSecret}
	if err := g.add(ctx, "step 07", world.Plan{Program: step, Env: maps.Clone(settings)}); err != nil {
		return nil, err
	}
	name := "Payonce"
	settings["IN_FLIGHT_WAIT"] = wait // empty: the API's default, and not the short one of a world
	if wait != "" {
		name += ", IN_FLIGHT_WAIT=" + wait
	}
	return g, g.add(ctx, name, world.Plan{Env: settings})
}

// add starts a server.
func (g *stage) add(ctx context.Context, name string, plan world.Plan) error {
	w, err := g.site.New(ctx, plan)
	if err != nil {
		return err
	}
	t := &target{name: name, own: plan.Program == "", world: w}
	g.targets = append(g.targets, t)
	apis, _, err := w.Start(ctx, places, count(t.own)) // step 07 reconciles by itself
	if err != nil {
		return err
	}
	for i, api := range apis {
		p := &place{target: t, api: api, seen: map[string]int{}}
		t.places = append(t.places, p)
		p.front, err = httpproxy.Open(httpproxy.Options{Upstream: func() string { return api.Address },
			Name: func(*http.Request) string { return payment }, Arrived: p.count})
		if err != nil {
			return err
		}
		if t.own {
			if p.limited, err = w.AddTenant(ctx, fmt.Sprintf("limited-%d", i), 1); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *place) count(c httpproxy.Call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen[c.Header.Get("Idempotency-Key")]++
}

// requests counts those that have arrived with a key.
func (p *place) requests(key string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[key]
}

// play has every caller meet every fault at every server, and reads the ledgers in the end. At step 07, callers are as
// they come.
func (g *stage) play(ctx context.Context, ready []caller, missing []string) ([]result, error) {
	var results []*result
	all, playing := errgroup.WithContext(ctx)
	for _, t := range g.targets {
		comes, set := &result{target: t, name: t.name, missing: missing}, &result{target: t, name: t.name + ", set"}
		for _, c := range ready {
			if !c.set {
				comes.rows = append(comes.rows, &row{caller: c})
			} else if t.own {
				set.rows = append(set.rows, &row{caller: c})
			}
		}
		results = append(results, comes)
		if len(set.rows) > 0 {
			results = append(results, set)
		}
		free := make(chan *place, places)
		for _, p := range t.places {
			free <- p
		}
		for _, r := range slices.Concat(comes.rows, set.rows) {
			all.Go(func() error {
				select {
				case p := <-free:
					defer func() { free <- p }()
					return g.meetAll(playing, p, r)
				case <-playing.Done():
					return playing.Err()
				}
			})
		}
	}
	if err := all.Wait(); err != nil {
		return nil, err
	}
	var judged []result
	for _, r := range results {
		ledger, err := invariants.ReadLedger(ctx, http.DefaultClient, "http://"+r.target.world.PSP.Address)
		if err != nil {
			return nil, err
		}
		r.judge(ledger)
		judged = append(judged, *r)
	}
	return judged, nil
}

// meetAll has one caller meet every fault that the server has.
func (g *stage) meetAll(ctx context.Context, p *place, r *row) error {
	succeeded := 0
	for _, f := range faults {
		met := &cell{fault: f.name, amount: g.newAmount()}
		r.cells = append(r.cells, met)
		if f.limits && !p.target.own {
			continue
		}
		if err := g.meet(ctx, p, r.caller, f, met); err != nil {
			return fmt.Errorf("%s, %s, %s: %w", p.target.name, r.caller.name, f.name, err)
		}
		succeeded += count(met.told.outcome() == success)
	}
	g.say(fmt.Sprintf("%s: %s %s was told the success under %d of %d faults", p.target.name, r.caller.name,
		r.caller.version, succeeded, len(r.cells)))
	return nil
}

// newAmount is that of one payment alone, in cents.
func (g *stage) newAmount() int64 { return 100_000 + g.amounts.Add(1) }

func (g *stage) close() error {
	var errs []error
	for _, t := range g.targets {
		for _, p := range t.places {
			if p.front != nil {
				p.front.Close()
			}
		}
		errs = append(errs, t.world.Close())
	}
	if g.site != nil {
		errs = append(errs, g.site.Close())
	}
	g.client.Close()
	return errors.Join(errs...)
}
