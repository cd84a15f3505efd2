// Package crowd is the clients of a chaos run: merchants that pay, retry, hang up, race, reuse keys, also when these
// have expired or were deleted, lie about them, ask for refunds, read and send nonsense; an attacker who forges
// webhooks; an operator who closes dead letters, and one who lies about them; other programs, and a person at the PSP's
// dashboard, in the same accounts.
//
// It owns how an errand of package plan is carried out, and the recording of each request in the history. It refuses to
// know how the server is doing: no database, no log, nothing but what clients see. What it complains of by itself is
// only what is wrong whatever has happened before, such as a 500, or a payment that another tenant can read; whether
// the answers fit together is for lab/history to say.
//
// A client sends one request at a time for each errand, unless racing is the errand, and has several errands under way.
// It is bounded: by the rate of all requests together, by the tries of each errand, and by the time that one request
// may take.
package crowd

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"payonce/lab/chaos/plan"
	"payonce/lab/chaos/tally"
	"payonce/lab/history"
	"payonce/lab/invariants"
)

// Options say whom the crowd talks to.
type Options struct {
	Plan        plan.Plan
	APIs        []string          // host:port of each
	Operators   []string          // host:port of their operator's sides; none: no operator
	Keys        map[string]string // API key by tenant
	OperatorKey string
	PSP         string                     // host:port of the mock itself
	PSPSecret   string                     // of the native dialect
	Account     func(tenant string) string // at the PSP; nil: named as the tenant is
	Stripe      invariants.Stripe          // where the PSP speaks that dialect, if it does
	PerSecond   float64
	Retention   time.Duration // of keys at the server; 0: none expires in this run
	Only        []plan.Kind   // what the server can; nil: everything
	Recorder    *history.Recorder
	Tally       *tally.Tally
	// Complain hears of what is wrong whatever has happened before. Nil hears nothing.
	Complain func(where, detail string)
}

const (
	hands           = 4 // errands of a client at a time
	requestPatience = 12 * time.Second
	burst           = 20
)

// Crowd is the clients.
type Crowd struct {
	o       Options
	http    *http.Client
	limiter *rate.Limiter
	known   []*known // by client
	next    []atomic.Int64
	lives   *lives

	missedBy sync.Mutex
	missed   map[string]bool // keys that were over before anybody could ask again

	foreignBy sync.Mutex
	foreign   []string // the PSP's ids of what another program has charged

	refunding chan paid // what a client is about to refund
	returned  known     // what others have refunded or disputed
}

// New makes the clients.
func New(o Options) *Crowd {
	c := &Crowd{
		missed: map[string]bool{}, refunding: make(chan paid), o: o,
		next: make([]atomic.Int64, o.Plan.Clients), lives: newLives(o.Retention),
		limiter: rate.NewLimiter(rate.Limit(o.PerSecond), burst),
		http: &http.Client{
			Transport:     &http.Transport{MaxIdleConnsPerHost: 4 * o.Plan.Clients, IdleConnTimeout: 5 * time.Second},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Timeout:       requestPatience,
		},
	}
	for range o.Plan.Clients {
		c.known = append(c.known, &known{})
	}
	return c
}

// Close gives the idle connections up.
func (c *Crowd) Close() { c.http.CloseIdleConnections() }

// Run has the clients go about their errands until ctx ends, or only about those of the kinds that are named. What is
// sent by then is heard to its end; nothing is sent again after that.
func (c *Crowd) Run(ctx context.Context, only ...plan.Kind) {
	var running sync.WaitGroup
	for client := range c.o.Plan.Clients {
		for range hands {
			running.Go(func() {
				for ctx.Err() == nil {
					e := c.o.Plan.Errand(client, int(c.next[client].Add(1)-1))
					if len(only) == 0 || slices.Contains(only, e.Kind) {
						c.carryOut(ctx, e)
					}
				}
			})
		}
	}
	running.Wait()
}

func (c *Crowd) carryOut(ctx context.Context, e plan.Errand) {
	if !c.can(e.Kind) {
		return
	}
	switch e.Kind {
	case plan.Pay, plan.Wait, plan.Async, plan.Reuse:
		c.persist(ctx, e, c.payment(e, e.Order))
	case plan.HangUp:
		c.hangUp(ctx, e)
	case plan.Race:
		c.race(ctx, e, c.payment(e, e.Order))
	case plan.Twins:
		c.twins(ctx, e)
	case plan.LieAtOnce:
		c.lieAtOnce(ctx, e)
	case plan.Lie:
		c.send(ctx, e.Client, c.payment(e, e.Other))
	case plan.Reborn:
		c.reborn(ctx, e)
	case plan.Refund:
		c.refund(ctx, e)
	case plan.Read:
		c.read(ctx, e)
	case plan.Forge:
		c.forge(ctx, e)
	case plan.Malformed:
		c.malformed(ctx, e)
	}
	if ctx.Err() == nil {
		c.o.Tally.One("client", string(e.Kind))
	}
}

func (c *Crowd) can(k plan.Kind) bool {
	return c.o.Only == nil || slices.Contains(c.o.Only, k)
}

func (c *Crowd) complain(where, detail string) {
	if c.o.Complain != nil {
		c.o.Complain(where, detail)
	}
}
