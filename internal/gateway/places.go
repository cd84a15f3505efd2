package gateway

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// places are the requests that may be under way at once. An account holds at most half of the places that are free when it asks, and may
// always hold one if one is free. So one account whose requests all hang takes a third of the places, two take a quarter each, and the next
// account finds room.
type places struct {
	mu       sync.Mutex
	total    int
	free     int
	accounts map[string]*tenancy // those that hold a place or wait for one, so their number is bounded by that of the callers
}

// tenancy is what one account holds, and its callers that wait, the first to come first.
type tenancy struct {
	held    int
	waiting list.List // of chan struct{}, which is closed when its caller has a place
}

func newPlaces(total int) *places {
	return &places{total: total, free: total, accounts: map[string]*tenancy{}}
}

// taken is the number of requests under way.
func (p *places) taken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total - p.free
}

// enter takes a place for the account and waits for one no longer than patience. Without a place it says why.
func (p *places) enter(ctx context.Context, account string, patience time.Duration) (leave func(), refusal string) {
	leave = func() { p.leave(account) }
	if ctx.Err() != nil {
		return nil, "ended before it was sent"
	}
	turn := p.ask(account)
	if turn == nil {
		return leave, "" // nearly always: a timer is for those who wait
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
	return leave, "" // the place came at the last moment
}

// ask takes a place at once and returns nil, or returns the caller's turn among those of its account that wait.
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

// giveUp ends the caller's wait. It reports false if the caller has a place.
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

// leave gives a place back, and gives to those who wait what they may take now.
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

// next is, of the accounts that wait and may take a place, the one that holds the fewest. It is nil if there is none.
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
