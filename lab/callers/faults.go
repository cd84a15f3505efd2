package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"payonce/lab/program"
	"payonce/lab/world"
	"payonce/test/httpproxy"
)

// The times of the faults.
const (
	slowFor   = 1500 * time.Millisecond // a first request at the PSP; within PSP_TIMEOUT
	brokenAt  = 100 * time.Millisecond  // after the PSP was asked
	pspAway   = 700 * time.Millisecond
	goOnLimit = 30 * time.Second // beyond LEASE: until then, a killed API's key may be in progress
	goOnPause = 300 * time.Millisecond
)

// fault is what happens to a caller's first request. What it sends after that meets nothing.
type fault struct {
	name, means string
	limits      bool // only a server that limits requests has it
	play        func(ctx context.Context, a *attempt) (told, error)
}

var faults = []fault{
	{name: "lost", means: "the payment is made, and a new connection closes without an answer",
		play: func(ctx context.Context, a *attempt) (told, error) { return a.failingAs(ctx, httpproxy.CutAfter) }},
	{name: "lost, used", means: "the same on a connection that has carried another payment before", play: lostOnUsed},
	{name: "500", means: "the payment is made, and a gateway answers 500 in place of the server",
		play: func(ctx context.Context, a *attempt) (told, error) { return a.failingAs(ctx, httpproxy.FailAfter) }},
	{name: "503", means: "the PSP cannot be reached for 0.7 s, and the server says so; nothing is charged", play: noPSP},
	{name: "409", means: "an equal request of another program is under way for 1.5 s", play: inFlight},
	{name: "429", means: "the tenant has used its one request of this second", limits: true, play: limited},
	{name: "202", means: "the PSP has charged, but answered 500: the server cannot know yet",
		play: func(ctx context.Context, a *attempt) (told, error) {
			a.method = "pm_500_charged"
			return a.pay(ctx)
		}},
	{name: "slow", means: "the first request takes 1.5 s at the PSP, and its connection breaks after 0.1 s", play: slow},
	{name: "restart", means: "the API is killed while the PSP charges, and is started again", play: restart},
}

// attempt is one payment of one caller.
type attempt struct {
	*place
	stage      *stage
	process    *process
	token, key string // token: the API key
	amount     int64
	method     string
}

func (a *attempt) body() string {
	return fmt.Sprintf(`{"customerId":"cus-1","amountCents":%d,"currency":"USD","paymentMethod":%q}`, a.amount, a.method)
}

func (a *attempt) pay(ctx context.Context) (told, error) {
	return a.process.pay(ctx, a.token, a.key, a.body())
}

// meet has a caller meet a fault, and go on after it. A caller that does not answer in time leaves an empty cell.
func (g *stage) meet(ctx context.Context, p *place, c caller, f fault, met *cell) error {
	process, _, err := c.start(ctx, p.front.URL()+"/payments")
	if err != nil {
		return err
	}
	defer func() { process.end() }()
	a := &attempt{place: p, stage: g, process: process, token: p.target.world.Keys.Acme, key: uuid.NewString(),
		amount: met.amount, method: "pm_ok"}
	met.played = true
	met.told, err = f.play(ctx, a)
	if errors.Is(err, errSilent) {
		met.silent = true
		return nil
	}
	if err != nil {
		return err
	}
	met.requests = p.requests(a.key)
	for end := time.Now().Add(goOnLimit); !met.goesOn && time.Now().Before(end); {
		again, err := a.pay(ctx)
		if err != nil && !errors.Is(err, errSilent) {
			return err
		}
		met.goesOn = again.outcome() == success
		if !met.goesOn && !program.Wait(ctx, goOnPause) {
			return ctx.Err()
		}
	}
	return nil
}

// while has the caller pay while something else happens.
func (a *attempt) while(ctx context.Context, do func(context.Context) error) (t told, err error) {
	both, together := errgroup.WithContext(ctx)
	both.Go(func() error { return do(together) })
	both.Go(func() (err error) {
		t, err = a.pay(together)
		return err
	})
	err = both.Wait()
	return t, err
}

// hold keeps the charge of this payment from the PSP until it is released.
func (a *attempt) hold() *httpproxy.Event {
	mine := fmt.Appendf(nil, `"amountCents":%d,`, a.amount)
	return a.api.PSP.OnWhere(world.Charge, func(c httpproxy.Call) bool { return bytes.Contains(c.Body, mine) },
		httpproxy.HoldBefore)
}

func (a *attempt) failingAs(ctx context.Context, do httpproxy.Action) (told, error) {
	e := a.front.On(payment, do)
	defer a.front.Forget(e)
	return a.pay(ctx)
}

func lostOnUsed(ctx context.Context, a *attempt) (told, error) {
	before := *a
	before.key, before.amount = uuid.NewString(), a.stage.newAmount()
	if t, err := before.pay(ctx); err != nil || t.outcome() != success {
		return t, errors.Join(err, errors.New("the payment before was not made"))
	}
	return a.failingAs(ctx, httpproxy.CutAfter)
}

func noPSP(ctx context.Context, a *attempt) (told, error) {
	a.api.PSP.Down()
	return a.while(ctx, func(ctx context.Context) error {
		program.Wait(ctx, pspAway)
		return a.api.PSP.Restore()
	})
}

func inFlight(ctx context.Context, a *attempt) (told, error) {
	held := a.hold()
	defer a.api.PSP.Forget(held)
	first := make(chan error, 1)
	go func() {
		_, err := a.stage.client.Do(ctx, a.api.Address, world.Request{Path: "/payments", As: a.token, Key: a.key,
			Body: a.body()})
		first <- err
	}()
	if err := held.Reached(ctx); err != nil {
		return told{}, err
	}
	t, err := a.while(ctx, func(ctx context.Context) error {
		program.Wait(ctx, slowFor)
		held.Release()
		return nil
	})
	return t, errors.Join(err, <-first)
}

func limited(ctx context.Context, a *attempt) (told, error) {
	a.token = a.limited
	_, err := a.stage.client.Do(ctx, a.api.Address, world.Request{Method: http.MethodGet, Path: "/payments?limit=1",
		As: a.token})
	if err != nil {
		return told{}, err
	}
	return a.pay(ctx)
}

func slow(ctx context.Context, a *attempt) (told, error) {
	held, cut := a.hold(), a.front.On(payment, httpproxy.CutDuring)
	defer a.api.PSP.Forget(held)
	defer a.front.Forget(cut)
	return a.while(ctx, func(ctx context.Context) error {
		if err := held.Reached(ctx); err != nil {
			return err
		}
		program.Wait(ctx, brokenAt)
		cut.Release()
		program.Wait(ctx, slowFor-brokenAt)
		held.Release()
		return nil
	})
}

func restart(ctx context.Context, a *attempt) (told, error) {
	held := a.hold()
	defer a.api.PSP.Forget(held)
	return a.while(ctx, func(ctx context.Context) error {
		if err := held.Reached(ctx); err != nil {
			return err
		}
		a.api.Kill()
		held.Release()
		return a.api.Start(ctx)
	})
}
