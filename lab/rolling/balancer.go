package main

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"payonce/lab/world"
)

const (
	// lookEvery is how often a process is asked whether it is ready.
	lookEvery = 100 * time.Millisecond
	// drainDelay is for how long an API still takes requests after SIGTERM: a balancer needs so long to notice.
	drainDelay = time.Second
)

// balancer sends each request to the next API that is ready, as a load balancer does: it looks from time to time, and
// learns a moment late what has changed.
type balancer struct {
	http *world.Client
	done sync.WaitGroup

	mu    sync.Mutex
	all   []*world.Process
	ready []*world.Process
	turn  int
}

func newBalancer() *balancer { return &balancer{http: world.NewClient()} }

func (b *balancer) add(p *world.Process) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = append(b.all, p)
}

// run looks until ctx ends.
func (b *balancer) run(ctx context.Context) {
	b.done.Go(func() {
		_ = world.Until(ctx, lookEvery, func() (bool, error) {
			b.look(ctx)
			return false, nil
		})
	})
}

func (b *balancer) look(ctx context.Context) {
	b.mu.Lock()
	all := slices.Clone(b.all)
	b.mu.Unlock()
	ready := slices.DeleteFunc(all, func(p *world.Process) bool {
		a, err := b.http.Do(ctx, p.Operator, world.Request{Method: http.MethodGet, Path: "/readyz"})
		return err != nil || a.Status != http.StatusOK
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ready = ready
}

// choose takes turns. If no API is ready, it names one all the same, so that the client's failure is counted.
func (b *balancer) choose(_, _ int) *world.Process {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turn++
	if len(b.ready) == 0 {
		return b.all[b.turn%len(b.all)]
	}
	return b.ready[b.turn%len(b.ready)]
}

func (b *balancer) has(p *world.Process) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Contains(b.ready, p)
}

func (b *balancer) close() {
	b.done.Wait()
	b.http.Close()
}
