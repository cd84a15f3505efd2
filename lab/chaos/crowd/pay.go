package crowd

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"payonce/lab/chaos/plan"
)

// The pause before a request is sent again: far shorter than Retry-After asks for, since that is what clients do.
const (
	shortestPause = 40 * time.Millisecond
	longestPause  = 1500 * time.Millisecond
)

// persist sends the request until it has a final answer, or no hope, or no patience, in turns to the APIs.
func (c *Crowd) persist(ctx context.Context, e plan.Errand, r request) {
	luck := c.o.Plan.Carry(e.Client, e.N)
	for try := range e.Patience {
		if try > 0 && !pause(ctx, luck, try) {
			return
		}
		a := c.send(ctx, e.Client, r)
		if a.final() {
			c.learn(e, r, a)
		}
		if !a.again() || ctx.Err() != nil {
			return
		}
		r.api++
	}
}

// pause waits longer with each try, by chance a little more or less. It reports whether there is time for another one.
func pause(ctx context.Context, luck *rand.Rand, try int) bool {
	longest := min(longestPause, shortestPause<<try)
	timer := time.NewTimer(shortestPause + time.Duration(luck.Float64()*float64(longest)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// hangUp gives the first tries up in the middle.
func (c *Crowd) hangUp(ctx context.Context, e plan.Errand) {
	r := c.payment(e, e.Order)
	for i, after := range e.HangUps {
		r.giveUp, r.api = max(after, time.Millisecond), e.N+i
		if a := c.send(ctx, e.Client, r); a.final() || ctx.Err() != nil {
			return
		}
	}
	r.giveUp = 0
	c.persist(ctx, e, r)
}

// race sends the same request several times at once, to all APIs and with all preferences, and then like everybody
// else.
func (c *Crowd) race(ctx context.Context, e plan.Errand, r request) {
	preferences := []string{"", "respond-async", "wait=1"}
	c.atOnce(e.Racers, func(i int) {
		mine := r
		mine.api += i
		mine.prefer = preferences[(e.N+i)%len(preferences)]
		c.send(ctx, e.Client, mine)
	})
	if ctx.Err() == nil {
		c.persist(ctx, e, r)
	}
}

// twins are both tenants with equal keys and equal orders.
func (c *Crowd) twins(ctx context.Context, e plan.Errand) {
	c.atOnce(len(plan.Tenants()), func(i int) {
		mine := e
		mine.Tenant = plan.Tenants()[i]
		c.persist(ctx, mine, c.payment(mine, e.Order))
	})
}

// lieAtOnce sends two different orders under one key. Whichever is first has it for good.
func (c *Crowd) lieAtOnce(ctx context.Context, e plan.Errand) {
	c.atOnce(2, func(i int) {
		order := e.Order
		if i == 1 {
			order = e.Other
		}
		mine := c.payment(e, order)
		mine.api += i
		c.persist(ctx, e, mine)
	})
}

func (c *Crowd) atOnce(n int, do func(i int)) {
	var running sync.WaitGroup
	for i := range n {
		running.Go(func() { do(i) })
	}
	running.Wait()
}

// learn keeps what a client is told of a payment that succeeded.
func (c *Crowd) learn(e plan.Errand, r request, a answer) {
	if a.status == http.StatusCreated && r.path == "/payments" {
		c.known[e.Client].add(r, a)
	}
}
