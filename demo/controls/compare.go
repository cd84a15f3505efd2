package controls

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"
)

// A comparison sends the same payment to the naive server and to Payonce, and the same thing fails for both. What it
// shows is seen from outside: what the client was told, and what the PSP has in its books.

// Naive is a server that charges twice.
type Naive struct {
	URL     string
	Account string // at the PSP
	Control Control
}

// fate is what happens to the payment, at both servers alike.
type fate struct {
	Name, Label, Means string

	token   string
	copies  int           // requests that are sent at once
	kill    bool          // the server is killed while the PSP works
	settles time.Duration // how long after the last answer the PSP may still charge
}

// fates are what the page offers. late is how long after a lost answer the PSP may charge.
func fates(late time.Duration) []fate {
	return []fate{
		{Name: "lost", Label: "Lose the answer", token: "pm_reset_charged", copies: 1,
			Means: "The PSP charges, and the connection breaks before its answer."},
		{Name: "twice", Label: "Two at once", token: "pm_slow", copies: 2, //nolint:mnd // two
			Means: "The client sends the request twice at the same time."},
		{Name: "kill", Label: "kill -9", token: "pm_slow", copies: 1, kill: true,
			Means: "The server is killed while the PSP charges."},
		{Name: "late", Label: "Charge late", token: "pm_late_charge", copies: 1, settles: late,
			Means: "The PSP closes the connection, and charges some seconds later."},
	}
}

const (
	// mostFailures is how often the client sends a request that fails. Nobody has told it that it has paid, or that it
	// has not; a person would try again for longer.
	mostFailures = 2
	// triesAgainAfter is the client's pause.
	triesAgainAfter = 2 * time.Second
	// compareLimit bounds a comparison. The longest, kill -9 without webhooks, takes as long as a lease and a lookup.
	compareLimit = time.Minute
)

// comparison is one payment at both servers.
type comparison struct {
	fate     fate
	key      string
	provider string // whose dialect the PSP speaks; or ""
	sides    []*contestant

	ended *comparedView // what is shown of it when it is over; nil while it goes on
}

// comparesPrefix begins what the log says of a comparison.
const comparesPrefix = "compare: "

// comparing is the newest comparison.
type comparing struct {
	mu     sync.Mutex
	latest *comparison
}

// compared is nil before the first comparison.
func (s *Controls) compared() *comparedView {
	s.comparing.mu.Lock()
	defer s.comparing.mu.Unlock()
	c := s.comparing.latest
	switch {
	case c == nil:
		return nil
	case c.ended != nil:
		return c.ended
	}
	v := c.view()
	v.Running = true
	return &v
}

// postCompare begins a comparison, unless one goes on.
func (s *Controls) postCompare(w http.ResponseWriter, r *http.Request) {
	all := fates(s.config.Late)
	chosen := slices.IndexFunc(all, func(f fate) bool { return f.Name == r.PostFormValue("fate") })
	if chosen < 0 {
		http.Error(w, "there is no such fate", http.StatusBadRequest)
		return
	}
	s.told.note(comparesPrefix+all[chosen].Label, s.compare(all[chosen]))
	s.back(w, r, r.PostFormValue("key"), atCompare)
}

// compare begins a comparison, and says so, or why not.
func (s *Controls) compare(f fate) string {
	for name, c := range map[string]Control{"the naive server": s.config.Naive.Control, "the API": s.config.API} {
		if !c.State().Serves {
			return "not sent: " + name + " does not run at the moment"
		}
	}
	key := newKey()
	c := &comparison{fate: f, key: key, provider: s.config.Provider, sides: []*contestant{
		{Name: "A naive server", url: s.config.Naive.URL, account: s.config.Naive.Account,
			control: s.config.Naive.Control},
		{Name: "Payonce", url: s.config.PublicURL, account: s.config.Account, control: s.config.API,
			keys: s.config.ChargeKeys(key)},
	}}
	s.comparing.mu.Lock()
	defer s.comparing.mu.Unlock()
	if latest := s.comparing.latest; latest != nil && latest.ended == nil {
		return "not sent: another comparison goes on"
	}
	s.comparing.latest = c
	s.active.Go(func() {
		ctx, cancel := context.WithTimeout(s.ctx, compareLimit)
		defer cancel()
		var sides sync.WaitGroup
		for _, side := range c.sides {
			sides.Go(func() { s.play(ctx, c, side) })
		}
		sides.Wait()
		ended := c.view()
		ended.CutOff = ctx.Err() != nil
		s.told.note(comparesPrefix+f.Label, ended.verdict())
		s.comparing.mu.Lock()
		defer s.comparing.mu.Unlock()
		c.ended = &ended
	})
	return "sent to both servers"
}

// play is the whole payment at one of the servers. The PSP's books are read all the time, so that the page shows how
// they change.
func (s *Controls) play(ctx context.Context, c *comparison, side *contestant) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		began := s.config.Now()
		var copies sync.WaitGroup
		for range c.fate.copies {
			copies.Go(func() { s.insist(ctx, c, side) })
		}
		if c.fate.kill {
			s.killMeanwhile(ctx, side, began)
		}
		copies.Wait()
		if !side.paid() {
			pause(ctx, c.fate.settles)
		}
	}()
	for over := false; !over; {
		select {
		case <-ended:
			over = true
		case <-time.After(lookEvery):
		}
		side.observe(side.control.State(), s.paymentBooks(ctx, c.key, side))
	}
}

// insist is the client. It sends the request until it has its final answer. An answer that says "not yet" is asked for
// again, and a request that has failed is sent again.
func (s *Controls) insist(ctx context.Context, c *comparison, side *contestant) {
	p := payment{Key: c.key, Token: c.fate.token, Amount: usualAmount}
	for failures, again := 0, false; failures < mostFailures; again = true {
		answered := side.sends(s.config.Now())
		a := s.pay(ctx, side.url, p, patience, again)
		if ctx.Err() != nil {
			return // The demo stops looking, and the client would still wait.
		}
		answered(s.config.Now(), a)
		switch {
		case a.Status == http.StatusAccepted, a.Status == http.StatusConflict:
		case a.Status != 0 && a.Status < http.StatusInternalServerError:
			return
		default:
			failures++
		}
		if failures == mostFailures || !pause(ctx, triesAgainAfter) || !side.awaitServer(ctx) {
			return
		}
	}
}

// pause reports whether the time is over. Otherwise ctx has ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// killMeanwhile kills the server when its request has reached the PSP.
func (s *Controls) killMeanwhile(ctx context.Context, side *contestant, began time.Time) {
	for !s.working(ctx, side, began) {
		if !pause(ctx, lookEvery) {
			return
		}
	}
	side.kills(s.config.Now())
	if err := side.control.Kill(); err != nil {
		s.told.note("kill -9 "+side.Name, "not done: "+err.Error())
	}
}
