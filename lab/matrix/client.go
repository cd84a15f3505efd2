package main

import (
	"context"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"

	"payonce/lab/history"
	"payonce/lab/world"
)

// movement is what a client asks for: a payment, or a refund.
type movement struct {
	route   string // as history calls it
	call    string // as the PSP's proxy calls it
	request world.Request
}

func (s *stage) payment(key string) movement {
	return movement{route: history.PaymentsRoute, call: world.Charge, request: s.w.Keys.Payment(key, "pm_ok")}
}

func (s *stage) refund(payment, key string) movement {
	return movement{route: history.RefundsRoute, call: world.Refund, request: world.Request{
		Path: "/payments/" + payment + "/refunds", As: s.w.Keys.Acme, Key: key,
		Body: fmt.Sprintf(`{"amountCents":5000,"reason":%q}`, "returned as "+key),
	}}
}

func (m movement) key() string { return m.request.Key }

// ask sends a movement once, and records what is heard.
func (s *stage) ask(p *world.Process, m movement) (world.Answer, error) {
	return s.askWithin(s.ctx, p, m)
}

// askWithin is ask for a client that hangs up when ctx ends.
func (s *stage) askWithin(ctx context.Context, p *world.Process, m movement) (world.Answer, error) {
	o := s.history.Begin(history.Operation{
		Client: 1, API: p.Name, Tenant: s.tenantOf(m), Route: m.route, Path: m.request.Path, Key: m.key(),
		Prefer: m.request.Header.Get("Prefer"),
		Intent: m.request.Path + " " + m.request.Body, Body: []byte(m.request.Body),
	})
	a, err := s.client.Do(ctx, p.Address, m.request)
	if err != nil {
		o.Fail(err.Error())
		return a, err
	}
	o.End(a.Status, a.Header, a.Body)
	return a, nil
}

// askInBackground sends what the case is about, and does not wait.
func (s *stage) askInBackground() error {
	ctx, cancel := context.WithCancel(s.ctx)
	s.hangUp = cancel
	s.begin(func() { _, _ = s.askWithin(ctx, s.api, s.asked) }) // what is heard is in the history
	return nil
}

func (s *stage) tenantOf(m movement) string {
	if m.request.As == s.w.Keys.Globex {
		return "globex"
	}
	return "acme"
}

// begin does something whose end can be awaited.
func (s *stage) begin(do func()) {
	begun := make(chan struct{})
	s.begun = begun
	go func() {
		defer close(begun)
		do()
	}()
}

// awaitBegun waits until what was begun has ended: its client was answered, or has given up.
func (s *stage) awaitBegun() error {
	if s.begun == nil {
		return nil
	}
	select {
	case <-s.begun:
		return nil
	case <-s.ctx.Done():
		return &stuckError{what: "the end of the first request", cause: s.ctx.Err()}
	}
}

// askUntilFinal is what a client does that wants its money to move: the same request with the same key, until it is
// answered for good.
func (s *stage) askUntilFinal() error { return s.askFor(s.asked) }

func (s *stage) askFor(m movement) error {
	return s.until("a final answer", func() (bool, error) {
		a, err := s.ask(s.serving(), m)
		switch {
		case err != nil:
			return false, fmt.Errorf("the client heard: %w", err)
		case a.Status != http.StatusCreated:
			return false, fmt.Errorf("the client heard %d %s", a.Status, a.Body)
		}
		return true, nil
	})
}

// paid makes a payment that is there before the case begins, and returns its id. What was asked for it is no part of
// the history.
func (s *stage) paid(key string) (string, error) {
	a, err := s.client.Do(s.ctx, s.api.Address, s.payment(key).request)
	if err != nil {
		return "", err
	}
	var p struct {
		ID string `json:"paymentId"`
	}
	if err := json.Unmarshal(a.Body, &p); err != nil || a.Status != http.StatusCreated {
		return "", fmt.Errorf("a payment before the case was answered %d %s", a.Status, a.Body)
	}
	return p.ID, nil
}

// firstFinal is the first final answer that the client has heard.
func (s *stage) firstFinal() (history.Operation, bool) {
	var first history.Operation
	for _, o := range s.history.Operations() {
		if o.Status == http.StatusCreated && o.Key == s.asked.key() && (!first.Answered() || o.Return < first.Return) {
			first = o
		}
	}
	return first, first.Answered()
}
