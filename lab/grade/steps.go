package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"payonce/lab/grade/judge"
	"payonce/lab/grade/plan"
	"payonce/lab/grade/stand"
	"payonce/lab/program"
	"payonce/test/httpproxy"
)

// The times of a client.
const (
	againAfter = 100 * time.Millisecond // and twice as long each time, up to againCap
	againCap   = time.Second
	holdLimit  = 3 * time.Second // for a charge to come to the PSP, and for a webhook to be delivered
	lateMargin = 300 * time.Millisecond
)

const halfOfThem = 0.5 // of the webhooks go wrong, in each way

// step does one step of the case.
func (f *performance) step(ctx context.Context, s plan.Step) error {
	if s.Kind.OfAll() {
		return f.strike(ctx, s)
	}
	var intents []int
	for i := range f.run.Case.Intents {
		if s.Intent == plan.All || s.Intent == i {
			intents = append(intents, i)
		}
	}
	var all sync.WaitGroup
	for _, i := range intents {
		all.Go(func() { f.forIntent(ctx, i, s) })
	}
	all.Wait()
	return nil
}

func (f *performance) forIntent(ctx context.Context, i int, s plan.Step) {
	switch s.Kind {
	case plan.Send:
		for range s.N {
			f.pending[i].Go(func() { f.send(f.contexts[i], i, s) })
		}
	case plan.Await:
		f.pending[i].Wait()
	case plan.Again:
		for range s.N {
			f.send(ctx, i, s)
		}
	case plan.Other:
		f.send(ctx, i, s)
	case plan.Read:
		if f.player.profile.Read != nil {
			f.send(ctx, i, s)
		}
	case plan.HangUp:
		f.event("client", "hangs up")
		f.hangUp[i]()
	case plan.Try:
		f.until(ctx, i, s)
	case plan.Renew:
		f.renew(ctx, i, s)
	case plan.UntilFinal:
		if !f.until(ctx, i, s) && !f.noted(&f.run.NotFinal, i) {
			f.note(&f.run.NotFinal, i)
		}
	case plan.Look:
		if !f.until(ctx, i, s) {
			f.note(&f.run.Unseen, i)
		}
	case plan.Forge:
		f.forge(ctx, i)
	case plan.RefundElsewhere, plan.ComeBack, plan.Dispute, plan.Shown, plan.Overdraw:
		f.others(ctx, i, s)
	case plan.Expire:
		f.event("client", "waits until the key's time is over")
		program.Wait(ctx, time.Duration(f.player.profile.Expiry.After))
		f.mu.Lock()
		f.lives[i]++
		f.mu.Unlock()
	default:
		f.hold(ctx, i, s)
	}
}

func (f *performance) note(list *[]int, intent int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	*list = append(*list, intent)
}

func (f *performance) noted(list *[]int, intent int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Contains(*list, intent)
}

// until repeats a request, or a look, until the answer is final or the time is over.
func (f *performance) until(ctx context.Context, i int, s plan.Step) bool {
	if f.noted(&f.run.NotFinal, i) {
		return false // it has been asked for long enough
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(f.player.profile.EndsWithin))
	defer cancel()
	for wait := againAfter; ctx.Err() == nil; wait = min(2*wait, againCap) {
		if f.send(ctx, i, s).Meaning.Final() {
			return true
		}
		program.Wait(ctx, wait)
	}
	return false
}

// renew repeats the request until a new life of the key has an answer. To end keys is work in the background, so it may
// come somewhat late.
func (f *performance) renew(ctx context.Context, i int, s plan.Step) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(f.player.profile.EndsWithin))
	defer cancel()
	old := f.lastFinal(i)
	for wait := againAfter; ctx.Err() == nil; wait = min(2*wait, againCap) {
		// All answers of a server may be the same. Then the PSP's ledger tells that this was another payment.
		a := f.send(ctx, i, s)
		if a.Meaning.Final() && (!judge.SameJSON(a.Body, old) || f.charges(ctx, i) > 1) {
			return
		}
		program.Wait(ctx, wait)
	}
}

// lastFinal is the body of the latest final answer.
func (f *performance) lastFinal(intent int) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	var body []byte
	for _, a := range f.run.Answers {
		if a.Intent == intent && a.Meaning.Final() {
			body = a.Body
		}
	}
	return body
}

