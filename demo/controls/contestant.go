package controls

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// contestant is one of the two servers, and what is known of its payment.
type contestant struct {
	Name    string
	url     string
	account string
	keys    []string // of the requests that charge; nil: the server makes keys of its own
	control Control

	mu     sync.Mutex
	sent   []exchange // in the order in which they were sent
	events []event
	killed time.Time // when the comparison has killed it; or zero
	books  paymentBooks
}

// exchange is a request of the client, and its answer.
type exchange struct {
	answer

	Sent, Heard time.Time // Heard is zero while the client waits
}

// event is the end of the server's process, or the start of another one.
type event struct {
	at     time.Time
	starts bool
}

// awaitServer returns when the server runs: a request to a server that is away is no trial of the server.
func (c *contestant) awaitServer(ctx context.Context) bool {
	for !c.control.State().Serves {
		if !pause(ctx, lookEvery) {
			return false
		}
	}
	return true
}

func (c *contestant) kills(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.killed = at
}

// observe notes what has happened to the process since the last look, and what the PSP's books have now.
func (c *contestant) observe(now Process, books paymentBooks) {
	c.mu.Lock()
	defer c.mu.Unlock()
	away := len(c.events) > 0 && !c.events[len(c.events)-1].starts
	if now.Serves == away { // It stays away for a second, so no end is overlooked.
		at := now.Since
		if away = !now.Serves; away && c.killed.Before(at) && !c.killed.IsZero() {
			at = c.killed // The end of the process is noticed a little later.
		}
		c.events = append(c.events, event{at, now.Serves})
	}
	if books.read {
		c.books = books
	}
}

// sends notes a request. What it returns notes the answer.
func (c *contestant) sends(at time.Time) func(at time.Time, a answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.sent)
	c.sent = append(c.sent, exchange{Sent: at})
	return func(at time.Time, a answer) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.sent[n].Heard, c.sent[n].answer = at, a
	}
}

// paid reports whether the client was told so.
func (c *contestant) paid() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.sent, func(x exchange) bool { return x.Status == http.StatusCreated })
}

// verdict is what the client was told, in that order. The caller holds c.mu.
func (c *contestant) verdict() string {
	sent := slices.SortedStableFunc(slices.Values(c.sent), func(a, b exchange) int {
		if a.Heard.IsZero() != b.Heard.IsZero() {
			return cmp.Compare(b.Heard.Unix(), a.Heard.Unix()) // what is not told yet comes last
		}
		return a.Heard.Compare(b.Heard)
	})
	var told []string
	for _, x := range sent {
		said := "nothing"
		switch {
		case x.Heard.IsZero():
			said = "nothing yet"
		case x.Status != 0:
			said = fmt.Sprint(x.Status)
		}
		told = append(told, said)
	}
	return "The client was told " + strings.Join(told, ", then ") + "."
}

// paymentBooks are what the PSP has of the payment.
type paymentBooks struct {
	read    bool // otherwise nothing is known
	charges []charge
	calls   []call
	tries   []webhookTry
}

// Charges counts those that have moved money.
func (b paymentBooks) Charges() (n int) {
	for _, c := range b.charges {
		if c.moved() {
			n++
		}
	}
	return n
}

// working reports whether the PSP has a request of the server that was sent after that time, and works on it.
func (s *Controls) working(ctx context.Context, side *contestant, after time.Time) bool {
	keys := side.keys
	if keys == nil {
		keys = []string{""} // all those of the account
	}
	return slices.ContainsFunc(keys, func(key string) bool {
		calls, err := s.callsOf(ctx, side.account, key)
		return err == nil && slices.ContainsFunc(calls.Requests, func(k call) bool {
			return k.Method == http.MethodPost && k.Outcome == pending && !k.At.Before(after)
		})
	})
}

// paymentBooks reads what the PSP has of the payment with the client's key. The naive server makes keys of its own, and
// gives the client's as a reference.
func (s *Controls) paymentBooks(ctx context.Context, key string, side *contestant) (b paymentBooks) {
	query := url.Values{"account": {side.account}, "idempotencyKey": {key}}
	if side.keys == nil {
		query = url.Values{"account": {side.account}, "reference": {key}}
	}
	var err error
	if b.charges, err = s.ledgerOf(ctx, query); err != nil {
		return paymentBooks{}
	}
	keys := side.keys
	if keys == nil {
		for _, c := range b.charges {
			keys = append(keys, c.IdempotencyKey)
		}
	}
	for _, k := range keys {
		calls, err := s.callsOf(ctx, side.account, k)
		if err != nil {
			return paymentBooks{}
		}
		b.calls = append(b.calls, calls.Requests...)
	}
	tries, err := s.webhookTries(ctx)
	for _, t := range tries {
		if slices.ContainsFunc(b.charges, func(c charge) bool { return c.ID == t.EntryID }) {
			b.tries = append(b.tries, t)
		}
	}
	b.read = err == nil
	return b
}
