package load

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// maxBacklog bounds the requests of an open loop that wait for a connection. What falls due beyond is counted as
// unsent.
const maxBacklog = 1 << 16

// run is a plan that is being carried out. Times are durations since its start, by the monotonic clock.
type run struct {
	ctx      context.Context
	plan     Plan
	start    time.Time
	warm     time.Duration // end of the warm-up
	end      time.Duration // no request is begun from here on
	expected [maxStatus + 1]bool
	clients  []*client

	keys  []string
	turn  atomic.Int64 // of the keys
	taken atomic.Int64 // counted requests that were begun, where the plan limits them
	due   chan time.Duration

	unsent    atomic.Int64
	late      histogram // written by the schedule alone
	rounds    []float64
	firstOnce sync.Once
	first     string
}

// Run carries out a plan. An error means that it could not be begun; what the server did wrong is in the Result.
func Run(ctx context.Context, p Plan) (Result, error) {
	p, err := p.complete()
	if err != nil {
		return Result{}, fmt.Errorf("check plan: %w", err)
	}
	r := &run{
		ctx: ctx, plan: p, start: time.Now(), warm: seconds(p.WarmUpSeconds), end: seconds(p.WarmUpSeconds) +
			seconds(p.Seconds),
		keys: p.KeyList, due: make(chan time.Duration, maxBacklog),
	}
	for _, status := range p.Expect {
		r.expected[status] = true
	}
	if p.Keys > 0 {
		if r.keys, err = prepare(ctx, p); err != nil {
			return Result{}, fmt.Errorf("make payments to replay: %w", err)
		}
	}
	if err := r.connect(); err != nil {
		return Result{}, err
	}
	defer r.close()
	return r.measure(), nil
}

func (r *run) connect() error {
	length, err := keyLengthOf(r.keys)
	if err != nil {
		return err
	}
	t, err := newTemplate(r.plan, length)
	if err != nil {
		return fmt.Errorf("build request: %w", err)
	}
	r.start = time.Now()
	addresses := r.plan.addresses()
	for i := range r.plan.Clients {
		address := addresses[i%len(addresses)]
		w, err := connect(r.ctx, address, r.deadline())
		if err != nil {
			r.close()
			return err
		}
		r.clients = append(r.clients, &client{run: r, address: address, wire: w, request: t.request()})
	}
	r.start = time.Now()
	return nil
}

// measure sends until the end and sums up.
func (r *run) measure() Result {
	var working sync.WaitGroup
	for _, work := range r.work() {
		working.Go(work)
	}
	over, usedBefore := make(chan struct{}), make(chan float64, 1)
	go func() { usedBefore <- r.cpuAfterWarmUp(over) }()
	working.Wait()
	close(over)
	ended := min(r.elapsed(), r.end)
	if len(r.rounds) > 0 || r.plan.Requests > 0 {
		ended = r.elapsed() // counted to the last answer
	}
	cpu := cpuSeconds() - <-usedBefore

	var all tally
	for _, c := range r.clients {
		all.add(&c.tally)
	}
	for due := range r.due { // each client that could have sent them has lost its connection
		r.miss(due)
	}
	all.unsent = r.unsent.Load()
	result := all.result()
	result.RoundMicros, result.FirstUnexpected = r.rounds, r.first
	result.LateP99Micros = r.late.quantile(0.99)
	result.CPUSeconds = cpu
	if result.Seconds = (ended - r.warm).Seconds(); result.Seconds > 0 {
		result.PerSecond = float64(result.Requests) / result.Seconds
	}
	return result
}

// work is what runs side by side.
func (r *run) work() []func() {
	if r.plan.isRace() {
		close(r.due)
		return []func(){r.race}
	}
	var work []func()
	if r.plan.Rate > 0 {
		work = append(work, r.schedule)
		for _, c := range r.clients {
			work = append(work, c.open)
		}
		return work
	}
	close(r.due)
	for _, c := range r.clients {
		work = append(work, c.closed)
	}
	return work
}

// takes reports whether another request may be begun at this time, and counts it.
func (r *run) takes(at time.Duration) bool {
	if at >= r.end || r.ctx.Err() != nil {
		return false
	}
	return r.plan.Requests == 0 || at < r.warm || r.taken.Add(1) <= r.plan.Requests
}

// miss counts what fell due and cannot be sent.
func (r *run) miss(due time.Duration) {
	if due >= r.warm {
		r.unsent.Add(1)
	}
}

// nextKey is the next of the keys, in turn.
func (r *run) nextKey() string {
	if len(r.keys) == 0 {
		return ""
	}
	return r.keys[int((r.turn.Add(1)-1)%int64(len(r.keys)))]
}

// quote keeps the first thing that should not have happened.
func (r *run) quote(text string) {
	r.firstOnce.Do(func() { r.first = text[:min(len(text), maxQuoted)] })
}

func (r *run) elapsed() time.Duration { return time.Since(r.start) }

// deadline is when the last answer is given up.
func (r *run) deadline() time.Time { return r.start.Add(r.end + seconds(r.plan.GraceSeconds)) }

func (r *run) close() {
	for _, c := range r.clients {
		if c.wire != nil {
			c.wire.close()
		}
	}
}
