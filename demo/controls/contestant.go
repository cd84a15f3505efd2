package controls

import (
	"context"
	"fmt"
	"net/http"
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
	books  paymentBooks
}

// exchange is a request of the client, and its answer.
type exchange struct {
	answer

	Sent, Heard time.Time // Heard is zero while the client waits
}

// killed is the event that loses what the server was about to do.
const killed = "killed"

// event is something that has happened to the server.
type event struct {
	at   time.Time
	what string
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

func (c *contestant) happens(at time.Time, what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, event{at, what})
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

// verdict is what the client was told. The caller
// holds c.mu.
func (c *contestant) verdict() string {
	var told []string
	for _, x := range c.sent {
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

// posts counts the requests that could charge.
func (s *Controls) posts(ctx context.Context, side *contestant) (n int, err error) {
	keys := side.keys
	if keys == nil {
		keys = []string{""} // all those of the account
	}
	for _, key := range keys {
		calls, err := s.callsOf(ctx, side.account, key)
		if err != nil {
			return 0, err
		}
		n += calls.Posts
	}
	return n, nil
}

func (s *Controls) paymentBooks(ctx context.Context, key string, side *contestant) (b paymentBooks, err error) {
	keys, ours := side.keys, key
	if keys == nil {
		ours = "" // all those of the account
	}
	ledger, err := s.ledgerOf(ctx, side.account, ours)
	if err != nil {
		return b, err
	}
	for _, c := range ledger {
		if side.keys != nil {
			b.charges = append(b.charges, c)
		} else if c.Reference == key {
			b.charges, keys = append(b.charges, c), append(keys, c.IdempotencyKey)
		}
	}
	for _, k := range keys {
		calls, err := s.callsOf(ctx, side.account, k)
		if err != nil {
			return b, err
		}
		b.calls = append(b.calls, calls.Requests...)
	}
	tries, err := s.webhookTries(ctx)
	b.read = err == nil
	for _, t := range tries {
		if slices.ContainsFunc(b.charges, func(c charge) bool { return c.ID == t.EntryID }) {
			b.tries = append(b.tries, t)
		}
	}
	return b, err
}
