package wire

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"payonce/internal/gateway"
)

// places are the requests that may be in flight at the same time. An account holds at most half of the places that are
// free when it asks. If a place is free, an account without one always gets it. So one account whose requests all hang
// takes a third of the places, two such accounts take a quarter each, and the next account still finds a place.
type places struct {
	mu    sync.Mutex
	total int
	free  int
	// accounts are those that hold a place or wait for one. So there are never more of them than callers.
	accounts map[string]*tenancy
}

// tenancy is the places that one account holds, and its waiting callers in the order of their arrival.
type tenancy struct {
	held    int
	waiting list.List // of chan struct{}; it is closed when its caller gets a place
}

func newPlaces(total int) *places {
	return &places{total: total, free: total, accounts: map[string]*tenancy{}}
}

// taken is the number of requests in flight.
func (p *places) taken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total - p.free
}

// enter takes a place for the account. It waits for one at most as long as patience. If it gets no place, refusal says
// why.
func (p *places) enter(ctx context.Context, account string, patience time.Duration) (leave func(), refusal string) {
	leave = func() { p.leave(account) }
	if ctx.Err() != nil {
		return nil, "ended before it was sent"
	}
	turn := p.ask(account)
	if turn == nil {
		return leave, "" // This is the usual case. Only a caller that waits needs a timer.
	}
	wait := time.NewTimer(patience)
	defer wait.Stop()
	select {
	case <-turn.Value.(chan struct{}):
		return leave, ""
	case <-wait.C:
		refusal = "too many requests to the PSP in flight"
	case <-ctx.Done():
		refusal = "ended before it was sent"
	}
	if p.giveUp(account, turn) {
		return nil, refusal
	}
	return leave, "" // The place became free at the last moment.
}

// ask takes a place at once and returns nil. If it gets none, it puts the caller among the account's waiting callers,
// and returns the caller's element in that list.
func (p *places) ask(account string) *list.Element {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.accounts[account]
	if t == nil {
		t = &tenancy{}
		p.accounts[account] = t
	}
	if t.waiting.Len() == 0 && p.mayTake(t) {
		p.take(t)
		return nil
	}
	return t.waiting.PushBack(make(chan struct{}))
}

// giveUp ends the caller's wait. It returns false if the caller has a place already.
func (p *places) giveUp(account string, turn *list.Element) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-turn.Value.(chan struct{}):
		return false
	default:
	}
	t := p.accounts[account]
	t.waiting.Remove(turn)
	p.forget(account, t)
	return true
}

// leave gives a place back. Then it gives the free places to the callers that wait and may take one.
func (p *places) leave(account string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.accounts[account]
	t.held--
	p.free++
	p.forget(account, t)
	for next := p.next(); next != nil; next = p.next() {
		p.take(next)
		close(next.waiting.Remove(next.waiting.Front()).(chan struct{}))
	}
}

// next is the account that gets the next place. Of the accounts that wait and may take a place, it is the one that
// holds the fewest. It is nil if there is none.
func (p *places) next() (next *tenancy) {
	for _, t := range p.accounts {
		if t.waiting.Len() > 0 && p.mayTake(t) && (next == nil || t.held < next.held) {
			next = t
		}
	}
	return next
}

func (p *places) mayTake(t *tenancy) bool { return p.free > 0 && t.held < max(1, p.free/2) }

func (p *places) take(t *tenancy) {
	t.held++
	p.free--
}

func (p *places) forget(account string, t *tenancy) {
	if t.held == 0 && t.waiting.Len() == 0 {
		delete(p.accounts, account)
	}
}

// maxBreakers bounds how many accounts have a breaker at the same time. An account without failures needs none: a new
// breaker has the same state.
const maxBreakers = 1024

// breakers are the circuit breakers of the accounts whose last requests failed, one for each account. So the failures
// of one account stop no other account's payments.
//
// If there are maxBreakers of them, a further account replaces a breaker that refuses no requests. A closed one is
// replaced first, then a half-open one, and among these the one that was used longest ago. The replaced account loses
// its count of failures. An open breaker is never replaced: otherwise somebody with failures in many accounts could
// close it. If all are open, a further account has no breaker for now, and only its share of the places limits it.
type breakers struct {
	limits gateway.Limits
	now    func() time.Time
	most   int

	mu        sync.Mutex
	byAccount map[string]*breaker
}

// errUnhealthy tells a breaker that an outcome is a sign of an unhealthy PSP.
var errUnhealthy = errors.New("psp unhealthy")

// breaker is the circuit breaker of one account.
type breaker struct {
	*gobreaker.TwoStepCircuitBreaker[struct{}]
	users int // requests in flight that will report to it
	used  time.Time
}

func newBreakers(l gateway.Limits, now func() time.Time, most int) *breakers {
	return &breakers{limits: l, now: now, most: most, byAccount: map[string]*breaker{}}
}

// open reports whether the account's requests are refused now.
func (b *breakers) open(account string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := b.byAccount[account]
	return own != nil && own.State() == gobreaker.StateOpen
}

// allow reports whether the account may send a request. If it may, the caller must call report once, with the result.
func (b *breakers) allow(account string) (report func(healthy bool), ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := b.byAccount[account]
	if own == nil {
		if len(b.byAccount) >= b.most && !b.evict() {
			return func(bool) {}, true
		}
		own = b.newBreaker()
		b.byAccount[account] = own
	}
	own.used = b.now()
	done, err := own.Allow()
	if err != nil {
		return nil, false
	}
	own.users++
	return func(healthy bool) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if healthy {
			done(nil)
		} else {
			done(errUnhealthy)
		}
		if own.users--; own.users == 0 && own.State() == gobreaker.StateClosed &&
			own.Counts().ConsecutiveFailures == 0 {
			delete(b.byAccount, account)
		}
	}, true
}

// evict removes one breaker that can be replaced. It returns false if there is none.
func (b *breakers) evict() bool {
	var victim string
	var least *breaker
	for account, own := range b.byAccount {
		if own.users > 0 || own.State() == gobreaker.StateOpen {
			continue
		}
		if least == nil || own.State() < least.State() || own.State() == least.State() && own.used.Before(least.used) {
			victim, least = account, own
		}
	}
	if least != nil {
		delete(b.byAccount, victim)
	}
	return least != nil
}

func (b *breakers) newBreaker() *breaker {
	return &breaker{TwoStepCircuitBreaker: gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:        "psp",
		MaxRequests: 1,
		Timeout:     b.limits.BreakerOpen,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= b.limits.BreakerFailures },
	})}
}
