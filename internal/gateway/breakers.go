package gateway

import (
	"errors"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"
)

// maxBreakers bounds the accounts that have failures at once. An account without failures has no breaker: a new one knows as much.
const maxBreakers = 1024

// breakers are one circuit breaker for each account whose last requests failed. One account's failures stop nobody else's payments.
//
// When there are maxBreakers of them, a further account takes the place of one that stops nobody: one that is closed, or else one whose time
// is over, and of those the one that was used longest ago. What is lost is its count of failures. An open breaker keeps its place: otherwise
// whoever has failures in many accounts could close it. When all are open, a further account has no breaker until there is room, and only its
// share of the places limits it.
type breakers struct {
	limits Limits
	now    func() time.Time
	most   int

	mu        sync.Mutex
	byAccount map[string]*breaker
}

// errUnhealthy is what a breaker is told of an outcome that speaks against the PSP's health.
var errUnhealthy = errors.New("psp unhealthy")

// breaker is that of one account.
type breaker struct {
	*gobreaker.TwoStepCircuitBreaker[struct{}]
	users int // requests under way that will report to it
	used  time.Time
}

func newBreakers(l Limits, now func() time.Time, most int) *breakers {
	return &breakers{limits: l, now: now, most: most, byAccount: map[string]*breaker{}}
}

// open reports whether the account's requests are refused now.
func (b *breakers) open(account string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := b.byAccount[account]
	return own != nil && own.State() == gobreaker.StateOpen
}

// allow reports whether the account may send a request. What came of the request is to be reported once.
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
		if own.users--; own.users == 0 && own.State() == gobreaker.StateClosed && own.Counts().ConsecutiveFailures == 0 {
			delete(b.byAccount, account)
		}
	}, true
}

// evict makes room for one account, if it can.
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
