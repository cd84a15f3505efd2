package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"payonce/lab/grade/judge"
	"payonce/lab/grade/plan"
	"payonce/lab/grade/profile"
)

// send sends one request and records what came back.
func (f *performance) send(ctx context.Context, intent int, s plan.Step) judge.Answer {
	a := judge.Answer{Intent: intent, Step: s.Kind, Asked: time.Now()}
	f.mu.Lock()
	a.Life = f.lives[intent]
	f.mu.Unlock()
	server := f.player.stand.Next(s.On)
	if server == nil {
		a.Err = "no server runs"
	} else {
		a.On = server.Number
		f.exchange(ctx, server.URL, &a)
	}
	a.Heard = time.Now()
	f.mu.Lock()
	f.run.Answers = append(f.run.Answers, a)
	f.mu.Unlock()
	return a
}

const maxAnswer = 1 << 20

func (f *performance) exchange(ctx context.Context, url string, a *judge.Answer) {
	p := f.player.profile
	ctx, cancel := context.WithTimeout(ctx, time.Duration(p.Timeout))
	defer cancel()
	request := p.Pay
	if a.Step.Reads() {
		request = *p.Read
	}
	req, err := request.Build(url, f.values(*a))
	if err != nil {
		a.Err = err.Error()
		return
	}
	res, err := f.player.client.Do(req.WithContext(ctx))
	if err != nil {
		a.Err = reason(ctx)
		return
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		a.Err = reason(ctx)
		return
	}
	a.Status, a.Body = res.StatusCode, body
	if a.Step.Reads() {
		a.Meaning = p.ReadMeaning(a.Status, res.Header, body)
	} else {
		a.Meaning = p.Meaning(a.Status, res.Header, body)
	}
	if a.Meaning == profile.None {
		f.player.note(fmt.Sprintf("%s %s answered %d %q", req.Method, req.URL.Path, a.Status, excerpt(body)))
	}
}

func (f *performance) values(a judge.Answer) profile.Values {
	intent := f.run.Case.Intents[a.Intent]
	amount := f.run.Amounts[a.Intent]
	if a.Other() {
		amount = f.run.Others[a.Intent]
	}
	return profile.Values{Key: f.keys[a.Intent], Amount: amount, Token: intent.Token, Customer: "cus-grade",
		Tenant: f.player.profile.Tenants[intent.Tenant]}
}

// note counts an answer that the profile has no meaning for.
func (p *player) note(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.unclear) < 20 { //nolint:mnd // more do not help
		p.unclear[what]++
	}
}

func excerpt(body []byte) string {
	const enough = 160
	return string(body[:min(len(body), enough)])
}

func reason(ctx context.Context) string {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "no answer in time"
	case errors.Is(ctx.Err(), context.Canceled):
		return "the client hung up"
	}
	return "no answer: the connection broke"
}
