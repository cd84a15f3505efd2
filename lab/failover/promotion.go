package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"payonce/lab/failover/patroni"
	"payonce/lab/history"
	"payonce/lab/payers"
	"payonce/lab/program"
	"payonce/lab/world"
)

const (
	// promotionLimit bounds the wait until Patroni promotes somebody: longer than its ttl.
	promotionLimit = 90 * time.Second
	// findLimit is how long the programs may take until a payment is done on a new primary. This time is ours, and is
	// judged.
	findLimit = 2 * time.Second
	// readEvery is the pause between two reads of what was acknowledged.
	readEvery = 50 * time.Millisecond
)

// endure lets the clients pay before the event, while it lasts, and after it.
func (s *stage) endure(ctx context.Context, e event, leader int, o *outcome) error {
	c, n := s.lab.managed.cluster, s.lab.settings.payments()
	s.crowd.Start(ctx)
	if err := s.crowd.AwaitMore(ctx, n); err != nil {
		return fmt.Errorf("before the event: %w", err)
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	var seen sync.WaitGroup
	promotions := make(chan promotion, c.Nodes())
	for i := range c.Nodes() {
		seen.Go(func() { s.watchPromotion(watching, c, i, promotions) })
	}
	var reads, vanished int
	seen.Go(func() { reads, vanished = s.readBack(watching) })
	at := s.crowd.Recorder.Now()
	if err := e.happens(ctx, c, leader); err != nil {
		return err
	}
	promoted, err := awaitPromotion(ctx, e, promotions)
	if err != nil {
		return err
	}
	if err := s.crowd.AwaitMore(ctx, n); err != nil {
		return fmt.Errorf("after the event: %w", err)
	}
	s.crowd.Stop()
	stop()
	seen.Wait()
	select {
	case promoted = <-promotions: // of an event after which there need be none
	default:
	}
	o.Facts.Tell("longest time without a 201", "%s", rounded(s.longestPause(at)))
	o.Facts.Tell("answers from the event on", "%s", counted(s.crowd.AnswersAfter(at)))
	o.Facts.Tell("acknowledged, and read again", "%d times; not found: %d", reads, vanished)
	if vanished > 0 {
		o.broken("%d reads of what was acknowledged were answered 404", vanished)
	}
	return s.tellPromotion(promoted, at, o)
}

// promotion is when a standby became the primary, and when the primary has acknowledged its first commit.
type promotion struct {
	at, commits time.Duration
	clock       time.Time // of at
}

// watchPromotion waits for the promotion of a node, and pays there as soon as it commits. The clients may all wait for
// what became of earlier payments.
func (s *stage) watchPromotion(ctx context.Context, c *patroni.Cluster, i int, into chan<- promotion) {
	if !c.AwaitPromotion(ctx, i) {
		return
	}
	p := promotion{at: s.crowd.Recorder.Now(), clock: time.Now()}
	if c.AwaitCommit(ctx, i) != nil {
		return
	}
	p.commits = s.crowd.Recorder.Now()
	if s.payUntilCharged(ctx, fmt.Sprintf("after-the-promotion-of-%d", i)) == nil {
		into <- p
	}
}

// tellPromotion judges the part that is ours: to find the new primary, and to pay there as soon as it commits.
func (s *stage) tellPromotion(p promotion, event time.Duration, o *outcome) error {
	if p.at == 0 {
		return nil
	}
	var slowest time.Duration
	for _, process := range slices.Concat(s.apis, s.reconcilers) {
		found, err := primaryFound(process.Log, p.clock)
		if err != nil {
			return err
		}
		slowest = max(slowest, found.Sub(p.clock))
	}
	first := s.crowd.FirstNewAfter(p.at)
	o.Facts.Tell("promotion", "%s after the event", rounded(p.at-event))
	o.Facts.Tell("found by all programs", "%s after it", rounded(slowest))
	o.Facts.Tell("the new primary commits", "%s after it", rounded(p.commits-p.at))
	o.Facts.Tell("first new 201", "%s after it", rounded(first))
	if slowest > findLimit || first > p.commits-p.at+findLimit {
		o.broken("the new primary was found after %s, and the first payment done %s after its first commit; want %s",
			slowest, first-(p.commits-p.at), findLimit)
	}
	return nil
}

// primaryFound is when a program has logged that it has found the primary of this promotion.
func primaryFound(log string, promoted time.Time) (time.Time, error) {
	raw, err := os.ReadFile(log)
	if err != nil {
		return time.Time{}, err
	}
	for line := range strings.Lines(string(raw)) {
		var said struct {
			Time time.Time `json:"time"`
			Msg  string    `json:"msg"`
		}
		// The lab may see the promotion a moment later than the program.
		if json.Unmarshal([]byte(line), &said) == nil && said.Msg == "primary found" &&
			said.Time.After(promoted.Add(-time.Second)) {
			return said.Time, nil
		}
	}
	return time.Time{}, fmt.Errorf("%s: the new primary was not found", filepath.Base(log))
}

func awaitPromotion(ctx context.Context, e event, promotions <-chan promotion) (promotion, error) {
	if !e.promotes {
		return promotion{}, nil
	}
	limit := time.NewTimer(promotionLimit)
	defer limit.Stop()
	select {
	case p := <-promotions:
		return p, nil
	case <-limit.C:
		return promotion{}, fmt.Errorf("nobody was promoted within %s", promotionLimit)
	case <-ctx.Done():
		return promotion{}, ctx.Err()
	}
}

// readBack reads what was acknowledged last, in turn at each API. It is there, or the API cannot tell now.
func (s *stage) readBack(ctx context.Context) (reads, vanished int) {
	for turn := 0; program.Wait(ctx, readEvery); turn++ {
		operations := s.crowd.Recorder.Operations()
		slices.Reverse(operations)
		i := slices.IndexFunc(operations, func(o history.Operation) bool {
			return payers.Final(o.Status) || o.Status == http.StatusAccepted
		})
		if i < 0 {
			continue
		}
		var paid struct {
			ID string `json:"paymentId"`
		}
		if json.Unmarshal(operations[i].Answer, &paid) != nil || paid.ID == "" {
			continue
		}
		a, err := s.crowd.HTTP.Do(ctx, s.apis[turn%len(s.apis)].Address, world.Request{
			Method: http.MethodGet, Path: "/payments/" + paid.ID, As: s.Keys.Acme,
		})
		if err != nil {
			continue
		}
		reads++
		if a.Status == http.StatusNotFound {
			vanished++
		}
	}
	return reads, vanished
}

// longestPause is the longest time without a 201, from a moment before the event on.
func (s *stage) longestPause(at time.Duration) (longest time.Duration) {
	var done []time.Duration
	for _, o := range s.crowd.Recorder.Operations() {
		if o.Status == http.StatusCreated && o.Return >= at-time.Second {
			done = append(done, o.Return)
		}
	}
	slices.Sort(done)
	for i := range max(0, len(done)-1) {
		longest = max(longest, done[i+1]-done[i])
	}
	return longest
}
