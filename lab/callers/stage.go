package main

import (
	"context"
	"errors"
	"fmt"
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
	world  *world.World
	places []*place
}

// place is where one caller pays.
type place struct {
	target  *target
	api     *world.Process
	front   *httpproxy.Proxy
	limited string // the API key of a tenant that may send one request a second; empty if there are no limits

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
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", step, "./steps/07") //nolint:gosec // ours
	build.Dir = filepath.Join(root, "course")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build step 07: %w\n%s", err, out)
	}
	say("starting PostgreSQL and the programs")
	if g.site, err = world.Open(ctx, world.Options{Programs: programs, Dir: dir, Say: say}); err != nil {
		return nil, err
	}
	// The PSP may take as long as a slow first request does, and the API is not killed for longer than a caller waits.
	settings := map[string]string{"PSP_TIMEOUT": "2500ms", "LEASE": "7500ms"}
	name := "Payonce"
	if wait != "" {
		settings["IN_FLIGHT_WAIT"] = wait
		name += ", IN_FLIGHT_WAIT=" + wait
	}
	if err := g.add(ctx, name, world.Plan{Env: settings}); err != nil {
		return nil, err
	}
	return g, g.add(ctx, "step 07", world.Plan{Program: step, Env: map[string]string{"PSP_TIMEOUT": "2500ms",
		"LEASE": "7500ms", "WEBHOOK_SECRET": mockpsp.DemoWebhookSecret}})
}

// add starts a server.
func (g *stage) add(ctx context.Context, name string, plan world.Plan) error {
	w, err := g.site.New(ctx, plan)
	if err != nil {
		return err
	}
	t := &target{name: name, world: w}
	g.targets = append(g.targets, t)
	reconcilers := 1
	if plan.Program != "" {
		reconcilers = 0 // it reconciles by itself
	}
	apis, _, err := w.Start(ctx, places, reconcilers)
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
		if plan.Program == "" {
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

// play has every caller meet every fault at every server, and reads the ledgers in the end.
func (g *stage) play(ctx context.Context, ready []caller, missing []string) ([]result, error) {
	results := make([]result, len(g.targets))
	all, playing := errgroup.WithContext(ctx)
	for i, t := range g.targets {
		free := make(chan *place, places)
		for _, p := range t.places {
			free <- p
		}
		r := &results[i]
		*r = result{name: t.name, rows: make([]row, len(ready)), missing: missing}
		for n, c := range ready {
			all.Go(func() error {
				select {
				case p := <-free:
					defer func() { free <- p }()
					return g.meetAll(playing, p, c, &r.rows[n])
				case <-playing.Done():
					return playing.Err()
				}
			})
		}
	}
	if err := all.Wait(); err != nil {
		return nil, err
	}
	for i, t := range g.targets {
		ledger, err := invariants.ReadLedger(ctx, http.DefaultClient, "http://"+t.world.PSP.Address)
		if err != nil {
			return nil, err
		}
		results[i].judge(ledger)
	}
	return results, nil
}

// meetAll has one caller meet every fault that the server has.
func (g *stage) meetAll(ctx context.Context, p *place, c caller, r *row) error {
	r.caller = c
	for _, f := range faults {
		met := cell{fault: f.name, amount: g.amounts.Add(1) + firstAmount}
		if !f.limits || p.limited != "" {
			if err := g.meet(ctx, p, c, f, &met); err != nil {
				return fmt.Errorf("%s, %s, %s: %w", p.target.name, c.name, f.name, err)
			}
		}
		r.cells = append(r.cells, met)
	}
	succeeded := len(slices.DeleteFunc(slices.Clone(r.cells), func(c cell) bool { return c.told.outcome() != success }))
	g.say(fmt.Sprintf("%s: %s %s was told %d successes under %d faults", p.target.name, c.name, c.version, succeeded,
		len(r.cells)))
	return nil
}

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
