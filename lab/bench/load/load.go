// Package load sends HTTP requests to the API from many clients at once, and says how they were answered: how many, and
// how soon.
//
// It shares the machine with what it measures, so each microsecond of its own is taken from the server. That is why it
// does not use net/http's client.
//
// Each client sends its next request when the answer to the one before has come. A request is counted if it was begun
// in the measured time, although its answer comes later. An answer of another status than expected, and one that never
// came, are counted apart, and the first of them is quoted: a run that measures errors is no run.
package load

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Kind says which requests a plan sends.
type Kind string

// The kinds of requests.
const (
	New     Kind = "new"     // POST /payments, each with a fresh key
	Replay  Kind = "replay"  // POST /payments with the plan's keys, in turn
	Webhook Kind = "webhook" // POST /webhooks/psp, signed, each with a fresh webhook-id
)

// Plan says what to send, and for how long.
type Plan struct {
	Address  string // host and port
	Kind     Kind
	Clients  int     // connections
	Seconds  float64 // in which requests are begun
	Requests int64   // ends the run sooner, after so many; 0 is no limit

	APIKeys []string // in turn; of New and Replay
	Keys    []string // in turn; of Replay

	WebhookSecret string // whsec_…
	Body          string // of Webhook: {fresh} stands for the request's own id
}

// Result is what came of a plan.
type Result struct {
	Requests             int64 // answered
	PerSecond            float64
	P50Micros, P99Micros float64

	Answers          map[int]int64 // by status
	Unexpected, Lost int64
	Quotes           []string // the first of these, each with its time
}

// maxQuotes is more than the clients that share a transaction, so that all of those are seen whom it has failed.
const maxQuotes = 100

// grace is how long after the end an answer is waited for.
const grace = 10 * time.Second

// run is a plan that is being carried out.
type run struct {
	ctx        context.Context
	plan       Plan
	start, end time.Time
	begun      atomic.Int64
	expected   int // status

	mu     sync.Mutex
	quotes []string
}

// Run carries out a plan. An error means that it could not be begun; what the server did wrong is in the Result.
func Run(ctx context.Context, p Plan) (Result, error) {
	if p.Clients < 1 || p.Seconds <= 0 || p.Kind != Webhook && len(p.APIKeys) == 0 ||
		p.Kind == Replay && len(p.Keys) == 0 {
		return Result{}, fmt.Errorf("check plan: %d clients for %v s, with %d API keys and %d keys", p.Clients, p.Seconds,
			len(p.APIKeys), len(p.Keys))
	}
	r := &run{ctx: ctx, plan: p, start: time.Now(), expected: http.StatusCreated}
	if p.Kind == Webhook {
		r.expected = http.StatusNoContent
	}
	r.end = r.start.Add(time.Duration(p.Seconds * float64(time.Second)))
	var clients []*client
	defer func() {
		for _, c := range clients {
			c.close()
		}
	}()
	for range p.Clients {
		c, err := r.connect()
		if err != nil {
			return Result{}, err
		}
		clients = append(clients, c)
	}
	r.start = time.Now()
	var working sync.WaitGroup
	for _, c := range clients {
		working.Go(c.work)
	}
	working.Wait()
	return r.result(clients, time.Now()), nil
}

// takes reports whether another request may be begun at this time, and gives its number.
func (r *run) takes(at time.Time) (n int64, ok bool) {
	if !at.Before(r.end) || r.ctx.Err() != nil {
		return 0, false
	}
	n = r.begun.Add(1)
	return n, r.plan.Requests == 0 || n <= r.plan.Requests
}

// quote keeps what should not have happened.
func (r *run) quote(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.quotes) < maxQuotes {
		r.quotes = append(r.quotes, time.Now().UTC().Format("15:04:05.000 ")+text)
	}
}

func (r *run) result(clients []*client, ended time.Time) Result {
	result := Result{Answers: map[int]int64{}, Quotes: r.quotes}
	var took []time.Duration
	for _, c := range clients {
		took = append(took, c.took...)
		for status, n := range c.answers {
			result.Answers[status] += n
			if status != r.expected {
				result.Unexpected += n
			}
		}
		result.Lost += c.lost
	}
	slices.Sort(took)
	result.Requests = int64(len(took))
	result.P50Micros, result.P99Micros = quantile(took, 0.5), quantile(took, 0.99)
	if r.plan.Requests == 0 && ended.After(r.end) { // otherwise it was measured to the last answer
		ended = r.end
	}
	result.PerSecond = float64(result.Requests) / ended.Sub(r.start).Seconds()
	return result
}

// quantile is the duration, in microseconds, that a share q of them does not exceed.
func quantile(sorted []time.Duration, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return float64(sorted[int(q*float64(len(sorted)-1))].Nanoseconds()) / 1000
}

// Command carries out the plan that is on stdin as JSON and writes its Result to stdout. It is meant for a process of
// its own, whose CPU can be told from everybody else's. It runs on one thread, because threads that look for work, and
// wake each other, cost more than the requests do.
func Command(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	var p Plan
	if err := json.NewDecoder(stdin).Decode(&p); err != nil {
		return fmt.Errorf("read plan: %w", err)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	result, err := Run(ctx, p)
	if err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(result)
}

// Clean is an error if an answer was not expected, or if more than lost never came: errors are quick, and would be
// measured as speed.
func (r Result) Clean(lost int64) error {
	if r.Unexpected > 0 || r.Lost > lost {
		return errors.New(cmp.Or(strings.Join(r.Quotes[:min(1, len(r.Quotes))], ""), "answers are missing"))
	}
	return nil
}
