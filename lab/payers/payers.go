// Package payers are clients that pay, each one payment after the other. They send a key again until they have a final
// answer, and note each request in a history.
//
// It refuses to know which process is asked, and what the answers should be.
package payers

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"payonce/lab/history"
	"payonce/lab/world"
)

const (
	clients = 8
	// retryPause is what a client waits before it sends the same key again.
	retryPause = 100 * time.Millisecond
	// maxTries is when a client gives up: far behind every resolution. What an operator has may take days.
	maxTries = 150
	// loadLimit bounds a wait for the clients' progress.
	loadLimit = 2 * time.Minute
	askEvery  = 10 * time.Millisecond
	// refunded is the part of a payment that is returned, in minor units.
	refunded = 500
)

// Options of the clients.
type Options struct {
	Keys    world.Keys
	Seed    uint64
	Name    string // keys begin with it
	History string // path of the file that the history goes to
	// Refunds is how many of a hundred payments that have succeeded are returned in part.
	Refunds int
	// Tries is how often a client sends a key. 0: far behind every resolution.
	Tries int
	// Choose names the process for a try of a client.
	Choose func(client, try int) *world.Process
}

// Payers are the clients.
type Payers struct {
	HTTP     *world.Client
	Recorder *history.Recorder

	o        Options
	file     *os.File
	acked    atomic.Int64 // keys with a final answer
	running  sync.WaitGroup
	stopping chan struct{} // closed: no new keys, and no more tries
	started  int           // clients so far, for the names of keys
}

// New makes the clients.
func New(o Options) *Payers {
	p := &Payers{HTTP: world.NewClient(), o: o, stopping: make(chan struct{})}
	file, err := os.Create(o.History)
	if err != nil {
		p.Recorder = history.New(nil) // the checks need no file
		return p
	}
	p.file, p.Recorder = file, history.New(file)
	return p
}

// Close ends the clients, and the file of the history.
func (p *Payers) Close() error {
	p.Stop()
	p.HTTP.Close()
	if p.file == nil {
		return nil
	}
	_ = p.Recorder.Close()
	return p.file.Close()
}

// Start lets the clients pay until Stop.
func (p *Payers) Start(ctx context.Context) {
	for range clients {
		p.started++
		number := p.started
		source := rand.NewPCG(p.o.Seed, uint64(number)) //nolint:gosec // a small number
		dice := rand.New(source)
		p.running.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-p.stopping:
					return
				case <-ctx.Done():
					return
				default:
					key := fmt.Sprintf("%s-%02d-%06d", p.o.Name, number, i)
					p.payUntilFinal(ctx, number, key, method(dice), dice.IntN(100) < p.o.Refunds)
				}
			}
		})
	}
}

// NotCharged is the payment method by which the PSP fails and charges nothing. When that is proven, the answer is 503.
const NotCharged = "pm_500_not_charged"

// method is what a client pays with: most things go well, and some outcomes are lost.
func method(dice *rand.Rand) string {
	switch n := dice.IntN(100); {
	case n < 85:
		return "pm_ok"
	case n < 95:
		return "pm_declined"
	case n < 98:
		return "pm_reset_charged"
	default:
		return NotCharged
	}
}

// payUntilFinal pays, and returns a part if that is wanted and the payment has succeeded.
func (p *Payers) payUntilFinal(ctx context.Context, client int, key, method string, refund bool) {
	a, ok := p.untilFinal(ctx, client, func(api *world.Process) (world.Answer, error) {
		return p.Pay(ctx, client, api, key, method)
	})
	if !ok || !refund || a.Status != http.StatusCreated {
		return
	}
	var paid struct {
		ID string `json:"paymentId"`
	}
	if json.Unmarshal(a.Body, &paid) != nil {
		return // lab/history says what is wrong with it
	}
	p.untilFinal(ctx, client, func(api *world.Process) (world.Answer, error) {
		return p.send(ctx, client, api, history.RefundsRoute, world.Request{
			Path: "/payments/" + paid.ID + "/refunds", As: p.o.Keys.Acme, Key: key + "-refund",
			Body: fmt.Sprintf(`{"amountCents":%d}`, refunded),
		})
	})
}

