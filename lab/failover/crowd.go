package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
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
)

// crowd is clients that pay, each one payment after the other, and send a key again until they have a final answer.
type crowd struct {
	stage    *stage
	http     *world.Client
	recorder *history.Recorder
	file     *os.File
	acked    atomic.Int64 // keys with a final answer
	running  sync.WaitGroup
	stopping chan struct{} // closed: no new keys, and no more tries
	started  int           // clients so far, for the names of keys
}

func newCrowd(s *stage) *crowd {
	c := &crowd{stage: s, http: world.NewClient(), stopping: make(chan struct{})}
	file, err := os.Create(filepath.Join(filepath.Dir(s.apis[0].Log), "history.jsonl"))
	if err != nil {
		c.recorder = history.New(nil) // the checks need no file
		return c
	}
	c.file, c.recorder = file, history.New(file)
	return c
}

func (c *crowd) close() error {
	c.stop()
	c.http.Close()
	if c.file == nil {
		return nil
	}
	_ = c.recorder.Close()
	return c.file.Close()
}

// start lets the clients pay until stop.
func (c *crowd) start(ctx context.Context) {
	for range clients {
		c.started++
		number := c.started
		source := rand.NewPCG(c.stage.lab.settings.Seed, uint64(number)) //nolint:gosec // a small number
		dice := rand.New(source)
		c.running.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-c.stopping:
					return
				case <-ctx.Done():
					return
				default:
					c.payUntilFinal(ctx, number, fmt.Sprintf("failover-%02d-%06d", number, i), method(dice))
				}
			}
		})
	}
}

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
		return "pm_500_not_charged"
	}
}

func (c *crowd) payUntilFinal(ctx context.Context, client int, key, method string) {
	pause := time.NewTicker(retryPause)
	defer pause.Stop()
	for try := range maxTries {
		if a, err := c.pay(ctx, client, c.stage.apis[(client+try)%len(c.stage.apis)], key, method); err == nil &&
			final(a.Status) {
			c.acked.Add(1)
			return
		}
		select {
		case <-pause.C:
		case <-c.stopping:
			return
		case <-ctx.Done():
			return
		}
	}
}

// pay sends one request and records it.
func (c *crowd) pay(ctx context.Context, client int, api *world.Process, key, method string) (world.Answer, error) {
	r := c.stage.Keys.Payment(key, method)
	digest := sha256.Sum256([]byte(r.Body))
	p := c.recorder.Begin(history.Operation{
		Client: client, API: api.Name, Tenant: "acme", Route: history.PaymentsRoute, Key: key,
		Intent: hex.EncodeToString(digest[:8]), Body: []byte(r.Body),
	})
	a, err := c.http.Do(ctx, api.Address, r)
	if err != nil {
		p.Fail(err.Error())
		return a, err
	}
	p.End(a.Status, a.Header, a.Body)
	return a, nil
}

func final(status int) bool {
	return status == http.StatusCreated || status == http.StatusPaymentRequired
}

// awaitMore returns when so many more keys have a final answer.
func (c *crowd) awaitMore(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, loadLimit)
	defer cancel()
	goal := c.acked.Load() + int64(n)
	if err := world.Until(ctx, askEvery, func() (bool, error) { return c.acked.Load() >= goal, nil }); err != nil {
		return fmt.Errorf("%d of %d payments came to an end: %w", int64(n)-goal+c.acked.Load(), n, err)
	}
	return nil
}

// stop lets each client have the answer that it waits for, and no more.
func (c *crowd) stop() {
	select {
	case <-c.stopping:
	default:
		close(c.stopping)
	}
	c.running.Wait()
}

// acknowledged lists the keys of which a client was told that they are done, or in hand.
func (c *crowd) acknowledged() []string {
	return c.answered(func(status int) bool { return final(status) || status == http.StatusAccepted })
}

// answered lists the keys that have had such an answer.
func (c *crowd) answered(such func(status int) bool) []string {
	var keys []string
	for _, o := range c.recorder.Operations() {
		if such(o.Status) {
			keys = append(keys, o.Key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// firstNewAfter is how long it took until a payment had its first final answer that was asked for after an instant.
func (c *crowd) firstNewAfter(at time.Duration) time.Duration {
	first := time.Duration(-1)
	for _, o := range c.recorder.Operations() {
		isNew := o.Call >= at && final(o.Status) && o.Header.Get("Idempotent-Replayed") == "false"
		if isNew && (first < 0 || o.Return-at < first) {
			first = o.Return - at
		}
	}
	return first
}

// answersAfter counts what was answered to requests that were under way at an instant, or came after it.
func (c *crowd) answersAfter(at time.Duration) map[int]int {
	counts := map[int]int{}
	for _, o := range c.recorder.Operations() {
		if o.Return >= at || !o.Answered() {
			counts[o.Status]++
		}
	}
	return counts
}

// askEvery is the pause between two looks.
const askEvery = 10 * time.Millisecond
