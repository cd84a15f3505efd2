package crowd

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"payonce/lab/history"
)

const (
	againAtOnce = 16
	againTries  = 5
)

// asked is a key with what it was used for: an operation of each intent, and the one that has a final answer, if any.
type asked struct {
	name    string
	life    int // the latest
	intents map[string]history.Operation
	final   string
}

// AskAgain has each client whose key has no final answer yet send it once more, now that all is well; or, if everything
// is asked for, each key that there is. What it hears is recorded. It returns what keys still have none, by their
// names.
func (c *Crowd) AskAgain(ctx context.Context, operations []history.Operation, everything bool) map[string]string {
	open := map[string]string{}
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(againAtOnce)
	for _, key := range keysOf(operations) {
		if (key.final != "" || key.hopeless()) && !everything {
			continue
		}
		group.Go(func() error {
			if state := c.askFor(ctx, key); state != "" {
				mu.Lock()
				defer mu.Unlock()
				open[key.name] = state
			}
			return nil
		})
	}
	_ = group.Wait() // none of them fails
	return open
}

func keysOf(operations []history.Operation) map[string]*asked {
	keys := map[string]*asked{}
	for _, o := range operations {
		if o.Route != history.PaymentsRoute && o.Route != history.RefundsRoute {
			continue
		}
		name := o.Tenant + " " + o.Route + " " + o.Key
		key := keys[name]
		if key == nil || o.Life > key.life {
			key = &asked{name: name, life: o.Life, intents: map[string]history.Operation{}}
			keys[name] = key
		}
		if o.Life < key.life {
			continue
		}
		if _, known := key.intents[o.Intent]; !known {
			key.intents[o.Intent] = o
		}
		if o.Answered() && (o.Status == http.StatusCreated || o.Status == http.StatusPaymentRequired) {
			key.final = o.Intent
		}
	}
	return keys
}

// hopeless reports whether the PSP is told to fail it each time before anything is charged: it stays free to be tried
// again.
func (k *asked) hopeless() bool {
	for _, o := range k.intents {
		if strings.Contains(string(o.Body), `"pm_never"`) {
			return true
		}
	}
	return false
}

// askFor asks with each intent, if it is not known whose the key is. It returns what the last answer was, unless there
// was a final one, or none was to be had: a key that no request has got hold of, since all were refused, or one that
// was never executed and is too old for that.
func (c *Crowd) askFor(ctx context.Context, key *asked) string {
	last := "nothing"
	over := false
	if c.isOver(ctx, key) {
		c.missedBy.Lock()
		defer c.missedBy.Unlock()
		c.missed[key.name] = true
		return "" // who did not ask in time has missed it
	}
	for intent, o := range key.intents {
		if key.final != "" && intent != key.final {
			continue
		}
		a := c.askAs(ctx, o)
		over = over || a.final() || a.status == http.StatusGone || a.status == http.StatusConflict && !a.again() ||
			a.status == http.StatusUnprocessableEntity && len(key.intents) > 1
		last = fmt.Sprintf("%d %s", a.status, a.body)
	}
	if over {
		return ""
	}
	return "all is well again, and it still has no final answer: " + last
}

// Missed are the keys, by tenant, route and key, that were over before anybody could ask again.
func (c *Crowd) Missed() map[string]bool {
	c.missedBy.Lock()
	defer c.missedBy.Unlock()
	return maps.Clone(c.missed)
}

// isOver reports whether the key's retention is over. To ask for it would be to pay once more.
func (c *Crowd) isOver(ctx context.Context, key *asked) bool {
	if c.o.Retention == 0 {
		return false
	}
	for _, o := range key.intents {
		return c.ended(ctx, o.Client, request{tenant: o.Tenant, route: o.Route, key: o.Key}) != ""
	}
	return false
}

func (c *Crowd) askAs(ctx context.Context, o history.Operation) answer {
	luck := c.o.Plan.Carry(c.o.Plan.Clients, 2)
	r := request{
		method: http.MethodPost, path: "/payments", tenant: o.Tenant, key: o.Key, route: o.Route, intent: o.Intent,
		body: string(o.Body),
		life: max(o.Life, 1),
	}
	if o.Route == history.RefundsRoute {
		r.path = refundPath(o)
	}
	var a answer
	for try := range againTries {
		if try > 0 && !pause(ctx, luck, try) {
			break
		}
		r.api = try
		a = c.send(ctx, o.Client, r)
		if !a.again() || a.status == http.StatusBadGateway {
			break
		}
	}
	return a
}

// refundPath is not in the history: it is of the payment that the intent begins with.
func refundPath(o history.Operation) string {
	id, _, _ := strings.Cut(o.Intent, " ")
	return "/payments/" + id + "/refunds"
}