// untilFinal sends a request until it has a final answer.
func (p *Payers) untilFinal(
	ctx context.Context, client int, send func(*world.Process) (world.Answer, error),
) (world.Answer, bool) {
	pause := time.NewTicker(retryPause)
	defer pause.Stop()
	for try := range cmp.Or(p.o.Tries, maxTries) {
		if a, err := send(p.o.Choose(client, try)); err == nil && Final(a.Status) {
			p.acked.Add(1)
			return a, true
		}
		select {
		case <-pause.C:
		case <-p.stopping:
			return world.Answer{}, false
		case <-ctx.Done():
			return world.Answer{}, false
		}
	}
	return world.Answer{}, false
}

// Pay sends one payment and records it.
func (p *Payers) Pay(ctx context.Context, client int, api *world.Process, key, method string) (world.Answer, error) {
	return p.send(ctx, client, api, history.PaymentsRoute, p.o.Keys.Payment(key, method))
}

func (p *Payers) send(
	ctx context.Context, client int, api *world.Process, route string, r world.Request,
) (world.Answer, error) {
	digest := sha256.Sum256([]byte(r.Path + r.Body))
	pending := p.Recorder.Begin(history.Operation{
		Client: client, API: api.Name, Tenant: "acme", Route: route, Path: r.Path, Key: r.Key,
		Intent: hex.EncodeToString(digest[:8]), Body: []byte(r.Body),
	})
	a, err := p.HTTP.Do(ctx, api.Address, r)
	if err != nil {
		pending.Fail(err.Error())
		return a, err
	}
	pending.End(a.Status, a.Header, a.Body)
	return a, nil
}

// PayAs sends a key again as it was sent first.
func (p *Payers) PayAs(ctx context.Context, key string, api *world.Process) (world.Answer, error) {
	for _, op := range p.Recorder.Operations() {
		if op.Key == key {
			_, rest, _ := strings.Cut(string(op.Body), `"paymentMethod":"`)
			method, _, _ := strings.Cut(rest, `"`)
			return p.Pay(ctx, 0, api, key, method)
		}
	}
	return world.Answer{}, fmt.Errorf("%s was never sent", key)
}

// Final reports whether an answer is the key's for good.
func Final(status int) bool {
	return status == http.StatusCreated || status == http.StatusPaymentRequired
}

// AwaitMore returns when so many more keys have a final answer.
func (p *Payers) AwaitMore(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, loadLimit)
	defer cancel()
	goal := p.acked.Load() + int64(n)
	if err := world.Until(ctx, askEvery, func() (bool, error) { return p.acked.Load() >= goal, nil }); err != nil {
		return fmt.Errorf("%d of %d payments came to an end: %w", int64(n)-goal+p.acked.Load(), n, err)
	}
	return nil
}

// Stop lets each client have the answer that it waits for, and no more.
func (p *Payers) Stop() {
	select {
	case <-p.stopping:
	default:
		close(p.stopping)
	}
	p.running.Wait()
}

// Acknowledged lists the keys of which a client was told that they are done, or in hand.
func (p *Payers) Acknowledged() []string {
	return p.Answered(func(status int) bool { return Final(status) || status == http.StatusAccepted })
}

// Answered lists the keys that have had such an answer.
func (p *Payers) Answered(such func(status int) bool) []string {
	var keys []string
	for _, o := range p.Recorder.Operations() {
		if such(o.Status) {
			keys = append(keys, o.Key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// FirstNewAfter is how long it took until a payment had its first final answer that was asked for after an instant.
func (p *Payers) FirstNewAfter(at time.Duration) time.Duration {
	first := time.Duration(-1)
	for _, o := range p.Recorder.Operations() {
		isNew := o.Call >= at && Final(o.Status) && o.Header.Get("Idempotent-Replayed") == "false"
		if isNew && (first < 0 || o.Return-at < first) {
			first = o.Return - at
		}
	}
	return first
}

// AnswersAfter counts what was answered to requests that were under way at an instant, or came after it.
func (p *Payers) AnswersAfter(at time.Duration) map[int]int {
	counts := map[int]int{}
	for _, o := range p.Recorder.Operations() {
		if o.Return >= at || !o.Answered() {
			counts[o.Status]++
		}
	}
	return counts
}
