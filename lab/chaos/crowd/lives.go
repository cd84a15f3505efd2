package crowd

import (
	"context"
	"net/http"
	"net/url"
	"sync"
	"time"

	"payonce/lab/chaos/plan"
	"payonce/lab/history"
)

// lives counts the lives of keys. A key whose retention is over is free for another request, which begins its next
// life. So that each request belongs to one life for sure, no key is used in the last part of its retention, and none
// again before the server has said that it is over.
type lives struct {
	retention time.Duration // of the server; 0: no key expires in this run

	mu sync.Mutex
	of map[string]*life
}

// life is the latest of a key.
type life struct {
	number int    // from 1
	how    string // the one before it had ended: "expired" or "deleted"
	order  int64  // that it was begun with
	began  time.Time
	sent   int  // requests under way
	named  bool // an answer has named a payment or refund
}

// slack is the longest time from a client's decision to send a request until the server has reserved the key for it: a
// paused process or a locked table may come in between, and the client's patience does not end it.
const slack = requestPatience + 2*time.Second

func newLives(retention time.Duration) *lives {
	return &lives{retention: retention, of: map[string]*life{}}
}

func (r request) keyName() string { return r.tenant + " " + r.route + " " + r.key }

func (r request) keyed() bool {
	return r.route == history.PaymentsRoute || r.route == history.RefundsRoute
}

// enter lets a request into the latest life of its key. It lets none in whose key may expire before the request is
// through, and none with an order of an earlier life: that would begin another life unseen, or be paid for in two.
func (l *lives) enter(r request) (number int, how string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.of[r.keyName()]
	if now == nil {
		now = &life{number: 1, order: r.order, began: time.Now()}
		l.of[r.keyName()] = now
	}
	if l.retention > 0 && (now.order != r.order || time.Since(now.began) > l.retention-slack) {
		return 0, "", false
	}
	now.sent++
	return now.number, now.how, true
}

// leave ends what enter has begun.
func (l *lives) leave(r request, named bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.of[r.keyName()]
	now.sent--
	now.named = now.named || named
}

// mayBeOver reports whether the retention of a key's latest life can be over, with no request of it under way.
func (l *lives) mayBeOver(r request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.of[r.keyName()]
	return now != nil && l.retention > 0 && now.named && now.sent == 0 && time.Since(now.began) > l.retention
}

// lasts reports whether the retention of a payment's key can not be over yet.
func (l *lives) lasts(of paid) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.of[request{tenant: of.tenant, route: history.PaymentsRoute, key: of.key}.keyName()]
	return l.retention == 0 || now != nil && time.Since(now.began) < l.retention-slack
}

// renew begins the next life, unless somebody else has done so meanwhile.
func (l *lives) renew(r request, how string) bool {
	if !l.mayBeOver(r) {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.of[r.keyName()]
	if before.sent > 0 || time.Since(before.began) <= l.retention {
		return false
	}
	l.of[r.keyName()] = &life{number: before.number + 1, how: how, order: r.order, began: time.Now()}
	return true
}

// reborn uses a key again whose retention is over, for another order.
func (c *Crowd) reborn(ctx context.Context, e plan.Errand) {
	r := c.payment(e, e.Order)
	if !c.lives.mayBeOver(r) {
		return
	}
	how := c.ended(ctx, e.Client, r)
	if how == "" || !c.lives.renew(r, how) {
		return
	}
	c.o.Tally.One("key used again", how)
	if e.N%2 == 0 {
		c.race(ctx, e, r)
	} else {
		c.persist(ctx, e, r)
	}
	if e.N%3 == 0 {
		c.send(ctx, e.Client, c.payment(e, e.Other))
	}
}

// ended asks the server how a key has ended: "expired", "deleted", or not at all.
func (c *Crowd) ended(ctx context.Context, client int, r request) string {
	a := c.send(ctx, client, request{
		method: http.MethodGet, path: "/idempotency-keys/" + r.key + "?" + url.Values{"operation": {r.route}}.Encode(),
		tenant: r.tenant,
		route:  "key over", api: r.api,
	})
	switch a.status {
	case http.StatusGone:
		return "expired"
	case http.StatusNotFound:
		return "deleted"
	}
	return ""
}
