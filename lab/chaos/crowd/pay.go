package crowd

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"payonce/lab/chaos/plan"
	"payonce/lab/history"
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

// refund asks for a part, the whole, the rest or too much of a payment that the client knows of, or of one that
// others have refunded before. Some race, some lie, some use the payment's own key: it is another one here, since
// the operation belongs to it.
func (c *Crowd) refund(ctx context.Context, e plan.Errand) {
	of, any := c.known[e.Client].pick(e.Pick)
	if theirs, some := c.returned.pick(e.Pick); some && e.N%4 == 3 {
		of, any = theirs, true
	}
	if !any {
		return
	}
	select {
	case c.refunding <- of: // somebody else was waiting for it, to refund it at the same time
	default:
	}
	e.Tenant = of.tenant
	if e.N%5 == 0 {
		e.Key = of.key
	}
	amount := int64(e.Share * float64(of.Amount))
	r := refundOf(of, e, amount)
	switch e.N % 4 {
	case 0:
		c.race(ctx, e, r)
	case 1:
		c.persist(ctx, e, r)
		c.send(ctx, e.Client, refundOf(of, e, amount+1))
	default:
		c.persist(ctx, e, r)
	}
}

func refundOf(of paid, e plan.Errand, amount int64) request {
	body := "{}"
	switch reason := fmt.Sprintf("%q", e.Reason); {
	case amount > 0 && e.Reason != "":
		body = fmt.Sprintf(`{"amountCents":%d,"reason":%s}`, amount, reason)
	case amount > 0:
		body = fmt.Sprintf(`{"amountCents":%d}`, amount)
	case e.Reason != "":
		body = fmt.Sprintf(`{"reason":%s}`, reason)
	}
	return request{
		method: http.MethodPost, path: "/payments/" + of.ID + "/refunds", route: history.RefundsRoute,
		tenant: of.tenant, key: e.Key,
		intent: plan.RefundIntent(of.ID, amount, e.Reason), body: body, prefer: e.Prefer, quoted: e.Quoted, api: e.N,
	}
}

// maxKnown bounds what a client remembers: the latest.
const maxKnown = 300

// paid is a payment that a client was told has succeeded.
type paid struct {
	tenant, key string
	ID          string `json:"paymentId"`
	Amount      int64  `json:"amountCents"`
	Currency    string `json:"currency"`
	ChargeID    string `json:"pspChargeId"`
}

// known is what a client has learned. Safe for concurrent use.
type known struct {
	mu   sync.Mutex
	paid []paid
}

func (k *known) add(r request, a answer) {
	p := paid{tenant: r.tenant, key: r.key}
	if json.Unmarshal(a.body, &p) != nil {
		return // lab/history says what is wrong with it
	}
	k.keep(p)
}

func (k *known) keep(p paid) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.paid) == maxKnown {
		k.paid = append(k.paid[:0], k.paid[1:]...)
	}
	k.paid = append(k.paid, p)
}

// pick takes one of them.
func (k *known) pick(by uint64) (paid, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.paid) == 0 {
		return paid{}, false
	}
	return k.paid[by%uint64(len(k.paid))], true
}
