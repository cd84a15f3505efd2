package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"payonce/lab/program"
)

const (
	perShop  = 500 // intents; a shop has one caller and one journal
	shopping = 4   // shops that are open at a time
	noLimit  = 100_000
	sayEvery = 10 * time.Second
)

// storm pays everything, and judges.
func storm(ctx context.Context, s settings, stderr io.Writer) (_ []books, err error) {
	began := time.Now()
	say := func(line string) { fmt.Fprintf(stderr, "%6.1fs  %s\n", time.Since(began).Seconds(), line) }
	say(fmt.Sprintf("SEED=%d N=%d", s.Seed, s.N))
	g, err := open(ctx, s, say)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.close()) }()
	if err := g.fail(ctx); err != nil {
		return nil, err
	}
	callers, err := g.callers(ctx, s)
	if err != nil {
		return nil, err
	}
	if err := g.pay(ctx, s, callers); err != nil {
		return nil, err
	}
	say("everything was told; waiting for the last outcomes")
	ledger, err := g.ledger(ctx)
	if err != nil {
		return nil, err
	}
	var all []books
	for _, c := range callers {
		all = append(all, tallied(c.kind, c.tenant, c.shops, ledger))
	}
	return all, nil
}

// caller is one way to call, with a tenant of its own: the PSP's ledger has an account for each.
type caller struct {
	kind   kind
	tenant string
	shops  []*shop
}

func (g *stage) callers(ctx context.Context, s settings) ([]*caller, error) {
	few := max(fewestUsual, s.N/perUsual)
	r := rand.New(rand.NewPCG(s.Seed, 2))
	var all []*caller
	for _, c := range []struct {
		kind   kind
		tenant string
		n      int
	}{{withClient, "shop-client", s.N}, {perAttempt, "shop-attempt", few}, {inMemory, "shop-memory", few}} {
		key, err := g.world.AddTenant(ctx, c.tenant, noLimit)
		if err != nil {
			return nil, err
		}
		made := &caller{kind: c.kind, tenant: c.tenant}
		for first := 1; first <= c.n; first += perShop {
			opened := &shop{
				description: description{c.kind, g.front.URL(), key, c.tenant,
					filepath.Join(g.dir, fmt.Sprintf("%s-%d.journal", c.tenant, first))},
				errands: map[int]*errand{}, kills: map[boundary]int{},
			}
			for _, e := range errands(r, first, min(perShop, c.n+1-first)) {
				opened.errands[e.index] = e
			}
			made.shops = append(made.shops, opened)
		}
		all = append(all, made)
	}
	return all, nil
}

// pay opens all shops, in the storm, and returns when each of their intents was told.
func (g *stage) pay(ctx context.Context, s settings, callers []*caller) error {
	g.lose(s.Seed)
	storming, end := context.WithCancel(ctx)
	defer end()
	var told atomic.Int64
	var blowing sync.WaitGroup
	var kills int
	var failed error
	blowing.Go(func() { kills, failed = g.killAPIs(storming) })
	blowing.Go(func() {
		for program.Wait(storming, sayEvery) {
			g.say(fmt.Sprintf("%d intents were told", told.Load()))
		}
	})
	shops, paying := errgroup.WithContext(ctx)
	shops.SetLimit(shopping)
	// The usual callers first: they need the storm, and have the fewest intents.
	for i := len(callers) - 1; i >= 0; i-- {
		for _, opened := range callers[i].shops {
			opened.progress = func(n int) { told.Add(int64(n)) }
			shops.Go(func() error { return opened.run(paying) })
		}
	}
	err := shops.Wait()
	end()
	blowing.Wait()
	g.say(fmt.Sprintf("%d intents were told, the APIs were killed %d times", told.Load(), kills))
	return errors.Join(err, failed)
}