// hold does the steps about a charge on its way.
func (f *performance) hold(ctx context.Context, i int, s plan.Step) {
	amount := f.run.Amounts[i]
	switch s.Kind {
	case plan.HoldRequest, plan.HoldAnswer:
		fits := func(c httpproxy.Call) bool { return amountOf(c) == amount }
		f.mu.Lock()
		defer f.mu.Unlock()
		f.held[i] = f.player.stand.Hold(fits, s.Kind == plan.HoldAnswer)
		if f.run.Case.Has(plan.Reported) { // before the charge is sent, or its webhook could be missed
			reported := func(c httpproxy.Call) bool { return webhookAmount(c) == amount }
			f.reports[i] = f.player.stand.HoldWebhook(reported)
		}
		return
	}
	f.mu.Lock()
	e, report := f.held[i], f.reports[i]
	f.mu.Unlock()
	if e == nil {
		return
	}
	if s.Kind == plan.Reported {
		f.awaitHeld(ctx, report, "reports the charge in a webhook", "the PSP's webhook was not delivered")
		f.player.stand.UnholdWebhook(report)
		return
	}
	if s.Kind == plan.Release {
		f.player.stand.Unhold(e)
		f.event("PSP", "what was held goes on")
		return
	}
	text := "the request is held before it"
	if f.holdsAnswer(i) {
		text = "its answer is held"
	}
	f.awaitHeld(ctx, e, text, "the server sent no charge to the PSP in time")
}

// awaitHeld waits until a message is held. If none comes, the case does not show what it is meant to show.
func (f *performance) awaitHeld(ctx context.Context, e *httpproxy.Event, text, otherwise string) {
	ctx, cancel := context.WithTimeout(ctx, holdLimit)
	defer cancel()
	if e.Reached(ctx) == nil {
		f.event("PSP", text)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.run.NotShown = otherwise
}

func (f *performance) holdsAnswer(intent int) bool {
	for _, s := range f.run.Case.Steps {
		if s.Intent == intent && s.Kind == plan.HoldAnswer {
			return true
		}
	}
	return false
}

// strike does the steps that stop something, or change what is common to all.
func (f *performance) strike(ctx context.Context, s plan.Step) error {
	p := f.player
	var server *stand.Server
	if s.On > 0 {
		server = p.stand.Servers[min(s.On, len(p.stand.Servers))-1]
	}
	switch s.Kind {
	case plan.Kill:
		f.event("server", fmt.Sprintf("kill -9 of server %d", server.Number))
		server.Kill()
	case plan.Start:
		f.event("server", fmt.Sprintf("server %d starts", server.Number))
		return server.Start(ctx)
	case plan.Pause:
		f.event("server", fmt.Sprintf("SIGSTOP of server %d", server.Number))
		server.Pause()
		f.pausedAt = time.Now()
	case plan.Resume:
		program.Wait(ctx, time.Until(f.pausedAt.Add(time.Duration(p.profile.Lease))))
		f.event("server", fmt.Sprintf("SIGCONT of server %d", server.Number))
		server.Resume()
	case plan.Crash:
		f.event("database", "crash, and start")
		return p.stand.CrashDatabase(ctx)
	case plan.Disorder:
		return p.stand.Disorder(ctx, halfOfThem, 0)
	case plan.Silence:
		f.event("PSP", "sends no webhooks from now on")
		return p.stand.Disorder(ctx, 0, 1)
	case plan.Order:
		return p.stand.Disorder(ctx, 0, 0)
	case plan.ShortLives:
		return p.stand.Restart(ctx, p.profile.Expiry.Env)
	case plan.LongLives:
		return p.stand.Restart(ctx, nil)
	}
	return nil
}

// forge sends a webhook about a charge that was never made, as a stranger would: with a signature of his own.
func (f *performance) forge(ctx context.Context, i int) {
	server := f.player.stand.Next(0)
	if server == nil {
		return
	}
	tenant := f.player.profile.Tenants[f.run.Case.Intents[i].Tenant]
	at := time.Now().UTC()
	body := fmt.Sprintf(`{"type":"charge.succeeded","timestamp":%q,"data":{"id":"ch_forged","object":"charge","account":%q,`+
		`"idempotencyKey":%q,"reference":%q,"amountCents":%d,"currency":"USD","status":"succeeded","createdAt":%[1]q}}`,
		at.Format(time.RFC3339Nano), tenant.Name, f.keys[i], f.keys[i], f.run.Amounts[i])
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+f.player.profile.Webhooks,
		strings.NewReader(body))
	if err != nil {
		return
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Webhook-Id", "evt_forged_"+f.keys[i])
	req.Header.Set("Webhook-Timestamp", fmt.Sprint(at.Unix()))
	req.Header.Set("Webhook-Signature", "v1,Zm9yZ2VkIGJ5IGEgc3RyYW5nZXIsIG5vdCBieSB0aGU=")
	f.event("PSP", "a stranger sends a webhook: the charge has succeeded")
	if res, err := f.player.client.Do(req); err == nil {
		_ = res.Body.Close()
	}
}

// quiet waits until no charge of the case can land any more.
func (f *performance) quiet(ctx context.Context) {
	if !f.run.Case.MayLandLate() {
		return
	}
	var last time.Time
	for _, a := range f.run.Answers {
		if a.Asked.After(last) {
			last = a.Asked
		}
	}
	program.Wait(ctx, time.Until(last.Add(time.Duration(f.player.profile.Late)+lateMargin)))
}
