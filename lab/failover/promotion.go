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
	// readBehind is how many of the last acknowledgements are read, in turn.
	readBehind = 50
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
	var reads map[int]int
	seen.Go(func() { reads = s.readBack(watching) })
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
	if s.lab.settings.DCS != "" {
		e.pause = 0
	}
	o.tellPause(s.longestPause(at), e.pause)
	o.Facts.Tell("answers from the event on", "%s", counted(s.crowd.AnswersAfter(at)))
	o.tellReads(reads)
	return s.tellPromotion(promoted, at, o)
}

// tellPause judges the longest time without a 201, if there is a limit.
func (o *outcome) tellPause(longest, limit time.Duration) {
	o.Facts.Tell("longest time without a 201", "%s", rounded(longest))
	if limit > 0 && longest > limit {
		o.broken("no payment was done for %s, want less than %s", longest, limit)
	}
}

// tellReads judges the answers to reads of what was acknowledged. An API that cannot tell now says so.
func (o *outcome) tellReads(reads map[int]int) {
	o.Facts.Tell("acknowledged, and read again", "%s", counted(reads))
	for status, n := range reads {
		if status != http.StatusOK && status != http.StatusServiceUnavailable {
			o.broken("%d reads of what was acknowledged were answered %d", n, status)
		}
	}
	if reads[http.StatusOK] == 0 {
		o.broken("nothing that was acknowledged was read again")
	}
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
	o.Facts.Tell("promotion", "%s after the event", rounded(p.at-event))
	o.tellFound(slowest, p.commits-p.at, s.crowd.FirstNewAfter(p.at))
	return nil
}

// tellFound judges times that count from the promotion: until all programs had found the new primary, until it had
// acknowledged a commit, and until the first new payment was done, which is negative if there was none.
func (o *outcome) tellFound(slowest, commits, first time.Duration) {
	o.Facts.Tell("found by all programs", "%s after it", rounded(slowest))
	o.Facts.Tell("the new primary commits", "%s after it", rounded(commits))
	o.Facts.Tell("first new 201", "%s after it", rounded(first))
	switch {
	case first < 0:
		o.broken("no payment was done after the promotion")
	case slowest > findLimit, first > commits+findLimit:
		o.broken("the new primary was found after %s, and the first payment done %s after its first commit; want %s",
			slowest, first-commits, findLimit)
	}
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

// readBack reads the last payments that were acknowledged, one after the other, in turn at each API, and counts the
// answers. A payment is there, or the API cannot tell now.
func (s *stage) readBack(ctx context.Context) map[int]int {
	answers := map[int]int{}
	for turn := 0; program.Wait(ctx, readEvery); turn++ {
		ids := lastAcknowledged(s.crowd.Recorder.Operations(), readBehind)
		if len(ids) == 0 {
			continue
		}
		// Each round begins at another API, so that each payment is read at each of them.
		api := s.apis[(turn+turn/len(ids))%len(s.apis)]
		a, err := s.crowd.HTTP.Do(ctx, api.Address, world.Request{
			Method: http.MethodGet, Path: "/payments/" + ids[turn%len(ids)], As: s.Keys.Acme,
		})
		if err == nil {
			answers[a.Status]++
		}
	}
	return answers
}

// lastAcknowledged are the ids of the last n payments that were acknowledged, the last one first.
func lastAcknowledged(operations []history.Operation, n int) (ids []string) {
	for _, o := range slices.Backward(operations) {
		var paid struct {
			ID string `json:"paymentId"`
		}
		acknowledged := payers.Final(o.Status) || o.Status == http.StatusAccepted
		if !acknowledged || json.Unmarshal(o.Answer, &paid) != nil || paid.ID == "" || slices.Contains(ids, paid.ID) {
			continue
		}
		if ids = append(ids, paid.ID); len(ids) == n {
			break
		}
	}
	return ids
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
